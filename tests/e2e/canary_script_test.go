package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// canaryPipeline is a sequence of runs of examples/pipelines/canary.sh for one Deployment, whose version 1 has been applied.
type canaryPipeline struct {
	name string
	runs []canaryRun
	// released are the versions that must have been released at the end, in this order. At the end, the Deployment must be as if
	// `kubectl apply` alone had applied version 1 and these.
	released []string
	// isNew is whether the Deployment does not exist at first.
	isNew bool
}

// canaryRun is a run of the script.
type canaryRun struct {
	// version is that of the manifest.
	version string
	// test is the command for bash that tests the canary. It has the directory of the pipeline in $DIR.
	test string
	// killedAfter ends the job without warning, after kubectl has written to the Deployment so many times.
	killedAfter int
	// isBackground is whether the next run starts while this one tests its canary.
	isBackground bool
	// env are additional variables.
	env []string
	// code is the exit code of the script. It is not checked if the job is killed.
	code int
	// says is in its output.
	says string
}

// canaryPipelinesEnv is "all" for all pipelines. Without it, the test has those that each change runs.
const canaryPipelinesEnv = "ROLLPLAN_CANARY_PIPELINES"

// briefPipelines are those that each change runs: one of each kind.
var briefPipelines = []string{"bad-image", "failing-test-then-newer", "superseded", "killed-1-then-newer", "killed-3-then-again",
	"failing-killed-2-then-reverted"}

const (
	passes = "true"
	fails  = "false"
	// untilNext waits until the next run has ended.
	untilNext = `until [ -e "$DIR/../next" ]; do sleep 0.2; done`
)

// canaryPipelines are what happens to pipelines. docs/reference/canary.md has the table.
func canaryPipelines() []canaryPipeline {
	// A pod whose image is missing never says why, so it is not certain that it fails.
	soon := []string{"TIMEOUT=3s"}
	pipelines := []canaryPipeline{
		{name: "good", released: []string{"2"}, runs: []canaryRun{{version: "2", test: passes}}},
		{name: "good-twice", released: []string{"2", "3"}, runs: []canaryRun{{version: "2", test: passes}, {version: "3"}}},
		{name: "same", released: []string{"2"}, runs: []canaryRun{{version: "2"}, {version: "2"}}},
		{name: "bad-image", runs: []canaryRun{{version: "404", env: soon, code: 1, says: "cannot be pulled"}}},
		{name: "bad-image-again", runs: []canaryRun{{version: "404", env: soon, code: 1}, {version: "404", env: soon, code: 1}}},
		{name: "failing-test", runs: []canaryRun{{version: "2", test: fails, code: 1, says: "The test has failed"}}},
		{name: "failing-test-passes-later", released: []string{"2"}, runs: []canaryRun{{version: "2", test: fails, code: 1}, {version: "2", test: passes}}},
		{name: "failing-test-then-reverted", runs: []canaryRun{{version: "2", test: fails, code: 1}, {version: "1", test: passes}}},
		{name: "failing-test-then-newer", released: []string{"3"}, runs: []canaryRun{{version: "2", test: fails, code: 1}, {version: "3", test: passes}}},
		{name: "never-ready", runs: []canaryRun{{version: "never", env: soon, code: 1}}},
		{name: "never-ready-again", runs: []canaryRun{{version: "never", env: soon, code: 1},
			{version: "never", env: soon, code: 1}}},
		{name: "two-at-once", released: []string{"2"}, runs: []canaryRun{{version: "2", test: untilNext, isBackground: true}, {version: "2", test: passes}}},
		{name: "superseded", released: []string{"3"}, runs: []canaryRun{
			{version: "2", test: untilNext, isBackground: true, code: 2}, {version: "3", test: passes}}},
		{name: "superseded-and-failing", released: []string{"3"}, runs: []canaryRun{
			{version: "2", test: untilNext + "; false", isBackground: true, code: 2}, {version: "3", test: passes}}},
		{name: "replicas-too", released: []string{"replicas"}, runs: []canaryRun{{version: "replicas", test: passes}}},
		{name: "configuration-too", released: []string{"configuration"}, runs: []canaryRun{{version: "configuration", test: passes}}},
		{name: "first", isNew: true, released: []string{"2"}, runs: []canaryRun{{version: "2", test: passes}}},
	}
	// Written are the start, the promotion or the abort, and its end; then the manifest is applied.
	for writes := 1; writes <= 4; writes++ {
		killed := canaryRun{version: "2", test: passes, killedAfter: writes}
		pipelines = append(pipelines,
			canaryPipeline{name: fmt.Sprintf("killed-%d-then-again", writes), released: []string{"2"},
				runs: []canaryRun{killed, {version: "2", test: passes}}},
			canaryPipeline{name: fmt.Sprintf("killed-%d-then-newer", writes), released: releasedBefore(writes, "3"),
				runs: []canaryRun{killed, {version: "3", test: passes}}},
			canaryPipeline{name: fmt.Sprintf("killed-%d-then-reverted", writes), released: releasedBefore(writes, "1"),
				runs: []canaryRun{killed, {version: "1", test: passes}}},
		)
	}
	for writes := 2; writes <= 3; writes++ {
		killed := canaryRun{version: "2", test: fails, killedAfter: writes}
		pipelines = append(pipelines,
			canaryPipeline{name: fmt.Sprintf("failing-killed-%d-then-again", writes), released: []string{"2"},
				runs: []canaryRun{killed, {version: "2", test: passes}}},
			canaryPipeline{name: fmt.Sprintf("failing-killed-%d-then-newer", writes), released: []string{"3"},
				runs: []canaryRun{killed, {version: "3", test: passes}}},
			canaryPipeline{name: fmt.Sprintf("failing-killed-%d-then-reverted", writes),
				runs: []canaryRun{killed, {version: "1", test: passes}}},
		)
	}
	return pipelines
}

