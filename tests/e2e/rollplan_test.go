// Package e2e tests rollplan on a real Kubernetes control plane.
package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// binaryEnv is the path of the rollplan binary under test. It has no default, so that no outdated build is tested by
// accident.
const binaryEnv = "ROLLPLAN_BIN"

// rollplan returns the path of the binary under test.
func rollplan(t *testing.T) string {
	t.Helper()
	path := os.Getenv(binaryEnv)
	if path == "" {
		t.Fatalf("set %s to the rollplan binary to test: run cargo build, then set %s=$PWD/target/debug/rollplan", binaryEnv, binaryEnv)
	}
	if _, err := exec.LookPath(path); err != nil {
		t.Fatalf("%s: %v", binaryEnv, err)
	}
	return path
}

// plan contains the fields of a PlanRolloutResponse, in the protobuf JSON mapping, that the tests use.
type plan struct {
	Steps []planStep `json:"steps"`
}

// planStep maps the field names of a step to their values.
type planStep map[string]json.RawMessage

// actions returns the field name of the action of a step, if it has one, except for status writes.
func (s planStep) actions() []string {
	var found []string
	for name := range s {
		switch name {
		case "summary", "call", "events", "onFailure", "doneHttpCodes", "readOnConflict", "updateDeploymentStatus":
		default:
			found = append(found, name)
		}
	}
	return found
}

// runPlan runs `rollplan plan ... -o json`.
func runPlan(t *testing.T, binary string, args ...string) plan {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"plan", "-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, errOut.String())
	}
	var p plan
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out.String())
	}
	return p
}

const examplesDir = "../../examples"

// exampleTime returns the value of --now for an example, from the README.
func exampleTime(t *testing.T, name string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(examplesDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| \[` + regexp.QuoteMeta(name) + `\].*\| ` + "`([^`]+)`" + ` \|$`).FindSubmatch(readme)
	if row == nil {
		t.Fatalf("the README does not list %s", name)
	}
	return string(row[1])
}
