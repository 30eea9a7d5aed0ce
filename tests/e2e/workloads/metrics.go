package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const metricsPath = "/apis/metrics.k8s.io/v1beta1"

// ServeMetrics runs a fake metrics server, because simulated pods use no CPU. cpu returns the usage of each container of these pods,
// for example "100m". It returns a function that ends it.
func ServeMetrics(ctx context.Context, cp *controlplane.ControlPlane, typed kubernetes.Interface, cpu func(pods []corev1.Pod) string) (stop func(), err error) {
	respond := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+metricsPath, func(w http.ResponseWriter, _ *http.Request) {
		respond(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "metrics.k8s.io/v1beta1",
			APIResources: []metav1.APIResource{{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: []string{"get", "list"}}},
		})
	})
	mux.HandleFunc("GET "+metricsPath+"/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		pods, err := typed.CoreV1().Pods(r.PathValue("namespace")).List(r.Context(), metav1.ListOptions{LabelSelector: r.FormValue("labelSelector")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		items := []any{}
		usage := map[string]any{"cpu": cpu(pods.Items), "memory": "1Mi"}
		for _, pod := range pods.Items {
			containers := []any{}
			for _, container := range pod.Spec.Containers {
				containers = append(containers, map[string]any{"name": container.Name, "usage": usage})
			}
			items = append(items, map[string]any{
				"metadata":  map[string]any{"name": pod.Name, "namespace": pod.Namespace, "labels": pod.Labels},
				"timestamp": metav1.Now(), "window": "1s", "containers": containers,
			})
		}
		respond(w, map[string]any{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetricsList", "items": items})
	})
	server := httptest.NewTLSServer(mux)
	address, err := url.Parse(server.URL)
	if err == nil {
		err = register(ctx, cp, address.Port())
	}
	if err != nil {
		server.Close()
		return nil, err
	}
	return server.Close, nil
}

// register makes the API server send requests for metrics to a port. It uses the external name of the Service as the host, so that
// no cluster network is needed.
func register(ctx context.Context, cp *controlplane.ControlPlane, port string) error {
	registration := fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics, namespace: kube-system, port: %s}
`, port)
	if _, err := cp.KubectlInput(ctx, registration, "apply", "-f", "-"); err != nil {
		return err
	}
	return controlplane.Poll(ctx, "metrics", func(ctx context.Context) error {
		out, err := cp.Kubectl(ctx, "get", "--raw", metricsPath+"/namespaces/default/pods")
		if err == nil && !strings.Contains(out, "PodMetricsList") {
			err = fmt.Errorf("response is %s", out)
		}
		return err
	})
}
