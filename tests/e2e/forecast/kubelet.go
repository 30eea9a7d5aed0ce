package main

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"rollplan.dev/rollplan/tests/e2e/workloads"
)

// newKubelets returns kubelets that start and terminate the pods of one case after times that they draw.
func newKubelets(client kubernetes.Interface, c testCase, failed func(error)) *workloads.Kubelets {
	random := rand.New(rand.NewPCG(c.Seed, 1))
	// pulled is when a node has an image.
	pulled := map[string]time.Time{}
	start := func(pod *corev1.Pod) []workloads.Change {
		now := time.Now()
		image := pod.Spec.NodeName + " " + pod.Spec.Containers[0].Image
		if _, ok := pulled[image]; !ok {
			pulled[image] = now.Add(c.Start.pull(random))
		}
		wait := max(0, pulled[image].Sub(now)) + c.Start.draw(random)
		return []workloads.Change{{After: wait, State: workloads.Ready}}
	}
	return workloads.NewKubelets(client, start, func() time.Duration { return c.Termination.draw(random) }, failed)
}
