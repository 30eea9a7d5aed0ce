package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const metricsPath = "/apis/metrics.k8s.io/v1beta1"

// serveMetrics runs a fake metrics server that reports the same CPU usage for every container. Simulated pods use no CPU.
func serveMetrics(ctx context.Context, t *testing.T, s *System, cpu string) {
	t.Helper()
	respond := func(w http.ResponseWriter, body any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Errorf("write metrics: %v", err)
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
		pods, err := s.Typed.CoreV1().Pods(r.PathValue("namespace")).List(r.Context(), metav1.ListOptions{LabelSelector: r.FormValue("labelSelector")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		items := []any{}
		for _, pod := range pods.Items {
			containers := []any{}
			for _, container := range pod.Spec.Containers {
				containers = append(containers, map[string]any{"name": container.Name, "usage": map[string]any{"cpu": cpu, "memory": "1Mi"}})
			}
			items = append(items, map[string]any{
				"metadata":  map[string]any{"name": pod.Name, "namespace": pod.Namespace, "labels": pod.Labels},
				"timestamp": metav1.Now(), "window": "1s", "containers": containers,
			})
		}
		respond(w, map[string]any{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetricsList", "items": items})
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	// The API server uses the external name of the Service as the host, so that no cluster network is needed.
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
`, address.Port())
	if _, err := s.KubectlInput(ctx, registration, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "metrics", func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "get", "--raw", metricsPath+"/namespaces/default/pods")
		if err == nil && !strings.Contains(out, "PodMetricsList") {
			err = fmt.Errorf("response is %s", out)
		}
		return err
	})
}
