package rollplan

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Kinds of objects that restart plans use in addition to workloads and configurations.
var (
	// Namespace is the kind of namespaces.
	Namespace = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	// PodDisruptionBudget is the kind of PodDisruptionBudgets.
	PodDisruptionBudget = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}
)

// RestartWatches are the watches of a cache for restarts.
type RestartWatches struct {
	// Kinds are the kinds of workloads.
	Kinds []*rollplanv1.WorkloadKind
	// Selector selects workloads by labels.
	Selector labels.Selector
	// Namespaces are the namespaces to watch. Without them all are watched.
	Namespaces []string
	// NamespaceSelector, if it is not nil, selects by labels the namespaces in which workloads are restarted.
	NamespaceSelector labels.Selector
	// IgnoredNamespaces are namespaces in which nothing is restarted.
	IgnoredNamespaces []string
	// ConfigurationSelector, if it is not nil, selects ConfigMaps and Secrets by labels. Changes to others restart nothing.
	ConfigurationSelector labels.Selector
	// Secrets, Classes and Budgets are whether to watch Secrets, SecretProviderClassPodStatuses and PodDisruptionBudgets.
	Secrets, Classes, Budgets bool
	// Checksums computes the summaries of configurations.
	Checksums Checksums
}

// complete reports whether a configuration that is not in the cache does not exist.
func (w RestartWatches) complete() bool { return w.Secrets && w.ConfigurationSelector == nil }

// WorkloadKinds returns the kinds of workloads of Kubernetes that a profile restarts.
func WorkloadKinds(profile rollplanv1.RestartProfile) []*rollplanv1.WorkloadKind {
	kinds := []*rollplanv1.WorkloadKind{
		{ApiVersion: "apps/v1", Kind: "Deployment"}, {ApiVersion: "apps/v1", Kind: "StatefulSet"},
		{ApiVersion: "apps/v1", Kind: "DaemonSet"}, {ApiVersion: "batch/v1", Kind: "CronJob"}, {ApiVersion: "batch/v1", Kind: "Job"},
	}
	if profile == rollplanv1.RestartProfile_RESTART_PROFILE_XING {
		return kinds[:2]
	}
	return kinds
}

// NewRestartCache returns a cache for [Restarts]. It never holds a value of a configuration: objects are trimmed, and
// configurations replaced by checksums, before they are stored.
func NewRestartCache(api *API, watches RestartWatches) (*Cache, error) {
	seen := newHistory()
	summarize := seen.configuration(watches.Checksums)
	kinds := []watched{
		{kind: ConfigMap, selector: watches.ConfigurationSelector, transform: summarize, forget: seen.forget},
		{kind: ReplicaSet, transform: trimReplicaSet},
		{kind: Pod, transform: seen.pod, forget: seen.forget},
		{kind: Namespace, transform: trimOther},
	}
	for _, optional := range []struct {
		isWatched bool
		watched
	}{
		{watches.Secrets, watched{kind: Secret, selector: watches.ConfigurationSelector, transform: summarize, forget: seen.forget}},
		{watches.Classes, watched{kind: SecretProviderClassPodStatus, transform: summarize, forget: seen.forget}},
		{watches.Budgets, watched{kind: PodDisruptionBudget, transform: trimOther}},
	} {
		if optional.isWatched {
			kinds = append(kinds, optional.watched)
		}
	}
	for _, kind := range watches.Kinds {
		kinds = append(kinds, watched{kind: gvk(kind), selector: watches.Selector, transform: trimmer(watches.Checksums.Profile, kind)})
	}
	return newCache(api, watches.Namespaces, kinds)
}

// trimmer returns the function that trims workloads for restart plans.
func trimmer(profile rollplanv1.RestartProfile, kind *rollplanv1.WorkloadKind) func(*Object) {
	// Reloader creates Jobs.
	isWhole := profile == rollplanv1.RestartProfile_RESTART_PROFILE_RELOADER && kind.GetApiVersion() == "batch/v1"
	path := templatePathOf(kind)
	return func(o *Object) { trimWorkload(o, path, isWhole) }
}

func gvk(kind *rollplanv1.WorkloadKind) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(kind.GetApiVersion(), kind.GetKind())
}
