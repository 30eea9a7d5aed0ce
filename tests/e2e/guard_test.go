package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const (
	guardFile = "../../helm/rollplan/files/canary-guard.yaml"
	canaryKey = "rollplan.dev/canary"
	// The phases without a canary.
	phaseRest    = "CANARY_PHASE_REST"
	phaseAborted = "CANARY_PHASE_ABORTED"
)

// guardManifest is the manifest of the user. NAME is replaced.
const guardManifest = `apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, labels: {app: NAME}}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: main, image: "registry.example/web:1.0", resources: {limits: {cpu: "1"}}}]}
`

// guardWrite is a write while a canary is held.
type guardWrite struct {
	name string
	// plan is the command for which PlanCanary plans NAME.patch.
	plan string
	// script is run by bash, in a directory with the manifest of the user in NAME.yaml.
	script string
	// refused is the field that, as the guard reports, only rollplan may change. Empty if the write is allowed.
	refused string
}

const allFields = "template, strategy, minReadySeconds, progressDeadlineSeconds, the annotation " + canaryKey + ", the label " + canaryKey

var guardWrites = []guardWrite{
	{name: "apply", script: `kubectl apply -f NAME.yaml`, refused: "template"},
	// Must not delete the Deployment and create it again.
	{name: "apply-force", script: `kubectl apply --force -f NAME.yaml`, refused: "template"},
	{name: "apply-server-side", script: `kubectl apply --server-side --force-conflicts -f NAME.yaml`, refused: "template"},
	{name: "apply-all-fields", script: `sed '/^spec:/a\  minReadySeconds: 5\n  progressDeadlineSeconds: 60\n  paused: true\n` +
		`  strategy: {rollingUpdate: {maxUnavailable: 1}}' NAME.yaml | kubectl apply -f -`,
		refused: "template, strategy, minReadySeconds, progressDeadlineSeconds, paused"},
	{name: "apply-server-side-limits", script: `kubectl apply --server-side --force-conflicts --field-manager=argocd -f - <<<'
		{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "NAME"}, "spec": {"minReadySeconds": 5}}'`,
		refused: "minReadySeconds"},
	{name: "replace", script: `kubectl replace -f NAME.yaml`, refused: allFields},
	{name: "edit", script: `KUBE_EDITOR='sed -i s/web:2.0/web:3.0/' kubectl edit deployment/NAME`, refused: "template"},
	{name: "set-image", script: `kubectl set image deployment/NAME main=registry.example/web:3.0`, refused: "template"},
	{name: "set-env", script: `kubectl set env deployment/NAME A=b`, refused: "template"},
	{name: "set-resources", script: `kubectl set resources deployment/NAME --limits=cpu=2`, refused: "template"},
	{name: "rollout-undo", script: `kubectl rollout undo deployment/NAME`, refused: "template, the annotation " + canaryKey},
	{name: "rollout-restart", script: `kubectl rollout restart deployment/NAME`, refused: "template"},
	{name: "rollout-pause", script: `kubectl rollout pause deployment/NAME`, refused: "paused"},
	{name: "template-label", script: `kubectl patch deployment/NAME -p '{"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}'`,
		refused: "template"},
	{name: "min-ready-seconds", script: `kubectl patch deployment/NAME -p '{"spec": {"minReadySeconds": 0}}'`, refused: "minReadySeconds"},
	{name: "min-ready-seconds-removed", script: `kubectl patch deployment/NAME -p '{"spec": {"minReadySeconds": null}}'`,
		refused: "minReadySeconds"},
	// The default is lower than minReadySeconds, which the API server refuses, too, so both have to change.
	{name: "deadline-removed", script: `kubectl patch deployment/NAME -p '{"spec": {"progressDeadlineSeconds": null, "minReadySeconds": 1}}'`,
		refused: "minReadySeconds, progressDeadlineSeconds"},
	{name: "max-surge", script: `kubectl patch deployment/NAME -p '{"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}'`,
		refused: "strategy"},
	{name: "max-unavailable", script: `kubectl patch deployment/NAME -p '{"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 1}}}}'`,
		refused: "strategy"},
	{name: "recreate", script: `kubectl patch deployment/NAME -p '{"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}'`,
		refused: "strategy"},
	{name: "annotation-removed", script: `kubectl annotate deployment/NAME rollplan.dev/canary-`, refused: "the annotation " + canaryKey},
	{name: "annotation-edited", script: `kubectl annotate deployment/NAME --overwrite rollplan.dev/canary={}`,
		refused: "the annotation " + canaryKey},
	{name: "label-removed", script: `kubectl label deployment/NAME rollplan.dev/canary-`, refused: "the label " + canaryKey},
	{name: "label-edited", script: `kubectl label deployment/NAME --overwrite rollplan.dev/canary=false`, refused: "the label " + canaryKey},
	{name: "promote-by-others", plan: "PROMOTE", script: `kubectl patch deployment/NAME --type=json --patch-file=NAME.patch`,
		refused: "strategy, minReadySeconds, progressDeadlineSeconds, the annotation " + canaryKey},
	{name: "other-field-manager", plan: "RELEASE", refused: strings.TrimPrefix(allFields, "template, "),
		script: `kubectl patch deployment/NAME --type=json --patch-file=NAME.patch --field-manager=rollplan-canary-2`},

	{name: "promote", plan: "PROMOTE", script: ownPatch},
	{name: "abort", plan: "ABORT", script: ownPatch},
	{name: "release", plan: "RELEASE", script: ownPatch},
	{name: "apply-canary", script: `sed s/web:1.0/web:2.0/ NAME.yaml | kubectl apply -f -`},
	{name: "apply-canary-server-side", script: `sed s/web:1.0/web:2.0/ NAME.yaml | kubectl apply --server-side -f -`},
	{name: "apply-other-quantity", script: `sed 's/web:1.0/web:2.0/; s/"1"/1000m/' NAME.yaml | kubectl apply -f -`},
	{name: "apply-annotation", script: `kubectl apply --server-side --field-manager=other -f - <<<'
		{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "NAME", "annotations": {"a": "b"}}}'`},
	{name: "replace-live", script: `kubectl get deployment/NAME -o json | jq '.metadata.annotations.a = "b"' | kubectl replace -f -`},
	{name: "annotate", script: `kubectl annotate deployment/NAME a=b deployment.kubernetes.io/desired-replicas=1`},
	{name: "label", script: `kubectl label deployment/NAME a=b`},
	{name: "finalizers", script: `kubectl patch deployment/NAME -p '{"metadata": {"finalizers": ["example.com/a"]}}' &&
		kubectl patch deployment/NAME -p '{"metadata": {"finalizers": null}}'`},
	{name: "scale", script: `kubectl scale deployment/NAME --replicas=2`},
	{name: "replicas", script: `kubectl patch deployment/NAME -p '{"spec": {"replicas": 2}}'`},
	{name: "autoscaler", script: `kubectl autoscale deployment/NAME --min=2 --max=3 &&
		kubectl wait deployment/NAME --for='jsonpath={.spec.replicas}=2' --timeout=2m`},
	{name: "history-limit", script: `kubectl patch deployment/NAME -p '{"spec": {"revisionHistoryLimit": 2}}'`},
	{name: "status", script: `kubectl patch deployment/NAME --subresource=status -p '{"status": {"conditions": [
		{"type": "Progressing", "status": "Unknown", "reason": "Test"}]}}'`},
	{name: "resume-paused", script: `kubectl patch deployment/NAME --field-manager=rollplan-canary -p '{"spec": {"paused": true}}' &&
		kubectl rollout resume deployment/NAME`},
	{name: "dry-run", script: `kubectl set image deployment/NAME main=registry.example/web:3.0 --dry-run=server`},
	// It exits with 1 if there are differences.
	{name: "diff", script: `kubectl diff -f NAME.yaml || [ $? = 1 ]`},
	{name: "copy", script: `kubectl get deployment/NAME -o json | jq '{apiVersion, kind, spec, metadata: {name: "NAME-2",
		labels: .metadata.labels, annotations: .metadata.annotations}}' | kubectl create -f -`},
	{name: "delete", script: `kubectl delete deployment/NAME --cascade=foreground`},
}