// releasedBefore are the versions that are released if the job of version 2 ends after so many writes, and then this version is
// released.
func releasedBefore(writes int, version string) []string {
	if writes == 1 {
		if version == "1" {
			return nil
		}
		return []string{version}
	}
	return []string{"2", version}
}

// canaryManifest is the manifest of a version. Version 1 has the variable A, the others have B instead, version 3 has neither.
func canaryManifest(version string) string {
	replicas, tag, env, more, objects := 3, version+".0", "[{name: B, value: b}]", "", ""
	switch version {
	case "1":
		env = "[{name: A, value: a}]"
	case "3":
		env = "[]"
	case "404":
		tag = "404"
	case "never":
		more = "schedulerName: none"
	case "replicas":
		replicas = 4
	case "configuration":
		env = "[{name: B, valueFrom: {configMapKeyRef: {name: new, key: b}}}]"
		objects = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata: {b: b}\n"
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "registry.example/web:%s", env: %s}]
      %s
%s`, replicas, tag, env, more, objects)
}

// killingKubectl is a kubectl that ends the job after one of its writes.
const killingKubectl = `#!/usr/bin/env bash
%q "$@"
code=$?
case " $* " in
  *" --dry-run"*) ;;
  *" patch "* | *" apply "*)
    echo write >>"$DIR/writes"
    [ "$(wc -l <"$DIR/writes")" != "${KILLED_AFTER:-}" ] || kill -9 -- -"$JOB" ;;
