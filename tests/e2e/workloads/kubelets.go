package workloads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// PodState is a state that a kubelet reports.
type PodState int

const (
	// Ready is a pod whose containers are ready.
	Ready PodState = iota
	// Unready is a pod that is running but not ready.
	Unready
	// ImageMissing is a pod whose image cannot be pulled.
	ImageMissing
	// ImageInvalid is a pod whose image has a name that cannot be parsed.
	ImageInvalid
	// CrashLoop is a pod whose container has failed, and waits until it is restarted.
	CrashLoop
)

// Change is a change of the state of a pod, some time after the previous one.
type Change struct {
	After time.Duration
	State PodState
	// Restarts is the number of restarts of the container.
	Restarts int
}

// Kubelets start and terminate the pods of one namespace.
type Kubelets struct {
	client kubernetes.Interface
	failed func(error)
	life   func(*corev1.Pod) []Change
	death  func() time.Duration

	mu sync.Mutex
	// seen are the pods that are being started, and ending those that are being terminated.
	seen, ending map[types.UID]bool
}

// NewKubelets returns the kubelets of a namespace. The changes of a pod begin when it is scheduled, and a pod is removed some
// time after its deletion. life and death are not called concurrently.
func NewKubelets(client kubernetes.Interface, life func(*corev1.Pod) []Change, death func() time.Duration, failed func(error)) *Kubelets {
	return &Kubelets{client: client, failed: failed, life: life, death: death,
		seen: map[types.UID]bool{}, ending: map[types.UID]bool{}}
}

// Observe plans the next changes of a pod.
func (k *Kubelets) Observe(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case pod.DeletionTimestamp != nil:
		if !k.ending[pod.UID] {
			k.ending[pod.UID] = true
			time.AfterFunc(k.death(), func() { k.report("remove", pod, k.remove(ctx, pod)) })
		}
	case pod.Spec.NodeName != "" && !k.seen[pod.UID]:
		k.seen[pod.UID] = true
		k.next(ctx, pod, k.life(pod))
	}
}

// next makes the changes of a pod, until it is removed.
func (k *Kubelets) next(ctx context.Context, pod *corev1.Pod, changes []Change) {
	if len(changes) == 0 {
		return
	}
	time.AfterFunc(changes[0].After, func() {
		err := Report(ctx, k.client, pod, changes[0])
		k.report("start", pod, err)
		if err == nil {
			k.next(ctx, pod, changes[1:])
		}
	})
}

func (k *Kubelets) report(what string, pod *corev1.Pod, err error) {
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, context.Canceled) {
		k.failed(fmt.Errorf("%s pod %s/%s: %w", what, pod.Namespace, pod.Name, err))
	}
}

// Report reports a change of a pod now.
func Report(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, change Change) error {
	patch, err := json.Marshal(map[string]any{"status": change.status(pod)})
	if err != nil {
		return err
	}
	return retried(func() error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// status returns the status of a pod that changes now.
func (c Change) status(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &pod.CreationTimestamp}
	ready := corev1.ConditionFalse
	if c.State == Ready {
		ready = corev1.ConditionTrue
	}
	if c.State == ImageMissing || c.State == ImageInvalid {
		status.Phase = corev1.PodPending
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now})
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: ready, LastTransitionTime: now})
	}
	for _, container := range pod.Spec.Containers {
		reported := corev1.ContainerStatus{Name: container.Name, Image: container.Image, Ready: c.State == Ready,
			Started: new(c.State == Ready), RestartCount: int32(c.Restarts)}
		switch c.State {
		case Ready, Unready:
			reported.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
		case ImageMissing:
			reported.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}
		case ImageInvalid:
			reported.State.Waiting = &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: "Failed to apply default image tag"}
		case CrashLoop:
			reported.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off restarting failed container"}
		}
		if c.Restarts > 0 || c.State == CrashLoop {
			reported.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: now}
		}
		status.ContainerStatuses = append(status.ContainerStatuses, reported)
	}
	return status
}

func (k *Kubelets) remove(ctx context.Context, pod *corev1.Pod) error {
	return retried(func() error {
		return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	})
}

// retried repeats a call that the API server did not make.
func retried(call func() error) error {
	return retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
	}, call)
}
