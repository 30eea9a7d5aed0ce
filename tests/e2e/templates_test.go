package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// updateEnv makes the test update the expected answers instead of comparing with them.
const updateEnv = "ROLLPLAN_UPDATE"

const answersFile = "testdata/template-answers.json"

// templateCase is a change of a pod template that may or may not start a rollout.
type templateCase struct {
	name string
	// base are JSON patch operations on the default template before the Deployment is created.
	base []operation
	// patch are the operations on the template of the existing Deployment.
	patch []operation
}

// operation is a JSON patch operation. Paths are relative to the template.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func add(path string, value any) []operation { return []operation{{"add", path, value}} }

func remove(path string) []operation { return []operation{{Op: "remove", Path: path}} }

type object = map[string]any

type list = []any

// deployment returns a Deployment with this spec, whose pods have the label app and run an image.
func deployment(name, image string, spec object) object {
	spec["selector"] = object{"matchLabels": object{"app": name}}
	spec["template"] = object{
		"metadata": object{"labels": object{"app": name}},
		"spec":     object{"containers": list{object{"name": "main", "image": image}}},
	}
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": name}, "spec": spec}
}

const container = "/spec/containers/0"

// affinityTerm returns an affinity with one pod affinity term, which has the given fields in addition to the default ones.
func affinityTerm(fields object) object {
	term := object{"topologyKey": "kubernetes.io/hostname", "labelSelector": object{"matchLabels": object{"app": "other"}}}
	for key, value := range fields {
		term[key] = value
	}
	return object{"podAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": list{term}}}
}

