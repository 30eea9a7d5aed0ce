package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

const (
	// probeLabel marks a Deployment that only shows whether the native controller is running. No adapter works on it.
	probeLabel = "rollplan.dev/probe"
	// probeName is the name of that Deployment.
	probeName = "rollplan-native-controller-probe"
	// probePoll is the interval in which the status of the probe is read.
	probePoll = 2 * time.Second
	// probeInterval is the interval in which the probe is changed. The native controller observes a change within a second,
	// and after its start the latest one.
	probeInterval = 3 * time.Minute
)

// errNativeController means that the native Deployment controller is running. It would also write to the Deployments that this
// adapter manages.
var errNativeController = errors.New("the Deployment controller of kube-controller-manager is running: " +
	"disable it (--controllers=*,-deployment-controller) or use PlannedDeployments")

// errProbing means that it is not yet known whether the native controller is running.
var errProbing = errors.New("waiting to see whether the Deployment controller of kube-controller-manager is running")

// Probe determines whether the native Deployment controller is running before the adapter makes its first write: it changes
// a Deployment without pods, which no adapter manages, and checks whether its status is written. Then it continues to
// check.
type Probe struct {
	// API is the API of the cluster.
	API *rollplan.API
	// Namespace is the namespace of the Deployment.
	Namespace string
	// Wait is how long the status must not be written. It must be longer than a leader change of kube-controller-manager
	// takes.
	Wait time.Duration

	verdict atomic.Pointer[error]
}

// Err returns nil while the native controller is not running.
func (p *Probe) Err() error {
	if p == nil {
		return nil
	}
	if verdict := p.verdict.Load(); verdict != nil {
		return *verdict
	}
	return errProbing
}

// NeedLeaderElection makes the manager start the probe whenever this replica becomes the leader.
func (p *Probe) NeedLeaderElection() bool { return true }

// Start probes until the context ends.
func (p *Probe) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("probe")
	for ctx.Err() == nil {
		if err := p.probe(ctx); err != nil && ctx.Err() == nil {
			logger.Info("The probe for the native Deployment controller failed", "error", err.Error())
			sleep(ctx, probePoll)
		}
	}
	return nil
}

// probe changes the Deployment, and waits until its status is written or until the next change is due.
func (p *Probe) probe(ctx context.Context) error {
	generation, err := p.touch(ctx)
	if err != nil {
		return err
	}
	wait := p.Wait
	if p.Err() == nil {
		wait = max(probeInterval, p.Wait)
	}
	for end := time.Now().Add(wait); time.Now().Before(end); {
		sleep(ctx, probePoll)
		observed, manager, err := p.observe(ctx)
		switch {
		case err != nil:
			return err
		case observed >= generation:
			p.decide(ctx, fmt.Errorf("%w (%s has written the status of %s/%s)", errNativeController, manager, p.Namespace, probeName))
			return nil
		}
	}
	p.decide(ctx, nil)
	return nil
}

func (p *Probe) decide(ctx context.Context, verdict error) {
	before := p.Err()
	p.verdict.Store(&verdict)
	logger := log.FromContext(ctx).WithName("probe")
	switch {
	case verdict != nil && !errors.Is(before, errNativeController):
		logger.Error(verdict, "Stopped the work on all Deployments")
	case verdict == nil && before != nil:
		logger.Info("The native Deployment controller is not running")
	}
}

// touch changes the spec of the probe, or creates it, and returns its generation.
func (p *Probe) touch(ctx context.Context) (int64, error) {
	// The limit has no effect on a Deployment without ReplicaSets, but each value increments the generation.
	limit := int32(time.Now().UnixMilli() & 0x7fffffff)
	answer, err := p.call(ctx, rollplanv1.Verb_VERB_PATCH, "application/merge-patch+json", map[string]any{"spec": map[string]any{"revisionHistoryLimit": limit}})
	if apierrors.IsNotFound(err) {
		answer, err = p.call(ctx, rollplanv1.Verb_VERB_CREATE, "application/json", p.deployment(limit))
	}
	if err != nil {
		return 0, err
	}
	return gjson.GetBytes(answer.Body, "metadata.generation").Int(), nil
}

// observe returns the generation of the probe's status, and the manager that wrote it.
func (p *Probe) observe(ctx context.Context) (generation int64, manager string, err error) {
	answer, err := p.call(ctx, rollplanv1.Verb_VERB_GET, "", nil)
	if err != nil {
		return 0, "", err
	}
	return gjson.GetBytes(answer.Body, "status.observedGeneration").Int(),
		gjson.GetBytes(answer.Body, `metadata.managedFields.#(subresource=="status").manager`).String(), nil
}

func (p *Probe) call(ctx context.Context, verb rollplanv1.Verb, contentType string, body any) (rollplan.Answer, error) {
	call := &rollplanv1.ApiCall{
		Verb: verb, Path: "/apis/apps/v1/namespaces/" + p.Namespace + "/deployments", ContentType: contentType, Query: "fieldManager=rollplan",
	}
	if verb != rollplanv1.Verb_VERB_CREATE {
		call.Path += "/" + probeName
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return rollplan.Answer{}, err
		}
		call.BodyJson = string(text)
	} else {
		call.Query = ""
	}
	return p.API.Call(ctx, call)
}

func (p *Probe) deployment(limit int32) *appsv1.Deployment {
	labels := map[string]string{probeLabel: "native-controller"}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: probeName, Namespace: p.Namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Paused: true, RevisionHistoryLimit: &limit,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				// It complies with the restricted Pod Security Standard: otherwise the API server would warn about it.
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{Name: "never-started", Image: "never-started", SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					}}},
				},
			},
		},
	}
}

// sleep waits, but not beyond the end of the context.
func sleep(ctx context.Context, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
