package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBlueGreen releases a change with examples/strategies/bluegreen.go, under load: no request is lost.
func TestBlueGreen(t *testing.T) {
	manifest := strings.NewReplacer("apps/v1", "apps.rollplan.dev/v1alpha1", "kind: Deployment", "kind: PlannedDeployment",
		"maxSurge: 2", "maxSurge: 100%").Replace(servers)
	c, during := startServers(t, func(c *cluster) {
		c.kubectl(t, "apply", "-f", root+"/adapters/config/planneddeployment-crd.yaml")
		c.kubectl(t, "wait", "--for=condition=Established", "crd/planneddeployments.apps.rollplan.dev")
		c.background(t, filepath.Join(env(t, "IMAGES"), "rollplan-controller"), "--kubeconfig="+filepath.Join(c.dir, "kubeconfig"),
			"--mode=custom-resource", "--planner="+c.startService(t), "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	}, manifest)
	program := filepath.Join(t.TempDir(), "bluegreen")
	if out, err := exec.Command("go", "build", "-o", program, root+"/examples/strategies/bluegreen.go").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := c.pods(t, "default", "app=web")
	during("blue/green", func() {
		change := `{"spec":{"template":{"spec":{"containers":[` +
			`{"name":"web","image":"localhost/web:1","env":[{"name":"VERSION","value":"2"}],"readinessProbe":{"httpGet":{"path":"/ready","port":8080},"periodSeconds":1},` +
			`"lifecycle":{"preStop":{"sleep":{"seconds":3}}}}]}}}}`
		out, err := c.try("", "env", "PATH="+c.bin+":"+os.Getenv("PATH"), program, "pdeploy/web", "service/web", change)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(strings.TrimSpace(out))
		c.kubectl(t, append([]string{"wait", "--for=delete", "--timeout=2m"}, prefixed("pod/", before)...)...)
	})
	hash := c.kubectl(t, "get", "service/web", "-o", "jsonpath={.spec.selector.pod-template-hash}")
	if all, selected := c.pods(t, "default", "app=web"), c.pods(t, "default", "pod-template-hash="+hash); len(all) != 4 || len(selected) != 4 {
		t.Errorf("%d pods, of which the Service selects %d, want 4", len(all), len(selected))
	}
}

func prefixed(prefix string, names []string) (found []string) {
	for _, name := range names {
		found = append(found, prefix+name)
	}
	return found
}
