//go:build tools

// Package tests names the upstream programs that the end-to-end tests build, so that go.mod pins them.
package tests

import (
	_ "k8s.io/api/core/v1"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
	_ "k8s.io/kubernetes/pkg/controller/deployment"
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/integration/framework"

	_ "go.etcd.io/etcd/server/v3/etcdmain"
)
