package controlplane

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Client returns a client of the administrator. Conditions are polled with it: a process of kubectl takes 0.1 s of processor time.
func (c *ControlPlane) Client() (kubernetes.Interface, error) {
	c.clientLock.Lock()
	defer c.clientLock.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	// Fails until the API server has written its certificate.
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c.client = client
	return client, nil
}

// Deployment reads one Deployment.
func (c *ControlPlane) Deployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	return client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Deployments reads every Deployment of a namespace.
func (c *ControlPlane) Deployments(ctx context.Context, namespace string) ([]appsv1.Deployment, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	list, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ReplicaSets reads every ReplicaSet of a namespace.
func (c *ControlPlane) ReplicaSets(ctx context.Context, namespace string) ([]appsv1.ReplicaSet, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	list, err := client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Pods reads every pod of a namespace.
func (c *ControlPlane) Pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Snapshot returns the objects that a plan is made from in the JSON output of kubectl, as a user would save it.
func (c *ControlPlane) Snapshot(ctx context.Context, namespace string, flags ...string) (string, error) {
	return c.Kubectl(ctx, append([]string{"get", "deploy,rs,pods", "-n", namespace, "-o", "json"}, flags...)...)
}
