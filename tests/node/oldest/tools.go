//go:build tools

package oldest

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
