package main

import (
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The version of Kubernetes that this program is built with, and its minor version.
var upstreamVersion, minor = builtWith()

// storesTerminating is whether the API server stores status.terminatingReplicas by default.
var storesTerminating = minor >= 35

func builtWith() (string, int) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "k8s.io/kubernetes" {
				n, err := strconv.Atoi(strings.Split(dep.Version, ".")[1])
				must(err)
				return dep.Version, n
			}
		}
	}
	panic("k8s.io/kubernetes is not a dependency")
}

// terminatingOf returns the field terminatingReplicas of a status. Kubernetes 1.32 does not have the field. It then returns
// a pointer that nothing reads.
func terminatingOf(status any) **int32 {
	if field := reflect.ValueOf(status).Elem().FieldByName("TerminatingReplicas"); field.IsValid() {
		return field.Addr().Interface().(**int32)
	}
	return new(*int32)
}

// terminatingOption is the option of plans for a server that does not store the field, or nil. Adapters send the option only
// if no ReplicaSet of the Deployment shows that the field is not stored.
func (w *World) terminatingOption() *bool {
	if storesTerminating {
		return nil
	}
	for _, rs := range owned(w) {
		if metav1.IsControlledBy(rs, w.Deployment) && rs.Status.ObservedGeneration > 0 {
			return nil
		}
	}
	return new(bool)
}

// dropDisabled removes the fields that an API server does not store by default, because their feature gates are disabled.
func (w *World) dropDisabled() {
	if !storesTerminating {
		*terminatingOf(&w.Deployment.Status) = nil
		for _, rs := range w.ReplicaSets {
			*terminatingOf(&rs.Status) = nil
		}
	}
	if minor < 34 { // PodLevelResources
		w.Deployment.Spec.Template.Spec.Resources = nil
		for _, rs := range w.ReplicaSets {
			rs.Spec.Template.Spec.Resources = nil
		}
	}
}
