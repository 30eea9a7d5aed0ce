package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// secretValue must not be part of any output.
const secretValue = "correct-horse"

// TestRevisions compares `history` and `undo` of StatefulSets and DaemonSets with kubectl: of two objects with the same history,
// each rolls one back. Afterwards, ConfigMaps and Secrets that the earlier template needs are missing.
func TestRevisions(t *testing.T) {
	binary := rollplan(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	if err := cp.CreateNamespace(ctx, cliNamespace); err != nil {
		t.Fatal(err)
	}
	c := &revisionsCheck{cliCheck{cp: cp, binary: binary}}
	c.mustKubectl(ctx, t, "create", "configmap", "settings", "--from-literal=LEVEL=info")
	c.mustKubectl(ctx, t, "create", "secret", "generic", "token", "--from-literal=value="+secretValue)
	for _, kind := range []string{"StatefulSet", "DaemonSet"} {
		// Each step depends on the previous one, so the first failure ends the test.
		c.history(ctx, t, kind)
	}
	c.brokenPod(ctx, t)
	c.configurations(ctx, t)
}

// revisionsCheck runs rollplan on one object and kubectl on another one with the same history.
type revisionsCheck struct{ cliCheck }

// history rolls back both objects of a kind.
func (c *revisionsCheck) history(ctx context.Context, t *testing.T, kind string) {
	t.Helper()
	resource := strings.ToLower(kind)
	ours, theirs := resource+"/ours", resource+"/theirs"
	both := func(step func(object string)) {
		t.Helper()
		for _, object := range []string{ours, theirs} {
			step(object)
			c.complete(ctx, t, object)
		}
	}
	both(func(object string) { c.create(ctx, t, kind, object) })
	for _, tag := range []string{"2.0", "3.0"} {
		both(func(object string) { c.setTag(ctx, t, object, tag) })
	}
	for _, object := range []string{ours, theirs} {
		c.sameHistory(ctx, t, object, "1", "2", "3")
		c.sameUndo(ctx, t, object, "registry.example/app:2.0")
		c.sameUndo(ctx, t, object, "registry.example/app:1.0", "--to-revision=1")
		c.refused(ctx, t, object, "has no revision 99; it has 1, 2, 3", "--to-revision=99")
	}
	for index, args := range [][]string{nil, {"--to-revision=1"}, {"--to-revision=3"}} {
		c.undo(ctx, t, ours, args...)
		c.mustKubectl(ctx, t, append([]string{"rollout", "undo", theirs}, args...)...)
		both(func(string) {})
		if have, want := c.template(ctx, t, ours), c.template(ctx, t, theirs); !reflect.DeepEqual(have, want) {
			t.Fatalf("undo %v of a %s restores %v, and kubectl %v", args, kind, have, want)
		}
		want := [][]string{{"1", "3", "4"}, {"3", "4", "5"}, {"4", "5", "6"}}[index]
		c.sameHistory(ctx, t, ours, want...)
		c.sameHistory(ctx, t, theirs, want...)
	}
	// Both succeed if the object already has the template.
	if code, out, errOut := c.run(ctx, t, "undo", ours, "-n", cliNamespace, "--to-revision=6"); code != 0 || !strings.Contains(out, "nothing to undo") {
		t.Errorf("undo to the current template exits with %d:\n%s%s", code, out, errOut)
	}
	if out := c.mustKubectl(ctx, t, "rollout", "undo", theirs, "--to-revision=6"); !strings.Contains(out, "skipped rollback") {
		t.Errorf("kubectl does not skip the rollback to the current template: %s", out)
	}
}

// brokenPod rolls back a StatefulSet that waits for a broken pod, which must be deleted afterwards.
func (c *revisionsCheck) brokenPod(ctx context.Context, t *testing.T) {
	t.Helper()
	const object = "statefulset/ours"
	c.setTag(ctx, t, object, "404")
	err := controlplane.Poll(ctx, "a pod without its image", func(ctx context.Context) error {
		reason, err := c.cp.Kubectl(ctx, "get", "pod", "ours-1", "-n", cliNamespace, "-o", "jsonpath={.spec.containers[0].image} {.status.containerStatuses[0].state.waiting.reason}")
		if err != nil || !strings.HasPrefix(reason, "registry.example/app:404 ") || strings.HasSuffix(reason, " ") {
			return fmt.Errorf("%s: %w", reason, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	note := "kubectl delete pod ours-1 -n " + cliNamespace
	if out := c.undoText(ctx, t, object); !strings.Contains(out, note) {
		t.Fatalf("the broken pod is not named:\n%s", out)
	}
	c.undo(ctx, t, object)
	if code, out, errOut := c.run(ctx, t, "wait", object, "-n", cliNamespace, "--timeout", "5s", "--interval", "500ms"); code != 3 {
		t.Fatalf("the StatefulSet does not wait for its broken pod, wait ends with %d:\n%s%s", code, out, errOut)
	}
	c.mustKubectl(ctx, t, "delete", "pod", "ours-1")
	c.complete(ctx, t, object)
}

// configurations looks for what earlier templates need.
func (c *revisionsCheck) configurations(ctx context.Context, t *testing.T) {
	t.Helper()
	notes := []string{
		"ConfigMap settings does not exist: pods with this template cannot start without it",
		"Secret token does not have the key value: pods with this template cannot start without it",
	}
	const none = "cannot start without"
	object := "daemonset/ours"
	if out := c.undoText(ctx, t, object); strings.Contains(out, none) {
		t.Fatalf("existing configurations are missing:\n%s", out)
	}
	c.mustKubectl(ctx, t, "delete", "configmap/settings", "secret/token")
	c.mustKubectl(ctx, t, "create", "secret", "generic", "token", "--from-literal=other="+secretValue)
	for _, object := range []string{"statefulset/ours", "daemonset/ours"} {
		out := c.undoText(ctx, t, object)
		for _, note := range notes {
			if !strings.Contains(out, note) {
				t.Errorf("undo of %s does not say %q:\n%s", object, note, out)
			}
		}
	}

	// A user who may not read Secrets.
	c.mustKubectl(ctx, t, "create", "serviceaccount", "dev")
	c.mustKubectl(ctx, t, "create", "role", "dev", "--verb=get,list", "--resource=daemonsets.apps,controllerrevisions.apps,pods,configmaps")
	c.mustKubectl(ctx, t, "create", "rolebinding", "dev", "--role=dev", "--serviceaccount="+cliNamespace+":dev")
	token := strings.TrimSpace(c.mustKubectl(ctx, t, "create", "token", "dev"))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.cp.WriteKubeconfig(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := c.run(ctx, t, "undo", object, "-n", cliNamespace, "--kubeconfig", kubeconfig)
	unknown := "it is not known whether these exist, which the pods need: Secret token: "
	if code != 0 || !strings.Contains(out, notes[0]) || strings.Contains(out, notes[1]) || !strings.Contains(errOut, unknown) {
		t.Errorf("undo without permission to read Secrets exits with %d:\n%s%s", code, out, errOut)
	}
}

func (c *revisionsCheck) create(ctx context.Context, t *testing.T, kind, name string) {
	t.Helper()
	_, name, _ = strings.Cut(name, "/")
	labels := object{"app": strings.ToLower(kind) + "-" + name}
	container := object{
		"name": "main", "image": "registry.example/app:1.0",
		"env":     list{object{"name": "TOKEN", "valueFrom": object{"secretKeyRef": object{"name": "token", "key": "value"}}}},
		"envFrom": list{object{"configMapRef": object{"name": "settings"}}},
	}
	spec := object{
		"selector": object{"matchLabels": labels}, "revisionHistoryLimit": 2,
		"template": object{
			"metadata": object{"labels": labels},
			"spec":     object{"containers": list{container}, "terminationGracePeriodSeconds": 0},
		},
	}
	if kind == "StatefulSet" {
		spec["replicas"], spec["serviceName"] = 2, name
	}
	manifest, err := json.Marshal(object{"apiVersion": "apps/v1", "kind": kind, "metadata": object{"name": name}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.cp.KubectlInput(ctx, string(manifest), "create", "-n", cliNamespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func (c *revisionsCheck) mustKubectl(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	return c.cp.MustKubectl(ctx, t, append(args, "-n", cliNamespace)...)
}

func (c *revisionsCheck) setTag(ctx context.Context, t *testing.T, object, tag string) {
	t.Helper()
	c.mustKubectl(ctx, t, "set", "image", object, "main=registry.example/app:"+tag)
}

// complete waits until all pods have the current template.
func (c *revisionsCheck) complete(ctx context.Context, t *testing.T, object string) {
	t.Helper()
	c.mustKubectl(ctx, t, "rollout", "status", object, "--timeout="+rolloutTimeout)
}

// template returns the pod template of an object, without the labels, which have its name.
func (c *revisionsCheck) template(ctx context.Context, t *testing.T, object string) (spec map[string]any) {
	t.Helper()
	text := c.mustKubectl(ctx, t, "get", object, "-o", "jsonpath={.spec.template.spec}")
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// undoText returns what `undo` prints, for people and for programs.
func (c *revisionsCheck) undoText(ctx context.Context, t *testing.T, object string, args ...string) string {
	t.Helper()
	text := ""
	for _, output := range []string{"table", "json"} {
		code, out, errOut := c.run(ctx, t, append([]string{"undo", object, "-n", cliNamespace, "-o", output}, args...)...)
		if code != 0 || errOut != "" || strings.Contains(out, secretValue) {
			t.Fatalf("undo %s exits with %d:\n%s%s", object, code, out, errOut)
		}
		text += out
	}
	return text
}

// undo runs the command that `undo` prints. Until the controller has written the status, the resourceVersion changes.
func (c *revisionsCheck) undo(ctx context.Context, t *testing.T, object string, args ...string) {
	t.Helper()
	err := controlplane.Poll(ctx, "undo of "+object, func(ctx context.Context) error {
		code, script, errOut := c.run(ctx, t, append([]string{"undo", object, "-n", cliNamespace, "-o", "kubectl"}, args...)...)
		if code != 0 {
			return fmt.Errorf("undo exits with %d: %s", code, errOut)
		}
		cmd := exec.CommandContext(ctx, "bash")
		cmd.Env, cmd.Stdin = c.cp.Env(), strings.NewReader(script)
		if code, out, errOut := runCommand(t, cmd); code != 0 {
			return fmt.Errorf("the command ends with %d:\n%s\n%s%s", code, script, out, errOut)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
