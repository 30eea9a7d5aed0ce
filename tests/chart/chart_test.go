// Package chart tests the Helm chart without a cluster.
//
// HELM4 and HELM3 are the helm programs to render with. UPDATE_GOLDEN=1 rewrites testdata/ and adapters/config/.
package chart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../.."
	chart = root + "/helm/rollplan"
	// The oldest Kubernetes that the chart supports.
	oldest = "1.32.0"
)

var (
	update  = os.Getenv("UPDATE_GOLDEN") != ""
	scheme  = runtime.NewScheme()
	decoder = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
)

func init() {
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, apiextensions.AddToScheme, monitoring.AddToScheme, certmanager.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
}

// helm returns the programs to test with.
func helm(t *testing.T) (helm4, helm3 string) {
	t.Helper()
	helm4, helm3 = os.Getenv("HELM4"), os.Getenv("HELM3")
	if helm4 == "" || helm3 == "" {
		t.Fatal("set HELM4 and HELM3, or run: bash tests/run chart")
	}
	return helm4, helm3
}

// tryRender renders the chart with these arguments of `helm template`.
func tryRender(program, release, namespace string, args ...string) ([]byte, error) {
	command := exec.Command(program, append([]string{"template", release, chart, "-n", namespace, "--kube-version", oldest}, args...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, errors.New(stderr.String())
	}
	return out, nil
}

func render(t *testing.T, args ...string) []runtime.Object {
	t.Helper()
	helm4, _ := helm(t)
	text, err := tryRender(helm4, "rollplan", "rollplan-system", args...)
	if err != nil {
		t.Fatalf("helm template %v: %v", args, err)
	}
	return decode(t, text)
}

// decode decodes all documents strictly: an unknown or duplicate field is an error.
func decode(t *testing.T, text []byte) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	buffer := make([]byte, len(text)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		document := buffer[:n]
		var value map[string]any
		if err := yaml.Unmarshal(document, &value); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if len(value) == 0 {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// id names an object: kind, namespace and name.
func id(t *testing.T, object runtime.Object) string {
	t.Helper()
	accessor, err := meta.Accessor(object)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s/%s", object.GetObjectKind().GroupVersionKind().Kind, accessor.GetNamespace(), accessor.GetName())
}

func ciFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no ci/*-values.yaml", err)
	}
	return files
}

// golden compares text with a file, or writes it.
func golden(t *testing.T, path string, text []byte) {
	t.Helper()
	if update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s has changed. If that is intended, run: UPDATE_GOLDEN=1 bash tests/run chart", path)
	}
}

// Every set of values in ci/ renders to the objects in testdata/, with both versions of Helm, and the API types know all
// fields of them.
func TestGoldenRenders(t *testing.T) {
	helm4, helm3 := helm(t)
	for _, file := range ciFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := tryRender(helm4, "rollplan", "rollplan-system", "-f", file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", strings.Replace(filepath.Base(file), "-values", "", 1)), elideMonitoring(text))
			older, err := tryRender(helm3, "rollplan", "rollplan-system", "-f", file)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(decode(t, text), decode(t, older)) {
				t.Error("Helm 3 and Helm 4 render different objects")
			}
		})
	}
}

// elideMonitoring removes the dashboard and the alerts, so that a change of docs/monitoring does not change testdata too.
func elideMonitoring(text []byte) []byte {
	for _, pattern := range []string{`(?s)(\n  rollplan\.json: ).*?(\n---\n|\z)`, `(?s)(\n  groups:).*?(\n---\n|\z)`} {
		text = regexp.MustCompile(pattern).ReplaceAll(text, []byte("${1} (elided)$2"))
	}
	return text
}

// The test checks pods with the library that the API server uses.
func TestPodsComplyWithRestrictedPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range ciFiles(t) {
		pods := 0
		for _, object := range render(t, "-f", file) {
			template := podTemplate(object)
			if template == nil {
				continue
			}
			pods++
			level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec))
			if !result.Allowed {
				t.Errorf("%s: %s: %s", file, id(t, object), result.ForbiddenDetail())
			}
		}
		if pods == 0 {
			t.Errorf("%s renders no pods", file)
		}
	}
}

func podTemplate(object runtime.Object) *corev1.PodTemplateSpec {
	switch object := object.(type) {
	case *appsv1.Deployment:
		return &object.Spec.Template
	case *appsv1.StatefulSet:
		return &object.Spec.Template
	case *corev1.Pod:
		return &corev1.PodTemplateSpec{ObjectMeta: object.ObjectMeta, Spec: object.Spec}
	}
	return nil
}

// The service itself has no rights, and no token with which it could use any.
func TestServiceHasNoRights(t *testing.T) {
	for _, object := range render(t) {
		switch object.(type) {
		case *rbacv1.Role, *rbacv1.ClusterRole, *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
			t.Errorf("%s: the service needs no access to the API server", id(t, object))
		}
		if template := podTemplate(object); template != nil {
			if mount := template.Spec.AutomountServiceAccountToken; mount == nil || *mount {
				t.Errorf("%s mounts a token", id(t, object))
			}
		}
	}
}

// With a list of namespaces, the adapter has permissions only in these namespaces, except for the reviews that protect its
// metrics, which are cluster-scoped.
func TestAdapterWithNamespacesHasNoClusterRights(t *testing.T) {
	for secure, want := range map[string][]string{"true": {"rollplan-system-rollplan-controller-metrics-auth"}, "false": nil} {
		var bound []string
		for _, object := range render(t, "-f", chart+"/ci/adapter-values.yaml", "--set", "adapter.metrics.secure="+secure) {
			if binding, ok := object.(*rbacv1.ClusterRoleBinding); ok {
				bound = append(bound, binding.RoleRef.Name)
			}
			role, ok := object.(*rbacv1.ClusterRole)
			if !ok || !slices.Contains(want, role.Name) {
				continue
			}
			for _, rule := range role.Rules {
				if !slices.Equal(rule.Resources, []string{"tokenreviews"}) && !slices.Equal(rule.Resources, []string{"subjectaccessreviews"}) {
					t.Errorf("%s grants %v", id(t, role), rule)
				}
			}
		}
		if !slices.Equal(bound, want) {
			t.Errorf("adapter.metrics.secure=%s: bound ClusterRoles %v, want %v", secure, bound, want)
		}
	}
}

// Two releases of one mode in a namespace have different leases: with a shared lease, the adapter of the second release
// would never become active. The role of each release permits only its own lease.
func TestEachReleaseHasItsOwnLease(t *testing.T) {
	helm4, _ := helm(t)
	leases := map[string]string{}
	for _, release := range []string{"rollplan", "canary"} {
		text, err := tryRender(helm4, release, "apps", "--set", "adapter.enabled=true,adapter.mode=takeover")
		if err != nil {
			t.Fatal(err)
		}
		permitted := map[string]string{}
		for _, object := range decode(t, text) {
			switch object := object.(type) {
			case *appsv1.StatefulSet:
				for _, arg := range object.Spec.Template.Spec.Containers[0].Args {
					if lease, ok := strings.CutPrefix(arg, "--leader-elect-lease-name="); ok {
						leases[lease] = release
					}
				}
			case *rbacv1.Role:
				for _, rule := range object.Rules {
					if slices.Equal(rule.Resources, []string{"leases"}) {
						permitted[strings.Join(rule.Verbs, ",")] += strings.Join(rule.ResourceNames, ",")
					}
				}
			}
		}
		if want := release + "-rollplan-controller-takeover"; release == "canary" && leases[want] != release {
			t.Errorf("the leases are %v, want %s", leases, want)
		}
		for lease, of := range leases {
			if want := map[string]string{"get,update": lease, "create": ""}; of == release && !maps.Equal(permitted, want) {
				t.Errorf("%s: the role permits %v, want %v", release, permitted, want)
			}
		}
	}
	if leases["rollplan-controller-takeover"] != "rollplan" || len(leases) != 2 {
		t.Errorf("the leases are %v", leases)
	}
}

// The roles for restarts permit only what the options need, and with a list of namespaces, only in these namespaces.
func TestRightsForRestartsAreThoseThatTheOptionsNeed(t *testing.T) {
	args := func(sets ...string) []string {
		args := []string{"--set", "adapter.enabled=true,adapter.mode=restarts,adapter.metrics.secure=false"}
		for _, set := range sets {
			args = append(args, "--set", set)
		}
		return args
	}
	granted := func(args []string) (found map[string]string) {
		found = map[string]string{}
		for _, object := range render(t, args...) {
			var rules []rbacv1.PolicyRule
			kind := "ClusterRole"
			switch role := object.(type) {
			case *rbacv1.ClusterRole:
				rules = role.Rules
			case *rbacv1.Role:
				rules, kind = role.Rules, "Role"
			}
			for _, rule := range rules {
				for _, resource := range rule.Resources {
					found[kind+" "+resource] += strings.Join(rule.Verbs, ",") + strings.Join(rule.ResourceNames, ",") + " "
				}
			}
		}
		return found
	}
	for _, c := range []struct {
		sets []string
		want map[string]string
	}{
		{nil, map[string]string{
			"ClusterRole secrets": "list,watch ", "ClusterRole jobs": "get,list,watch,patch ", "ClusterRole daemonsets": "get,list,watch,patch ",
			"ClusterRole poddisruptionbudgets": "", "ClusterRole secretproviderclasspodstatuses": "", "ClusterRole namespaces": "list,watch ",
		}},
		{[]string{"adapter.restarts.secrets=false"}, map[string]string{"ClusterRole secrets": "", "ClusterRole configmaps": "list,watch "}},
		{[]string{"adapter.restarts.options.profile=RESTART_PROFILE_XING"}, map[string]string{"ClusterRole daemonsets": "", "ClusterRole jobs": "", "ClusterRole statefulsets": "get,list,watch,patch "}},
		{[]string{"adapter.restarts.options.profile=RESTART_PROFILE_RELOADER"}, map[string]string{"ClusterRole jobs": "get,list,watch,patch create,delete "}},
		{[]string{"adapter.restarts.options.disruptionBudgetWait=60s", "adapter.restarts.secretProviderClasses=true"}, map[string]string{
			"ClusterRole poddisruptionbudgets": "list,watch ", "ClusterRole secretproviderclasspodstatuses": "list,watch ",
		}},
		{[]string{"adapter.restarts.options.kinds[0].apiVersion=example.com/v1", "adapter.restarts.options.kinds[0].kind=Widget"}, map[string]string{"ClusterRole widgets": "get,list,watch,patch "}},
		{[]string{"adapter.namespaces={shop,bank}"}, map[string]string{"ClusterRole secrets": "", "Role secrets": "list,watch list,watch ", "ClusterRole namespaces": "list,watchshop,bank "}},
	} {
		found := granted(args(c.sets...))
		for resource, want := range c.want {
			if found[resource] != want {
				t.Errorf("%v: %s: %q, want %q", c.sets, resource, found[resource], want)
			}
		}
	}
}

// Two releases share only the CustomResourceDefinition, which belongs to the first release, and neither selects pods of the
// other.
func TestTwoReleasesDoNotCollide(t *testing.T) {
	helm4, _ := helm(t)
	for _, second := range [][2]string{{"other", "rollplan-system"}, {"rollplan", "other"}} {
		var rendered [2][]runtime.Object
		for i, release := range [][2]string{{"rollplan", "rollplan-system"}, second} {
			text, err := tryRender(helm4, release[0], release[1], "--set", "adapter.enabled=true", "-f", chart+"/ci/production-values.yaml")
			if err != nil {
				t.Fatal(err)
			}
			rendered[i] = decode(t, text)
		}
		ids := map[string]bool{}
		for _, object := range rendered[0] {
			ids[id(t, object)] = true
		}
		for _, object := range rendered[1] {
			if _, crd := object.(*apiextensions.CustomResourceDefinition); !crd && ids[id(t, object)] {
				t.Errorf("both releases have %s", id(t, object))
			}
		}
		if second[1] != "rollplan-system" {
			continue
		}
		for _, object := range rendered[0] {
			service, ok := object.(*corev1.Service)
			if !ok {
				continue
			}
			for _, other := range rendered[1] {
				template := podTemplate(other)
				if template != nil && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(template.Labels)) {
					t.Errorf("%s selects pods of the other release's %s", id(t, object), id(t, other))
				}
			}
		}
	}
}

// Each selector of a release selects pods of this release.
func TestSelectorsSelectPods(t *testing.T) {
	for _, file := range ciFiles(t) {
		objects := render(t, "-f", file)
		for _, object := range objects {
			var selector *metav1.LabelSelector
			value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			switch kind := object.GetObjectKind().GroupVersionKind().Kind; kind {
			case "Service":
				selector = &metav1.LabelSelector{MatchLabels: object.(*corev1.Service).Spec.Selector}
			case "PodDisruptionBudget", "NetworkPolicy":
				key := map[string]string{"NetworkPolicy": "podSelector"}[kind]
				if key == "" {
					key = "selector"
				}
				text, _ := json.Marshal(value["spec"].(map[string]any)[key])
				selector = &metav1.LabelSelector{}
				if err := json.Unmarshal(text, selector); err != nil {
					t.Fatal(err)
				}
			default:
				continue
			}
			parsed, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(objects, func(other runtime.Object) bool {
				_, isTest := other.(*corev1.Pod)
				template := podTemplate(other)
				return !isTest && template != nil && parsed.Matches(labels.Set(template.Labels))
			}) {
				t.Errorf("%s: %s selects no pod", file, id(t, object))
			}
		}
	}
}

// Each ServiceMonitor selects a Service that has its ports.
func TestMonitorsSelectPorts(t *testing.T) {
	monitors := 0
	for _, file := range ciFiles(t) {
		objects := render(t, "-f", file)
		for _, object := range objects {
			monitor, ok := object.(*monitoring.ServiceMonitor)
			if !ok {
				continue
			}
			monitors++
			var ports []string
			for _, other := range objects {
				service, ok := other.(*corev1.Service)
				if !ok || !labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(labels.Set(service.Labels)) {
					continue
				}
				for _, port := range service.Spec.Ports {
					ports = append(ports, port.Name)
				}
			}
			for _, endpoint := range monitor.Spec.Endpoints {
				if !slices.Contains(ports, endpoint.Port) {
					t.Errorf("%s: %s selects a Service with the ports %v, want %s", file, id(t, object), ports, endpoint.Port)
				}
			}
		}
	}
	if monitors < 3 {
		t.Errorf("checked only %d ServiceMonitors", monitors)
	}
}

// What the schema describes and values.yaml does not contain: other charts or Kubernetes have the defaults.
var hasDefault = regexp.MustCompile(`^global$|^server\.settings(\.|$)|\.claims$|\bprobes\.(startup|readiness|liveness)\.`)

// The schema describes every value, and rejects keys that it does not describe, at every level.
func TestSchemaRejectsUnknownKeys(t *testing.T) {
	helm4, _ := helm(t)
	var schema map[string]any
	readJSON(t, chart+"/values.schema.json", &schema)
	var values map[string]any
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	tried := 0
	var walk func(path string, schema, values map[string]any)
	walk = func(path string, schema, values map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		if properties == nil {
			return // a map of strings, or a type of Kubernetes
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s: the schema permits unknown keys", path)
		}
		for key := range values {
			if properties[key] == nil {
				t.Errorf("%s%s is not in the schema", path, key)
			}
		}
		for key := range properties {
			property := properties[key].(map[string]any)
			if child, ok := values[key].(map[string]any); ok {
				walk(path+key+".", property, child)
			} else if _, ok := values[key]; !ok && !hasDefault.MatchString(path+key) {
				t.Errorf("%s%s is in the schema and not in values.yaml", path, key)
			}
		}
		tried++
		if _, err := tryRender(helm4, "rollplan", "x", "--set", path+"unknownKey=1"); err == nil || !strings.Contains(err.Error(), "unknownKey") {
			t.Errorf("%sunknownKey is accepted: %v", path, err)
		}
	}
	walk("", schema, values)
	if tried < 25 {
		t.Errorf("tried only %d objects", tried)
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// The schema rejects values that are invalid by themselves. Values that contradict each other are rejected with a message.
func TestInvalidValues(t *testing.T) {
	helm4, _ := helm(t)
	for _, test := range []struct{ set, want string }{
		{"server.replicas=-1", "/server/replicas"},
		{"server.settings.deadlineMax=5", "/server/settings/deadlineMax"},
		{"server.settings.listen=0.0.0.0:1", "'listen' not allowed"},
		{"server.image.digest=abc", "/server/image/digest"},
		{"adapter.mode=both", "/adapter/mode"},
		{"adapter.namespaces={a b}", "/adapter/namespaces/0"},
		{"server.enabled=false", "there is nothing to install"},
		{"tls.enabled=true", "set tls.secretName or tls.certManager.enabled"},
		{"tls.enabled=true,tls.secretName=s,tls.certManager.enabled=true", "exclude each other"},
		{"tls.enabled=true,tls.certManager.enabled=true", "requires tls.certManager.issuerRef.name"},
		{"tls.enabled=true,tls.secretName=s,server.probes.type=grpc", "the kubelet cannot encrypt gRPC probes"},
		{"tls.enabled=true,tls.secretName=s,service.grpc.appProtocol=kubernetes.io/h2c", "h2c is HTTP/2 without encryption"},
		{"tls.secretName=s", "no effect without tls.enabled"},
		{"tls.clients.caSecretName=s", "no effect without tls.enabled"},
		{"tls.enabled=true,tls.secretName=s,tls.clients.subjectAltNames={a}", "requires tls.clients.caSecretName"},
		{"server.autoscaling.enabled=true,server.autoscaling.minReplicas=11", "must not exceed"},
		{"server.autoscaling.enabled=true,server.resources.requests.cpu=null", "requires server.resources.requests.cpu"},
		{"service.http.port=50051", "must differ"},
		{"service.trafficDistribution=PreferSameZone", "requires Kubernetes 1.34"},
		{"server.enabled=false,adapter.enabled=true,adapter.planner=service", "requires server.enabled"},
		{"adapter.enabled=true,adapter.mode=takeover,adapter.planner=service", "not possible in takeover mode"},
		{"adapter.enabled=true,tls.enabled=true,tls.secretName=s,tls.clients.caSecretName=c", "the adapter has no client certificate"},
	} {
		if _, err := tryRender(helm4, "rollplan", "x", "--set", test.set); err == nil {
			t.Errorf("%s is accepted", test.set)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error does not contain %q:\n%s", test.set, test.want, err)
		}
	}
	if _, err := exec.Command(helm4, "template", "rollplan", chart, "--kube-version", "1.31.9").Output(); err == nil {
		t.Error("Kubernetes 1.31 is accepted")
	}
}

// server.settings has the options of `rollplan serve` that docs/reference/service.md lists, except those that the chart sets.
func TestSettingsAreTheOptionsOfServe(t *testing.T) {
	managed := []string{"listen", "http-listen", "tls-cert", "tls-key", "tls-client-ca", "tls-client-san", "drain-delay", "drain-grace"}
	text, err := os.ReadFile(root + "/docs/reference/service.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, match := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `").FindAllSubmatch(text, -1) {
		if !slices.Contains(managed, string(match[1])) {
			want = append(want, string(match[1]))
		}
	}
	var schema struct {
		Properties struct {
			Server struct {
				Properties struct {
					Settings struct{ Properties map[string]any }
				}
			}
		}
	}
	readJSON(t, chart+"/values.schema.json", &schema)
	var have []string
	for key := range schema.Properties.Server.Properties.Settings.Properties {
		var kebab strings.Builder
		for _, r := range key {
			if unicode.IsUpper(r) {
				kebab.WriteByte('-')
			}
			kebab.WriteRune(unicode.ToLower(r))
		}
		have = append(have, kebab.String())
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("server.settings in values.schema.json has\n%v\nand docs/reference/service.md has\n%v", have, want)
	}
}

// The alerts and the dashboard of the chart are copies: `helm package` does not follow links out of the chart.
func TestMonitoringFiles(t *testing.T) {
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join(root, "docs/monitoring", name))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join(chart, "files", name), text)
	}
}

// The chart creates the guard that `rollplan canary guard` prints, with labels and a name of the release, even if the
// service is disabled.
func TestCanaryGuard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "files/canary-guard.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	have := render(t, "--set", "server.enabled=false,canaryGuard.enabled=true")
	for _, object := range have {
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		accessor.SetLabels(nil)
	}
	text = bytes.ReplaceAll(text, []byte("rollplan-canary-guard"), []byte("rollplan-system-rollplan-canary-guard"))
	if want := decode(t, text); !reflect.DeepEqual(have, want) {
		t.Errorf("the chart renders\n%+v\nwant\n%+v", have, want)
	}
}

// The manifests in adapters/config are rendered from the chart.
func TestAdapterManifests(t *testing.T) {
	helm4, _ := helm(t)
	head := "# Rendered from helm/rollplan by `UPDATE_GOLDEN=1 bash tests/run chart`: do not edit. docs/reference/adapters.md says how to use it.\n"
	releases := map[string]string{"restarts": "rollplan-restarts"} // which is installed beside one of the others
	for name, args := range map[string][]string{
		"planneddeployment-crd": {"--show-only", "templates/crd.yaml"},
		"custom-resource":       {"--set", "crds.enabled=false"},
		"takeover":              {"--set", "adapter.mode=takeover"},
		"restarts":              {"--set", "adapter.mode=restarts"},
	} {
		release := cmp.Or(releases[name], "rollplan")
		text, err := tryRender(helm4, release, "rollplan-system", append([]string{"-f", root + "/adapters/config/values.yaml"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		decode(t, text)
		golden(t, filepath.Join(root, "adapters/config", name+".yaml"), append([]byte(head), text...))
	}
}

// All probes use an existing port. gRPC probes also name the service of the planner, on a port without TLS.
func TestProbes(t *testing.T) {
	for _, file := range ciFiles(t) {
		for _, object := range render(t, "-f", file) {
			template := podTemplate(object)
			if _, isTest := object.(*corev1.Pod); isTest || template == nil {
				continue
			}
			for _, container := range template.Spec.Containers {
				ports := map[string]int32{}
				for _, port := range container.Ports {
					ports[port.Name] = port.ContainerPort
				}
				for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "readiness": container.ReadinessProbe, "liveness": container.LivenessProbe} {
					switch {
					case probe == nil:
						t.Errorf("%s: %s has no %s probe", file, container.Name, name)
					case probe.GRPC != nil:
						if slices.ContainsFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--tls-cert") }) {
							t.Errorf("%s: the kubelet cannot encrypt the gRPC %s probe", file, name)
						}
						if probe.GRPC.Port != ports["grpc"] || *probe.GRPC.Service != "rollplan.v1.RolloutPlanner" {
							t.Errorf("%s: %s probe: %v", file, name, probe.GRPC)
						}
					case ports[probe.HTTPGet.Port.String()] == 0:
						t.Errorf("%s: the port of the %s probe of %s does not exist", file, name, container.Name)
					}
				}
			}
		}
	}
}
