package controlplane

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Deployment reads one Deployment.
func (c *ControlPlane) Deployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	return get[appsv1.Deployment](ctx, c, "deployment/"+name, namespace)
}

// Deployments reads every Deployment of a namespace.
func (c *ControlPlane) Deployments(ctx context.Context, namespace string) ([]appsv1.Deployment, error) {
	list, err := get[appsv1.DeploymentList](ctx, c, "deployments", namespace)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ReplicaSets reads every ReplicaSet of a namespace.
func (c *ControlPlane) ReplicaSets(ctx context.Context, namespace string) ([]appsv1.ReplicaSet, error) {
	list, err := get[appsv1.ReplicaSetList](ctx, c, "replicasets", namespace)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Pods reads every pod of a namespace.
func (c *ControlPlane) Pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	list, err := get[corev1.PodList](ctx, c, "pods", namespace)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Snapshot returns the objects that a plan is made from in the JSON output of kubectl, as a user would save it.
func (c *ControlPlane) Snapshot(ctx context.Context, namespace string, flags ...string) (string, error) {
	return c.Kubectl(ctx, append([]string{"get", "deploy,rs,pods", "-n", namespace, "-o", "json"}, flags...)...)
}

func get[T any](ctx context.Context, c *ControlPlane, what, namespace string) (*T, error) {
	out, err := c.Kubectl(ctx, "get", what, "-n", namespace, "-o", "json")
	if err != nil {
		return nil, err
	}
	var value T
	if err := json.Unmarshal([]byte(out), &value); err != nil {
		return nil, fmt.Errorf("decode %s in %s: %w", what, namespace, err)
	}
	return &value, nil
}
