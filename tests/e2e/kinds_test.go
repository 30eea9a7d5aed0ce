package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const kindsNamespace = "kinds"

// applied are objects of several kinds that are applied together.
const applied = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: "registry.example/db:1"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: "registry.example/agent:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: main, image: "registry.example/job:1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
`

// unfinished are objects that do not become ready by themselves.
const unfinished = `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: "registry.example/job:1"}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}
`

// TestKinds uses the command on every kind of workload, as Kubernetes' own controllers report them.
func TestKinds(t *testing.T) {
	binary := rollplan(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	if err := cp.CreateNamespace(ctx, kindsNamespace); err != nil {
		t.Fatal(err)
	}
	c := &cliCheck{cp: cp, binary: binary}
	directory := t.TempDir()
	for file, text := range map[string]string{"applied.yaml": applied, "unfinished.yml": unfinished} {
		if err := os.WriteFile(filepath.Join(directory, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cp.MustKubectl(ctx, t, "apply", "-n", kindsNamespace, "-f", filepath.Join(directory, "applied.yaml"))
	run := func(want int, says string, args ...string) string {
		t.Helper()
		code, out, errOut := c.run(ctx, t, append(args, "-n", kindsNamespace)...)
		if code != want || !strings.Contains(out+errOut, says) {
			t.Fatalf("rollplan %s ends with %d, want %d and %q:\n%s%s", strings.Join(args, " "), code, want, says, out, errOut)
		}
		return out
	}

	names := run(0, "", "wait", "-f", filepath.Join(directory, "applied.yaml"), "-o", "name", "--timeout", "2m", "--interval", "200ms")
	for _, name := range []string{"statefulset.apps/db", "daemonset.apps/agent", "service/db", "cronjob.batch/nightly"} {
		if !strings.Contains(names, name+"\n") {
			t.Errorf("%s is not waited for:\n%s", name, names)
		}
	}
	for _, name := range []string{"statefulset/db", "daemonset/agent"} {
		if code, out, errOut := c.kubectl(ctx, t, "rollout", "status", name, "-n", kindsNamespace, "--timeout=10s"); code != 0 {
			t.Errorf("kubectl does not agree on %s: %d\n%s%s", name, code, out, errOut)
		}
	}
	run(0, "DESIRED  TOTAL  UPDATED  READY  AVAILABLE", "status", "statefulset", "db")
	run(0, "db-0", "status", "sts/db", "-o", "wide")
	run(0, "Pod kinds/db-0: complete", "status", "po/db-0")
	run(0, "complete", "status", "sts/db", "ds/agent", "svc/db", "cj/nightly")
	run(0, "Namespace kinds: complete", "status", "namespace/"+kindsNamespace)
	run(2, "nosuch", "status", "nosuch/db")
	run(2, "StatefulSet nosuch not found in namespace "+kindsNamespace, "status", "sts/nosuch")

	cp.MustKubectl(ctx, t, "apply", "-n", kindsNamespace, "-f", filepath.Join(directory, "unfinished.yml"))
	run(3, "Job kinds/migrate: paused", "status", "job/migrate")
	run(3, "PersistentVolumeClaim kinds/data: progressing", "status", "pvc", "data")
	run(2, "a Job has no number of available pods", "wait", "job/migrate", "--for=available")

	// The update never happens: kubectl waits until its timeout, and so does wait, but it reports the cause.
	cp.MustKubectl(ctx, t, "set", "image", "statefulset/db", "-n", kindsNamespace, "main=registry.example/db:404")
	run(3, "image registry.example/db:404 of container main cannot be pulled", "wait", "sts/db", "--timeout", "20s", "--interval", "500ms")

	// The output of kubectl for all of them.
	all := cp.MustKubectl(ctx, t, "get", "sts,ds,jobs,pods,svc,cj,controllerrevisions", "-n", kindsNamespace, "-o", "json")
	cmd := exec.CommandContext(ctx, binary, "status", "-f", "-", "-o", "json")
	cmd.Stdin = strings.NewReader(all)
	code, out, errOut := runCommand(t, cmd)
	if code != 3 {
		t.Fatalf("status of live objects ends with %d:\n%s%s", code, out, errOut)
	}
	phases := map[string]string{}
	for line := range strings.Lines(out) {
		var response struct {
			Object struct{ Kind, Name string }
			Report struct{ Phase string }
		}
		if err := json.Unmarshal([]byte(line), &response); err != nil {
			t.Fatalf("%v:\n%s", err, line)
		}
		phases[response.Object.Kind+" "+response.Object.Name] = response.Report.Phase
	}
	for object, want := range map[string]string{
		"StatefulSet db": "PHASE_PROGRESSING", "DaemonSet agent": "PHASE_COMPLETE", "Job migrate": "PHASE_PAUSED",
		"Service db": "PHASE_COMPLETE", "CronJob nightly": "PHASE_COMPLETE",
	} {
		if phases[object] != want {
			t.Errorf("%s is %q, want %s", object, phases[object], want)
		}
	}
	if len(phases) != 5 {
		t.Errorf("other objects have a status, too: %v", phases)
	}

	cp.MustKubectl(ctx, t, "delete", "job/migrate", "pvc/data", "--wait=false", "-n", kindsNamespace)
	run(0, "", "wait", "job/migrate", "pvc/data", "--for=deleted", "--timeout", "1m", "--interval", "200ms")
}