esac
exit $code
`

// TestCanaryScript runs examples/pipelines/canary.sh as pipelines do: they are killed, started again, and overtaken.
// `bash tests/run canary` runs all of them.
func TestCanaryScript(t *testing.T) {
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	p := newPipelines(ctx, t, cp)
	guard := &guardCheck{cp: cp, address: p.address, dir: t.TempDir()}
	for _, variant := range []struct {
		name     string
		apply    []string
		hasGuard bool
	}{
		{"server-side", []string{"--server-side"}, false},
		{"client-side", nil, true},
	} {
		t.Run(variant.name, func(t *testing.T) {
			if variant.hasGuard {
				guard.install(ctx, t)
			}
			for _, pipeline := range canaryPipelines() {
				if os.Getenv(canaryPipelinesEnv) != "all" && !slices.Contains(briefPipelines, pipeline.name) {
					continue
				}
				t.Run(pipeline.name, func(t *testing.T) {
					t.Parallel()
					c := &canaryScript{pipelines: p, t: t, namespace: variant.name + "-" + pipeline.name, apply: variant.apply, dir: t.TempDir()}
					c.check(ctx, pipeline)
				})
			}
		})
	}
}

// canaryScript runs the script for one Deployment.
type canaryScript struct {
	*pipelines
	t         *testing.T
	namespace string
	// apply are the options of `kubectl apply`.
	apply []string
	dir   string
}

func (c *canaryScript) check(ctx context.Context, pipeline canaryPipeline) {
	for _, namespace := range []string{c.namespace, c.alone()} {
		if err := c.cp.CreateNamespace(ctx, namespace); err != nil {
			c.t.Fatal(err)
		}
		if !pipeline.isNew {
			c.kubectlApply(ctx, namespace, "1")
		}
	}
	if !pipeline.isNew {
		c.awaitRollout(ctx)
	}
	var background sync.WaitGroup
	for _, run := range pipeline.runs {
		if !run.isBackground {
			c.run(ctx, run)
			continue
		}
		started := filepath.Join(c.dir, "started")
		run.test = fmt.Sprintf(": >%q; %s", started, run.test)
		background.Go(func() { c.run(ctx, run) })
		if err := controlplane.Poll(ctx, "the test", func(context.Context) error {
			_, err := os.Stat(started)
			return err
		}); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, "next"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	background.Wait()
	for _, version := range pipeline.released {
		c.kubectlApply(ctx, c.alone(), version)
	}
	have, want := c.deployment(ctx, c.namespace), c.deployment(ctx, c.alone())
	if !reflect.DeepEqual(have, want) {
		c.t.Errorf("the Deployment is\n%s\ninstead of\n%s", indented(have), indented(want))
	}
}

// alone is the namespace with the same Deployment, to which kubectl alone applies manifests.
func (c *canaryScript) alone() string { return c.namespace + "-alone" }

func (c *canaryScript) kubectlApply(ctx context.Context, namespace, version string) {
	c.t.Helper()
	arguments := slices.Concat([]string{"apply", "-n", namespace, "-f", "-"}, c.apply)
	if out, err := c.cp.KubectlInput(ctx, canaryManifest(version), arguments...); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
}

func (c *canaryScript) awaitRollout(ctx context.Context) {
	c.t.Helper()
	c.cp.MustKubectl(ctx, c.t, "rollout", "status", "deployment/web", "-n", c.namespace, "--timeout=5m")
}

// run runs the script, in a process group of its own.
func (c *canaryScript) run(ctx context.Context, run canaryRun) {
	dir, err := os.MkdirTemp(c.dir, "run")
	if err != nil {
		c.t.Error(err)
		return
	}
	kubectl := c.cp.Command(ctx).Path
	manifest := filepath.Join(dir, "web.yaml")
	if err := os.WriteFile(manifest, []byte(canaryManifest(run.version)), 0o600); err != nil {
		c.t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), fmt.Appendf(nil, killingKubectl, kubectl), 0o700); err != nil {
		c.t.Error(err)
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", `export JOB=$$; exec bash "$@"`, "job",
		filepath.Join(c.root, "examples/pipelines/canary.sh"), manifest, c.namespace, "web")
	if run.test != "" {
		cmd.Args = append(cmd.Args, "bash", "-ec", run.test)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = slices.Concat(c.environment, run.env, []string{"DIR=" + dir, "INTERVAL=0.3s", "BAKE=1s", "APPLY_OPTIONS=" + strings.Join(c.apply, " ")})
	for i, variable := range cmd.Env {
		if path, is := strings.CutPrefix(variable, "PATH="); is {
			cmd.Env[i] = "PATH=" + dir + ":" + path
		}
	}
	if run.killedAfter > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("KILLED_AFTER=%d", run.killedAfter))
	}
	out, _ := cmd.CombinedOutput()
	c.t.Logf("version %s, test %q, killed after %d:\n%s", run.version, run.test, run.killedAfter, out)
	code := cmd.ProcessState.ExitCode()
	switch isKilled := code == -1; {
	case isKilled != (run.killedAfter > 0):
		c.t.Errorf("%s: killed: %t", run.version, isKilled)
	case !isKilled && (code != run.code || !strings.Contains(string(out), run.says)):
		c.t.Errorf("%s ends with %d, want %d and %q", run.version, code, run.code, run.says)
	}
}

// deployment is what users own of a Deployment: labels, annotations, spec, and who owns its fields.
func (c *canaryScript) deployment(ctx context.Context, namespace string) map[string]any {
	c.t.Helper()
	// The memory of rejected templates.
	c.cp.MustKubectl(ctx, c.t, "annotate", "deployment/web", "-n", namespace, canaryKey+"-")
	text := c.cp.MustKubectl(ctx, c.t, "get", "deployment/web", "-n", namespace, "-o", "json", "--show-managed-fields")
	var object struct {
		Metadata struct {
			Labels, Annotations map[string]string
			ManagedFields       []struct {
				Manager, Operation, Subresource string
				FieldsV1                        any
			}
		}
		Spec any
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, c.alone(), c.namespace)), &object); err != nil {
		c.t.Fatal(err)
	}
	annotations := object.Metadata.Annotations
	delete(annotations, "deployment.kubernetes.io/revision")
	owners := map[string]any{}
	for _, entry := range object.Metadata.ManagedFields {
		if entry.Manager == "kube-controller-manager" {
			continue
		}
		fields, is := entry.FieldsV1.(map[string]any)
		// Defaults that the last manifest does not state: it makes no difference who owns them.
		if spec, hasSpec := fields["f:spec"].(map[string]any); hasSpec {
			delete(spec, "f:progressDeadlineSeconds")
			template, _ := spec["f:template"].(map[string]any)
			if podSpec, hasPodSpec := template["f:spec"].(map[string]any); hasPodSpec {
				delete(podSpec, "f:schedulerName")
			}
		}
		if is && len(fields) > 0 {
			owners[entry.Manager+" "+entry.Operation] = fields
		}
	}
	return map[string]any{"labels": object.Metadata.Labels, "annotations": annotations, "spec": object.Spec, "owners": owners}
}

func indented(value any) string {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