// endOfCanary is the command that ends a canary, good or not.
func endOfCanary(action string) object {
	return object{"action": "CANARY_ACTION_" + action, "force": action == "PROMOTE"}
}

const ownPatch = `kubectl patch deployment/NAME --type=json --patch-file=NAME.patch --field-manager=rollplan-canary`

// TestCanaryGuard makes writes while a canary is held: without the guard, where all must succeed, and with it.
func TestCanaryGuard(t *testing.T) {
	binary := rollplan(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	c := &guardCheck{cp: cp, address: startServer(ctx, t, binary), dir: t.TempDir()}

	var refused []guardWrite
	for _, write := range guardWrites {
		if write.refused != "" {
			refused = append(refused, write)
		}
	}
	c.hold(ctx, t, "open", refused)
	for _, write := range refused {
		before := c.deployment(ctx, t, "open", write.name)
		if code, out, errOut := c.write(ctx, t, "open", write); code != 0 {
			t.Errorf("without the guard, %s exits with %d, so its refusal proves nothing:\n%s%s", write.name, code, out, errOut)
		} else if reflect.DeepEqual(before, c.deployment(ctx, t, "open", write.name)) {
			t.Errorf("without the guard, %s changes nothing", write.name)
		}
	}

	c.install(ctx, t)
	// The Deployment controller creates the pods of canaries below the guard.
	c.hold(ctx, t, "guarded", guardWrites)
	for _, write := range guardWrites {
		t.Run(write.name, func(t *testing.T) { c.check(ctx, t, write) })
	}
	t.Run("phases", func(t *testing.T) { c.phases(ctx, t) })
}

// guardCheck makes writes to Deployments with canaries.
type guardCheck struct {
	cp *controlplane.ControlPlane
	// address is the address of the planner.
	address string
	// dir contains the manifests.
	dir string
}

// install applies the guard, and waits until it is enforced.
func (c *guardCheck) install(ctx context.Context, t *testing.T) {
	t.Helper()
	c.hold(ctx, t, "probe", []guardWrite{{name: "probe"}})
	c.cp.MustKubectl(ctx, t, "apply", "-f", guardFile)
	err := controlplane.Poll(ctx, "the guard", func(ctx context.Context) error {
		_, err := c.cp.Kubectl(ctx, "label", "deployment/probe", "-n", "probe", canaryKey+"-")
		if err == nil {
			c.cp.MustKubectl(ctx, t, "label", "deployment/probe", "-n", "probe", canaryKey+"=true")
		}
		if err == nil || !strings.Contains(err.Error(), "only rollplan may change") {
			return fmt.Errorf("the removal of the label ends with %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = controlplane.Poll(ctx, "the type check of the guard", func(ctx context.Context) error {
		status, err := c.cp.Kubectl(ctx, "get", "validatingadmissionpolicy/rollplan-canary-guard", "-o", "jsonpath={.status}")
		if err == nil && !strings.Contains(status, "typeChecking") {
			err = fmt.Errorf("the status is %s", status)
		}
		if strings.Contains(status, "expressionWarnings") {
			t.Errorf("the guard has type errors: %s", status)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check makes a write with the guard.
func (c *guardCheck) check(ctx context.Context, t *testing.T, write guardWrite) {
	before := c.deployment(ctx, t, "guarded", write.name)
	code, out, errOut := c.write(ctx, t, "guarded", write)
	if write.refused == "" {
		if code != 0 {
			t.Errorf("exits with %d, want 0:\n%s%s", code, out, errOut)
		}
		return
	}
	target := "deploy/" + write.name + " -n guarded"
	for _, want := range []string{
		"a canary is in progress, and until it ends, only rollplan may change: " + write.refused + ". ",
		`"rollplan canary promote ` + target + `"`, `"rollplan canary abort ` + target + `"`, `"rollplan canary release ` + target + `"`,
	} {
		if code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("exits with %d, want a refusal with %q:\n%s%s", code, want, out, errOut)
		}
	}
	after := c.deployment(ctx, t, "guarded", write.name)
	if !reflect.DeepEqual(before, after) {
		t.Errorf("has changed the Deployment from\n%+v\nto\n%+v", before, after)
	}
}

// phases checks that the guard ends with the canary, and not before.
func (c *guardCheck) phases(ctx context.Context, t *testing.T) {
	// The user has set the label of "labeled" and it stays there, next to the rejected template after an abort.
	ends := []struct{ name, action, phase string }{
		{"promoted", "PROMOTE", phaseRest}, {"aborted", "ABORT", phaseAborted}, {"labeled", "ABORT", phaseAborted},
	}
	var writes []guardWrite
	for _, end := range ends {
		writes = append(writes, guardWrite{name: end.name})
	}
	c.hold(ctx, t, "phases", writes)
	for _, end := range ends {
		setImage := guardWrite{name: end.name, script: `kubectl set image deployment/NAME main=registry.example/web:3.0`}
		response := c.plan(ctx, t, "phases", end.name, endOfCanary(end.action))
		c.patch(ctx, t, "phases", end.name, response)
		if code, out, errOut := c.write(ctx, t, "phases", setImage); code == 0 || !strings.Contains(errOut, "may change: template. ") {
			t.Errorf("%s: a new template is not refused before the end:\n%s%s", end.name, out, errOut)
		}
		// The fields of the user are restored, and minReadySeconds is absent again.
		c.cp.MustKubectl(ctx, t, "annotate", "deployment/"+end.name, "-n", "phases", "a=b")
		err := controlplane.Poll(ctx, "the end of canary "+end.name, func(ctx context.Context) error {
			response := c.plan(ctx, t, "phases", end.name, nil)
			c.patch(ctx, t, "phases", end.name, response)
			if response.Report.Phase != end.phase || len(response.Steps) > 0 {
				return fmt.Errorf("the phase is %s, want %s", response.Report.Phase, end.phase)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		found := c.deployment(ctx, t, "phases", end.name)
		_, remembers := found.Annotations[canaryKey]
		_, labeled := found.Labels[canaryKey]
		if remembers != (end.phase == phaseAborted) || labeled != (end.name == "labeled") {
			t.Errorf("%s has annotations %v and labels %v", end.name, found.Annotations, found.Labels)
		}
		if code, out, errOut := c.write(ctx, t, "phases", setImage); code != 0 {
			t.Errorf("%s: a new template is refused after the end with %d:\n%s%s", end.name, code, out, errOut)
		}
	}
}

// hold creates a namespace with a Deployment for each write, and starts a canary in each.
func (c *guardCheck) hold(ctx context.Context, t *testing.T, namespace string, writes []guardWrite) {
	t.Helper()
	if err := c.cp.CreateNamespace(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	var manifests []string
	for _, write := range writes {
		manifest := strings.ReplaceAll(guardManifest, "NAME", write.name)
		if write.name == "labeled" {
			manifest = strings.Replace(manifest, "labels: {", `labels: {`+canaryKey+`: "true", `, 1)
		}
		if err := os.WriteFile(filepath.Join(c.dir, write.name+".yaml"), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, manifest)
	}
	if _, err := c.cp.KubectlInput(ctx, strings.Join(manifests, "---\n"), "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	c.await(ctx, t, namespace, "1", 1)
	for _, write := range writes {
		current := c.cp.MustKubectl(ctx, t, "get", "deployment/"+write.name, "-n", namespace, "-o", "json")
		changed := strings.ReplaceAll(current, "web:1.0", "web:2.0")
		c.patch(ctx, t, namespace, write.name, c.plan(ctx, t, namespace, write.name, object{"action": "CANARY_ACTION_START", "deployment": changed}))
	}
	c.await(ctx, t, namespace, "2", 2)
}

// await waits until all Deployments of a namespace have a revision and this number of ready pods.
func (c *guardCheck) await(ctx context.Context, t *testing.T, namespace, revision string, pods int32) {
	t.Helper()
	err := controlplane.Poll(ctx, "Deployments in "+namespace, func(ctx context.Context) error {
		deployments, err := c.cp.Deployments(ctx, namespace)
		if err != nil {
			return err
		}
		for _, d := range deployments {
			have := d.Annotations["deployment.kubernetes.io/revision"]
			if s := d.Status; s.ObservedGeneration != d.Generation || have != revision || s.ReadyReplicas != pods || s.Replicas != pods {
				return fmt.Errorf("%s has generation %d, revision %q, status %+v", d.Name, d.Generation, have, s)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// write runs the script of a write.
func (c *guardCheck) write(ctx context.Context, t *testing.T, namespace string, write guardWrite) (int, string, string) {
	t.Helper()
	if write.plan != "" {
		response := c.plan(ctx, t, namespace, write.name, endOfCanary(write.plan))
		if err := os.WriteFile(filepath.Join(c.dir, write.name+".patch"), []byte(response.Steps[0].Call.Body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(ctx, "bash", "-c",
		`set -euo pipefail; kubectl() { command kubectl -n `+namespace+` "$@"; }; `+strings.ReplaceAll(write.script, "NAME", write.name))
	// kubectl keeps the edited copy if it is refused.
	cmd.Dir, cmd.Env = c.dir, append(c.cp.Env(), "TMPDIR="+c.dir)
	return runCommand(t, cmd)
}

// deployment reads a Deployment without what controllers write.
func (c *guardCheck) deployment(ctx context.Context, t *testing.T, namespace, name string) *appsv1.Deployment {
	t.Helper()
	d, err := c.cp.Deployment(ctx, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	d.ResourceVersion, d.ManagedFields, d.Status = "", nil, appsv1.DeploymentStatus{}
	return d
}

// canaryResponse contains the fields of a PlanCanaryResponse, in the protobuf JSON mapping, that the tests use.
type canaryResponse struct {
	Steps []struct {
		Call struct {
			Body string `json:"bodyJson"`
		} `json:"call"`
	} `json:"steps"`
	Report struct {
		Phase string `json:"phase"`
	} `json:"report"`
}

// plan requests a plan, with a command or without.
func (c *guardCheck) plan(ctx context.Context, t *testing.T, namespace, name string, command object) (response canaryResponse) {
	t.Helper()
	snapshot, err := c.cp.Snapshot(ctx, namespace, "-l", "app="+name)
	if err != nil {
		t.Fatal(err)
	}
	request := object{"snapshot": object{
		"now": time.Now(), "objects": []string{snapshot}, "replicaSetsComplete": true, "podsComplete": true,
	}}
	if command != nil {
		request["command"] = command
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/"+service+"/PlanCanary", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(post)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("plan %v for %s: %s %v\n%s", command["action"], name, answer.Status, err, text)
	}
	if err := json.Unmarshal(text, &response); err != nil {
		t.Fatal(err)
	}
	return response
}

// patch makes the writes of a plan as rollplan does.
func (c *guardCheck) patch(ctx context.Context, t *testing.T, namespace, name string, response canaryResponse) {
	t.Helper()
	for _, step := range response.Steps {
		c.cp.MustKubectl(ctx, t, "patch", "deployment/"+name, "-n", namespace, "--type=json", "--field-manager=rollplan-canary", "-p", step.Call.Body)
	}
}
