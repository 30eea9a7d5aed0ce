package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// kubelets start and terminate the pods of one case after times that they draw.
type kubelets struct {
	client kubernetes.Interface
	failed func(error)
	c      testCase

	mu     sync.Mutex
	random *rand.Rand
	// seen are the pods that are being started, and ending those that are being terminated.
	seen, ending map[types.UID]bool
	// pulled is when a node has an image.
	pulled map[string]time.Time
}

func newKubelets(client kubernetes.Interface, c testCase, failed func(error)) *kubelets {
	return &kubelets{client: client, failed: failed, c: c, random: rand.New(rand.NewPCG(c.Seed, 1)),
		seen: map[types.UID]bool{}, ending: map[types.UID]bool{}, pulled: map[string]time.Time{}}
}

// observe plans the next change of a pod.
func (k *kubelets) observe(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case pod.DeletionTimestamp != nil:
		if !k.ending[pod.UID] {
			k.ending[pod.UID] = true
			time.AfterFunc(k.c.Termination.draw(k.random), func() { k.report("remove", pod, k.remove(ctx, pod)) })
		}
	case pod.Spec.NodeName != "" && !k.seen[pod.UID]:
		k.seen[pod.UID] = true
		now := time.Now()
		image := pod.Spec.NodeName + " " + pod.Spec.Containers[0].Image
		if _, ok := k.pulled[image]; !ok {
			k.pulled[image] = now.Add(k.c.Start.pull(k.random))
		}
		wait := max(0, k.pulled[image].Sub(now)) + k.c.Start.draw(k.random)
		time.AfterFunc(wait, func() { k.report("start", pod, k.start(ctx, pod)) })
	}
}

func (k *kubelets) report(what string, pod *corev1.Pod, err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		k.failed(fmt.Errorf("%s pod %s/%s: %w", what, pod.Namespace, pod.Name, err))
	}
}

func (k *kubelets) start(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	var status corev1.PodStatus
	status.Phase, status.StartTime = corev1.PodRunning, &pod.CreationTimestamp
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: container.Name, Image: container.Image,
			Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return retried(func() error {
		_, err := k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

func (k *kubelets) remove(ctx context.Context, pod *corev1.Pod) error {
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