// spread returns a list of one topology spread constraint, which has the given fields in addition to the required ones.
func spread(fields object) list {
	constraint := object{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
	for key, value := range fields {
		constraint[key] = value
	}
	return list{constraint}
}

func volume(source string, value any) list { return list{object{"name": "v", source: value}} }

// claimVolume returns a list of one generic ephemeral volume.
func claimVolume() list {
	spec := object{"accessModes": list{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": "1Gi"}}}
	return volume("ephemeral", object{"volumeClaimTemplate": object{"spec": spec}})
}

var templateCases = []templateCase{
	// Pointers to structs: an empty struct differs from an absent one.
	{name: "affinity-empty", patch: add("/spec/affinity", object{})},
	{name: "affinity-node-affinity-empty", base: add("/spec/affinity", object{}), patch: add("/spec/affinity/nodeAffinity", object{})},
	{name: "dns-config-empty", patch: add("/spec/dnsConfig", object{})},
	{name: "lifecycle-empty", patch: add(container+"/lifecycle", object{})},
	{name: "container-security-context-empty", patch: add(container+"/securityContext", object{})},
	{name: "capabilities-empty", base: add(container+"/securityContext", object{"privileged": false}), patch: add(container+"/securityContext/capabilities", object{})},
	{name: "pod-security-context-removed", patch: remove("/spec/securityContext")},
	{name: "pod-security-context-run-as-user-zero", patch: add("/spec/securityContext", object{"runAsUser": 0})},
	{name: "pod-security-context-run-as-non-root-false", patch: add("/spec/securityContext", object{"runAsNonRoot": false})},
	{name: "pod-security-context-supplemental-groups-empty", patch: add("/spec/securityContext", object{"supplementalGroups": list{}})},
	{name: "pod-security-context-sysctls-empty", patch: add("/spec/securityContext", object{"sysctls": list{}})},
	{name: "pod-security-context-se-linux-options-empty", patch: add("/spec/securityContext", object{"seLinuxOptions": object{}})},
	{name: "empty-dir-size-limit", base: add("/spec/volumes", volume("emptyDir", object{})), patch: add("/spec/volumes/0/emptyDir", object{"sizeLimit": "1Gi"})},
	{name: "empty-dir-medium-empty-string", base: add("/spec/volumes", volume("emptyDir", object{})), patch: add("/spec/volumes/0/emptyDir", object{"medium": ""})},
	{name: "empty-dir-written-as-no-source", base: add("/spec/volumes", volume("emptyDir", object{})), patch: remove("/spec/volumes/0/emptyDir")},
	{name: "namespace-selector-empty", base: add("/spec/affinity", affinityTerm(nil)), patch: add("/spec/affinity", affinityTerm(object{"namespaceSelector": object{}}))},
	{name: "affinity-namespaces-empty", base: add("/spec/affinity", affinityTerm(nil)), patch: add("/spec/affinity", affinityTerm(object{"namespaces": list{}}))},
	{name: "affinity-match-label-keys", base: add("/spec/affinity", affinityTerm(nil)), patch: add("/spec/affinity", affinityTerm(object{"matchLabelKeys": list{"pod-template-hash"}}))},
	{name: "pod-resources-empty", patch: add("/spec/resources", object{})},

	// Topology spread constraints.
	{name: "spread-label-selector-empty", base: add("/spec/topologySpreadConstraints", spread(nil)),
		patch: add("/spec/topologySpreadConstraints", spread(object{"labelSelector": object{}}))},
	{name: "spread-match-labels-empty", base: add("/spec/topologySpreadConstraints", spread(object{"labelSelector": object{}})),
		patch: add("/spec/topologySpreadConstraints", spread(object{"labelSelector": object{"matchLabels": object{}}}))},
	{name: "spread-match-label-keys", base: add("/spec/topologySpreadConstraints", spread(object{"labelSelector": object{"matchLabels": object{"app": "web"}}})),
		patch: add("/spec/topologySpreadConstraints", spread(object{"labelSelector": object{"matchLabels": object{"app": "web"}}, "matchLabelKeys": list{"pod-template-hash"}}))},
	{name: "spread-match-label-keys-empty", base: add("/spec/topologySpreadConstraints", spread(object{"labelSelector": object{"matchLabels": object{"app": "web"}}})),
		patch: add("/spec/topologySpreadConstraints", spread(object{"labelSelector": object{"matchLabels": object{"app": "web"}}, "matchLabelKeys": list{}}))},
	{name: "spread-constraints-empty", patch: add("/spec/topologySpreadConstraints", list{})},
	{name: "spread-node-taints-policy-ignore", base: add("/spec/topologySpreadConstraints", spread(nil)),
		patch: add("/spec/topologySpreadConstraints", spread(object{"nodeTaintsPolicy": "Ignore"}))},

	// Maps and struct values: an empty one equals an absent one.
	{name: "node-selector-empty", patch: add("/spec/nodeSelector", object{})},
	{name: "resources-empty", patch: add(container+"/resources", object{})},
	{name: "resources-requests-empty", patch: add(container+"/resources", object{"requests": object{}})},
	{name: "annotations-empty", patch: add("/metadata/annotations", object{})},
	{name: "annotation-empty-value", patch: add("/metadata/annotations", object{"note": ""})},

	// Quantities are compared by value.
	{name: "cpu-1000m-to-1", base: add(container+"/resources", object{"limits": object{"cpu": "1000m"}}),
		patch: add(container+"/resources/limits/cpu", "1")},
	{name: "memory-1024-to-1ki", base: add(container+"/resources", object{"limits": object{"memory": "1024"}}),
		patch: add(container+"/resources/limits/memory", "1Ki")},
	{name: "memory-1gi-to-1g", base: add(container+"/resources", object{"limits": object{"memory": "1Gi"}}),
		patch: add(container+"/resources/limits/memory", "1G")},
	{name: "cpu-tenth-to-100m-requests", base: add(container+"/resources", object{"requests": object{"cpu": "0.1"}}),
		patch: add(container+"/resources/requests/cpu", "100m")},
	{name: "cpu-1-to-1e0", base: add(container+"/resources", object{"limits": object{"cpu": "1"}}),
		patch: add(container+"/resources/limits/cpu", "1e0")},
	{name: "empty-dir-size-limit-1gi-to-1024mi", base: add("/spec/volumes", volume("emptyDir", object{"sizeLimit": "1Gi"})),
		patch: add("/spec/volumes/0/emptyDir/sizeLimit", "1024Mi")},
	{name: "resource-field-divisor-1-to-1000m", base: add(container+"/env", list{object{"name": "CPU", "valueFrom": object{"resourceFieldRef": object{"resource": "limits.cpu", "divisor": "1"}}}}),
		patch: add(container+"/env/0/valueFrom/resourceFieldRef/divisor", "1000m")},

	// All metadata of the template is compared.
	{name: "metadata-finalizer", patch: add("/metadata/finalizers", list{"example.com/wait"})},
	{name: "metadata-name", patch: add("/metadata/name", "web")},
	{name: "metadata-label", patch: add("/metadata/labels/tier", "front")},
	{name: "metadata-owner-references-empty", patch: add("/metadata/ownerReferences", list{})},
	{name: "metadata-creation-timestamp-null", patch: []operation{{"add", "/metadata/creationTimestamp", json.RawMessage("null")}}},

	// For plain values, the zero value equals an absent one. For pointers to values, it does not.
	{name: "env-value-empty-string", base: add(container+"/env", list{object{"name": "A"}}), patch: add(container+"/env/0/value", "")},
	{name: "env-empty-list", patch: add(container+"/env", list{})},
	{name: "host-network-false", patch: add("/spec/hostNetwork", false)},
	{name: "host-users-true", patch: add("/spec/hostUsers", true)},
	{name: "share-process-namespace-false", patch: add("/spec/shareProcessNamespace", false)},
	{name: "enable-service-links-true", patch: add("/spec/enableServiceLinks", true)},
	{name: "automount-service-account-token-false", patch: add("/spec/automountServiceAccountToken", false)},
	{name: "set-hostname-as-fqdn-false", patch: add("/spec/setHostnameAsFQDN", false)},
	{name: "tty-false", patch: add(container+"/tty", false)},
	{name: "read-only-root-filesystem-false", base: add(container+"/securityContext", object{}), patch: add(container+"/securityContext/readOnlyRootFilesystem", false)},
	{name: "volume-mount-read-only-false", base: append(add("/spec/volumes", volume("emptyDir", object{})), add(container+"/volumeMounts", list{object{"name": "v", "mountPath": "/v"}})...),
		patch: add(container+"/volumeMounts/0/readOnly", false)},
	{name: "config-map-optional-false", base: add("/spec/volumes", volume("configMap", object{"name": "c"})),
		patch: add("/spec/volumes/0/configMap/optional", false)},
	{name: "termination-grace-period-zero", patch: add("/spec/terminationGracePeriodSeconds", 0)},
	{name: "termination-grace-period-default", patch: add("/spec/terminationGracePeriodSeconds", 30)},
	{name: "termination-grace-period-absent", patch: remove("/spec/terminationGracePeriodSeconds")},
	{name: "tolerations-empty", patch: add("/spec/tolerations", list{})},
	{name: "toleration-operator-default", base: add("/spec/tolerations", list{object{"key": "k", "value": "v"}}), patch: add("/spec/tolerations/0/operator", "Equal")},
	{name: "image-pull-secrets-empty", patch: add("/spec/imagePullSecrets", list{})},
	{name: "init-containers-empty", patch: add("/spec/initContainers", list{})},
	{name: "args-empty-list", patch: add(container+"/args", list{})},
	{name: "args-empty-string", patch: add(container+"/args", list{""})},
	{name: "working-dir-empty-string", patch: add(container+"/workingDir", "")},
	{name: "service-account-alias", base: add("/spec/serviceAccountName", "default"), patch: remove("/spec/serviceAccount")},
	{name: "image-pull-policy-absent", patch: remove(container + "/imagePullPolicy")},
	{name: "probe-absent-defaults", base: add(container+"/readinessProbe", object{"httpGet": object{"path": "/", "port": 80}}),
		patch: add(container+"/readinessProbe", object{"httpGet": object{"path": "/", "port": 80}})},
	{name: "probe-port-number-to-string", base: add(container+"/readinessProbe", object{"httpGet": object{"path": "/", "port": 80}}),
		patch: add(container+"/readinessProbe/httpGet/port", "http")},
	{name: "toleration-seconds-zero", base: add("/spec/tolerations", list{object{"key": "k", "operator": "Exists", "effect": "NoExecute"}}), patch: add("/spec/tolerations/0/tolerationSeconds", 0)},
	{name: "probe-initial-delay-zero", base: add(container+"/readinessProbe", object{"httpGet": object{"port": 80}}), patch: add(container+"/readinessProbe/initialDelaySeconds", 0)},
	{name: "probe-grpc-service-empty-string", base: add(container+"/readinessProbe", object{"grpc": object{"port": 80}}), patch: add(container+"/readinessProbe/grpc/service", "")},
	{name: "host-port-zero", base: add(container+"/ports", list{object{"containerPort": 80}}), patch: add(container+"/ports/0/hostPort", 0)},
	{name: "priority-zero", patch: add("/spec/priority", 0)},
	{name: "host-aliases-empty", patch: add("/spec/hostAliases", list{})},
	{name: "readiness-gates-empty", patch: add("/spec/readinessGates", list{})},
	{name: "overhead-empty", patch: add("/spec/overhead", object{})},
	{name: "resources-limits-and-claims-empty", patch: add(container+"/resources", object{"limits": object{}, "claims": list{}})},
	{name: "ephemeral-claim-metadata-empty", base: add("/spec/volumes", claimVolume()), patch: add("/spec/volumes/0/ephemeral/volumeClaimTemplate/metadata", object{"annotations": object{}})},
	{name: "ephemeral-claim-storage-1gi-to-1024mi", base: add("/spec/volumes", claimVolume()),
		patch: add("/spec/volumes/0/ephemeral/volumeClaimTemplate/spec/resources/requests/storage", "1024Mi")},
	{name: "ephemeral-claim-selector-empty", base: add("/spec/volumes", claimVolume()),
		patch: add("/spec/volumes/0/ephemeral/volumeClaimTemplate/spec/selector", object{})},
	{name: "ephemeral-claim-storage-class-empty-string", base: add("/spec/volumes", claimVolume()),
		patch: add("/spec/volumes/0/ephemeral/volumeClaimTemplate/spec/storageClassName", "")},
	{name: "containers-order", base: add("/spec/containers", list{object{"name": "a", "image": "a:1"}, object{"name": "b", "image": "b:1"}}),
		patch: add("/spec/containers", list{object{"name": "b", "image": "b:1"}, object{"name": "a", "image": "a:1"}})},
	{name: "image", patch: add(container+"/image", "registry.example/web:2.0")},
}

// answer is the result of the native controller for one change.
type answer struct {
	Name string `json:"name"`
	// Before is the template of the ReplicaSet and After that of the Deployment, as returned by the API server.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	// Answer is "new" if the native controller created a ReplicaSet for After, and "same" otherwise.
	Answer string `json:"answer"`
}

// TestTemplates compares for which template changes the native controller and the planner create a new ReplicaSet. Both
// get the same objects: the native controller is disabled while the templates are changed and captured.
func TestTemplates(t *testing.T) {
	update := os.Getenv(updateEnv) != ""
	if !update {
		rollplan(t) // fail early if the binary is missing
	}
	const namespace = "templates"
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	if err := cp.CreateNamespace(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	if _, err := cp.KubectlInput(ctx, baseManifests(t), "create", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	awaitObserved(ctx, t, cp, namespace)

	if err := cp.SetNativeController(ctx, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range templateCases {
		patch, err := json.Marshal(under("/spec/template", c.patch))
		if err != nil {
			t.Fatal(err)
		}
		cp.MustKubectl(ctx, t, "patch", "deployment/"+c.name, "-n", namespace, "--type=json", "-p", string(patch))
	}
	snapshot, err := cp.Snapshot(ctx, namespace)
	if err != nil {
		t.Fatal(err)
	}

	if err := cp.SetNativeController(ctx, true); err != nil {
		t.Fatal(err)
	}
	awaitObserved(ctx, t, cp, namespace)
	sets, err := cp.ReplicaSets(ctx, namespace)
	if err != nil {
		t.Fatal(err)
	}
	native := map[string]string{}
	for _, rs := range sets {
		owner := rs.OwnerReferences[0].Name
		native[owner] = map[bool]string{true: "new", false: "same"}[native[owner] != ""]
	}

	compareAnswers(t, templateAnswers(t, snapshot, native), update)

	file := filepath.Join(t.TempDir(), "templates.json")
	if err := os.WriteFile(file, []byte(snapshot), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := rollplan(t)
	now := time.Now().UTC().Format(time.RFC3339)
	for _, c := range templateCases {
		t.Run(c.name, func(t *testing.T) {
			ours := "same"
			plan := runPlan(t, binary, "-f", file, "--deployment", namespace+"/"+c.name, "--now", now)
			for _, step := range plan.Steps {
				if slices.Contains(step.actions(), "createReplicaSet") {
					ours = "new"
				}
			}
			if ours != native[c.name] {
				t.Errorf("the plan has the answer %q, the native controller %q", ours, native[c.name])
			}
		})
	}
}

// baseManifests returns the Deployments before their change. They have no pods, because the comparison needs none.
func baseManifests(t *testing.T) string {
	t.Helper()
	var items list
	for _, c := range templateCases {
		spec := object{"replicas": 0}
		items = append(items, deployment(c.name, "registry.example/web:1.0", spec))
		// The name in the recorded answers.
		spec["template"].(object)["spec"].(object)["containers"].(list)[0].(object)["name"] = "web"
		for _, op := range c.base {
			applyAdd(t, spec["template"], op)
		}
	}
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// applyAdd applies an "add" operation on an object member, the only kind of operation in base.
func applyAdd(t *testing.T, value any, op operation) {
	t.Helper()
	parts := strings.Split(strings.TrimPrefix(op.Path, "/"), "/")
	for _, part := range parts[:len(parts)-1] {
		if inner, isList := value.(list); isList && part == "0" {
			value = inner[0]
		} else {
			value = value.(object)[part]
		}
	}
	value.(object)[parts[len(parts)-1]] = op.Value
}

func under(prefix string, ops []operation) []operation {
	moved := make([]operation, 0, len(ops))
	for _, op := range ops {
		op.Path = prefix + op.Path
		moved = append(moved, op)
	}
	return moved
}

// awaitObserved waits until the native controller has processed every Deployment. It sets observedGeneration only after
// it has created the ReplicaSet.
func awaitObserved(ctx context.Context, t *testing.T, cp *controlplane.ControlPlane, namespace string) {
	t.Helper()
	err := controlplane.Poll(ctx, "every Deployment to be observed", func(ctx context.Context) error {
		deployments, err := cp.Deployments(ctx, namespace)
		if err != nil {
			return err
		}
		for _, d := range deployments {
			if d.Status.ObservedGeneration != d.Generation {
				return fmt.Errorf("%s has generation %d, but observedGeneration %d", d.Name, d.Generation, d.Status.ObservedGeneration)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// templateAnswers combines the answers of the native controller with the templates in the snapshot.
func templateAnswers(t *testing.T, snapshot string, native map[string]string) []answer {
	t.Helper()
	var items struct {
		Items []struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name            string `json:"name"`
				OwnerReferences []struct {
					Name string `json:"name"`
				} `json:"ownerReferences"`
			} `json:"metadata"`
			Spec struct {
				Template json.RawMessage `json:"template"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(snapshot), &items); err != nil {
		t.Fatal(err)
	}
	before, after := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, item := range items.Items {
		if item.Kind == "Deployment" {
			after[item.Metadata.Name] = item.Spec.Template
		} else {
			before[item.Metadata.OwnerReferences[0].Name] = item.Spec.Template
		}
	}
	var answers []answer
	for _, c := range templateCases {
		if native[c.name] == "" || before[c.name] == nil || after[c.name] == nil {
			t.Fatalf("%s: the native controller has not created any ReplicaSet", c.name)
		}
		answers = append(answers, answer{Name: c.name, Before: before[c.name], After: after[c.name], Answer: native[c.name]})
	}
	return answers
}

// compareAnswers compares the answers with the file that the unit tests of the planner use, or updates the file.
func compareAnswers(t *testing.T, answers []answer, update bool) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(answers); err != nil {
		t.Fatal(err)
	}
	if update {
		if err := os.MkdirAll(filepath.Dir(answersFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(answersFile, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	saved, err := os.ReadFile(answersFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(saved, text.Bytes()) {
		t.Errorf("%s does not match the native controller; update it with %s=1", answersFile, updateEnv)
	}
}
