package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// servers is a Deployment of tests/node/web. A deleted pod keeps serving until it no longer receives calls from its Service.
const servers = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: web
        image: localhost/web:1
        env: [{name: VERSION, value: "1"}]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 3}}}
`

// canaryPlan has the fields of PlanCanaryResponse that are needed here.
type canaryPlan struct {
	Steps []struct {
		Call struct {
			BodyJSON string `json:"bodyJson"`
			Query    string `json:"query"`
		} `json:"call"`
	} `json:"steps"`
	Report struct {
		Phase          string `json:"phase"`
		Message        string `json:"message"`
		TemplateDigest string `json:"templateDigest"`
		PodsAvailable  int    `json:"podsAvailable"`
	} `json:"report"`
}

// planner is a service outside the node.
type planner struct {
	*cluster
	url string
}

// startService starts a service outside the node, and returns its address.
func (c *cluster) startService(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	c.background(t, env(t, "ROLLPLAN_BIN"), "serve", "--listen="+address)
	return address
}

func (c *cluster) startPlanner(t *testing.T) planner {
	t.Helper()
	address := c.startService(t)
	await(t, "the service", func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return planner{c, "http://" + address + "/rollplan.v1.RolloutPlanner/PlanCanary"}
}

// plan plans the next patch, and carries it out. result is the result of the tests of the canary.
func (p planner) plan(t *testing.T, command map[string]any, result string, last canaryPlan) (canaryPlan, error) {
	t.Helper()
	now := time.Now().UTC().Format(time.RFC3339Nano)
	request := map[string]any{
		"snapshot": map[string]any{
			"now": now, "replicaSetsComplete": true, "podsComplete": true,
			"objects": []string{p.kubectl(t, "get", "deployment/web", "-o", "json"), p.kubectl(t, "get", "replicaset,pod", "-l", "app=web", "-o", "json")},
		},
		"policy": map[string]any{"pods": "2", "bake": "5s", "gates": []string{"load"}, "timeout": "30s", "onTimeout": "CANARY_RESPONSE_ABORT",
			"onSuccess": "CANARY_RESPONSE_PROMOTE"},
		"command": command,
	}
	if last.Report.Phase == "CANARY_PHASE_HOLD" && last.Report.PodsAvailable == 2 {
		request["verdicts"] = []any{map[string]any{"name": "load", "templateDigest": last.Report.TemplateDigest, "result": result, "observedAt": now}}
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(p.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return canaryPlan{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	var next canaryPlan
	if err == nil {
		err = json.Unmarshal(text, &next)
	}
	if err != nil || len(next.Steps) == 0 {
		return next, err
	}
	call := next.Steps[0].Call
	query, err := url.ParseQuery(call.Query)
	if err != nil {
		return next, err
	}
	_, err = p.try("", filepath.Join(p.bin, "kubectl"), "patch", "deployment/web", "--type=json", "-p", call.BodyJSON, "--field-manager", query.Get("fieldManager"))
	return next, err
}

// canary runs a canary with a change of the manifest until it reaches the phase end.
func (p planner) canary(t *testing.T, old, replacement string, result, end string) {
	t.Helper()
	changed, err := p.try(strings.Replace(servers, old, replacement, 1), filepath.Join(p.bin, "kubectl"), "apply", "--dry-run=server", "-o", "json", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	command := map[string]any{"action": "CANARY_ACTION_START", "deployment": changed}
	var last canaryPlan
	await(t, end, func() error {
		next, err := p.plan(t, command, result, last)
		if err != nil {
			return err
		}
		if next.Report.Phase != last.Report.Phase || next.Report.Message != last.Report.Message {
			t.Logf("%s: %s", next.Report.Phase, next.Report.Message)
		}
		last = next
		if next.Report.Phase == "CANARY_PHASE_HOLD" {
			command = nil
		}
		if next.Report.Phase != end || len(next.Steps) > 0 {
			return errors.New(next.Report.Phase)
		}
		return nil
	})
	p.kubectl(t, "rollout", "status", "deployment/web", "--timeout=2m")
}

// startServers starts a node with a manifest of servers, and with load over HTTP/1.1 and gRPC. The function runs an action during
// which no request may be lost.
func startServers(t *testing.T, prepare func(*cluster), manifest string) (c *cluster, during func(what string, action func())) {
	t.Helper()
	dir := t.TempDir()
	for _, program := range []string{"load", "web"} {
		command := exec.Command("env", "CGO_ENABLED=0", "go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, program), "./"+program)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	c = start(t, "load="+filepath.Join(dir, "load"), "web="+filepath.Join(dir, "web"))
	prepare(c)
	c.apply(t, manifest)
	c.apply(t, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: grpc, port: 81, targetPort: 9090}]
`)
	await(t, "the servers are ready", func() error {
		if ready := c.kubectl(t, "get", "pods", "-l", "app=web", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`); ready != "True True True True" {
			return errors.New(ready)
		}
		return nil
	})
	loads := []load{c.startLoad(t, "http", "http://web.default.svc.cluster.local", "--http", "--interval=10ms"),
		c.startLoad(t, "grpc", "dns:///web.default.svc.cluster.local:81", "--interval=10ms")}
	return c, func(what string, action func()) {
		loads[0].during(t, what+", HTTP/1.1", func() { loads[1].during(t, what+", gRPC", action) })
	}
}

// TestCanary aborts bad canaries and promotes a good one, under load: no request is lost.
func TestCanary(t *testing.T) {
	c, during := startServers(t, func(*cluster) {}, servers)
	p := c.startPlanner(t)
	during("canary that never becomes ready", func() {
		p.canary(t, "image: localhost/web:1", "image: localhost/web:1\n        args: [-unready]", "CANARY_RESULT_PASS", "CANARY_PHASE_ABORTED")
	})
	during("canary whose tests fail", func() {
		p.canary(t, `value: "1"`, `value: "2"`, "CANARY_RESULT_FAIL", "CANARY_PHASE_ABORTED")
	})
	during("good canary", func() {
		p.canary(t, `value: "1"`, `value: "3"`, "CANARY_RESULT_PASS", "CANARY_PHASE_REST")
	})
}
