package verdict

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"
)

// ours maps a status of kstatus to the phase in rollplan.
var ours = map[status.Status]string{
	status.CurrentStatus:     "COMPLETE",
	status.InProgressStatus:  "PROGRESSING",
	status.FailedStatus:      "STALLED",
	status.TerminatingStatus: "DELETING",
}

// kstatusCases returns the objects in the tests of kstatus, which it reads from the downloaded module.
func kstatusCases(t *testing.T) (names []string, cases map[string]string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "sigs.k8s.io/cli-utils/pkg/kstatus/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(dir)), "status_compute_test.go")
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	cases = map[string]string{}
	for _, declaration := range tree.Decls {
		general, isGeneral := declaration.(*ast.GenDecl)
		if !isGeneral {
			continue
		}
		for _, spec := range general.Specs {
			value, isValue := spec.(*ast.ValueSpec)
			if !isValue || len(value.Values) != 1 {
				continue
			}
			literal, isLiteral := value.Values[0].(*ast.BasicLit)
			if !isLiteral || literal.Kind != token.STRING {
				continue
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			name := value.Names[0].Name
			names = append(names, name)
			cases[name] = text
		}
	}
	return names, cases
}

func TestKstatusCases(t *testing.T) {
	planner, err := startPlanner()
	if err != nil {
		t.Fatal(err)
	}
	defer planner.close()
	names, cases := kstatusCases(t)
	if len(names) != 53 {
		t.Errorf("kstatus has %d cases instead of 53", len(names))
	}
	listed := differences(t, "kstatus")
	now := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
	for _, name := range names {
		text := cases[name]
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, now)
		}
		object := map[string]any{}
		data, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = json.Unmarshal(data, &object)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		theirs, err := status.Compute(u)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		report, err := planner.computeStatus(now, object, complete(object)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		check(t, listed, name, string(theirs.Status), ours[theirs.Status], report.word())
	}
	checkAll(t, listed)
}
