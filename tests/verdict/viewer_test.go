package verdict

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubectl/pkg/polymorphichelpers"
)

// viewerKinds maps the tests of kubectl's status viewers to the kinds of their cases.
var viewerKinds = map[string]string{
	"TestDeploymentStatusViewerStatus":  "Deployment",
	"TestDaemonSetStatusViewerStatus":   "DaemonSet",
	"TestStatefulSetStatusViewerStatus": "StatefulSet",
}

// viewerCases returns the objects in the tests of kubectl's status viewers, which it reads from the downloaded module.
func viewerCases(t *testing.T) (names []string, cases map[string]map[string]any) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/kubectl/pkg/polymorphichelpers").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(dir)), "rollout_status_test.go")
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	cases = map[string]map[string]any{}
	for _, declaration := range tree.Decls {
		function, isFunction := declaration.(*ast.FuncDecl)
		if !isFunction || viewerKinds[function.Name.Name] == "" {
			continue
		}
		kind := viewerKinds[function.Name.Name]
		assignment, isAssignment := function.Body.List[0].(*ast.AssignStmt)
		if !isAssignment {
			t.Fatalf("%s does not begin with its cases", function.Name.Name)
		}
		for _, literal := range assignment.Rhs[0].(*ast.CompositeLit).Elts {
			fields := evaluate(literal).(map[string]any)
			name := kind + ": " + fields["name"].(string)
			names = append(names, name)
			cases[name] = viewerObject(kind, fields)
		}
	}
	return names, cases
}

// evaluate returns the literals of an expression as JSON values, and nil for anything else.
func evaluate(expression ast.Expr) any {
	switch expression := expression.(type) {
	case *ast.CompositeLit:
		fields := map[string]any{}
		for _, element := range expression.Elts {
			pair, isPair := element.(*ast.KeyValueExpr)
			if !isPair {
				continue
			}
			name := []rune(pair.Key.(*ast.Ident).Name)
			name[0] = unicode.ToLower(name[0])
			if value := evaluate(pair.Value); value != nil {
				fields[string(name)] = value
			}
		}
		return fields
	case *ast.BasicLit:
		if expression.Kind == token.INT {
			number, _ := strconv.ParseInt(expression.Value, 10, 64)
			return number
		}
		text, _ := strconv.Unquote(expression.Value)
		return text
	case *ast.SelectorExpr: // a constant such as apps.OnDeleteStatefulSetStrategyType
		for _, strategy := range []string{"OnDelete", "RollingUpdate"} {
			if strings.HasPrefix(expression.Sel.Name, strategy) {
				return strategy
			}
		}
	case *ast.CallExpr: // a function that sets a pointer to the partition
		function, isFunction := expression.Fun.(*ast.FuncLit)
		if !isFunction {
			return nil
		}
		var partition any
		ast.Inspect(function, func(node ast.Node) bool {
			if literal, isLiteral := node.(*ast.BasicLit); isLiteral {
				partition = evaluate(literal)
			}
			return true
		})
		return map[string]any{"partition": partition}
	}
	return nil
}

// viewerObject returns the object that kubectl's test creates from a case.
func viewerObject(kind string, fields map[string]any) map[string]any {
	spec := map[string]any{}
	metadata := map[string]any{
		"name": "foo", "namespace": "bar", "uid": "8764ae47-9092-11e4-8393-42010af018ff", "generation": fields["generation"],
	}
	switch kind {
	case "Deployment":
		spec["replicas"] = fields["specReplicas"]
	case "DaemonSet":
		spec["updateStrategy"] = map[string]any{"type": "RollingUpdate"}
	case "StatefulSet":
		spec["replicas"] = int64(3)
		spec["podManagementPolicy"] = "OrderedReady"
		spec["updateStrategy"] = fields["strategy"]
	}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": fields["status"],
	}
}

// answer is one of the results that a pipeline distinguishes.
func answer(done bool, err error) string {
	switch {
	case err != nil:
		return "error"
	case done:
		return "done"
	}
	return "not done"
}

// answer corresponds to the exit code of `rollplan status`: 0, 1 or 3.
func (r report) answer() string {
	isChoice := r.Verdict.Reason == "PAUSED" || r.Verdict.Reason == "ON_DELETE"
	switch {
	case r.Verdict.Outlook == "OUTLOOK_COMPLETE":
		return "done"
	case r.Verdict.Outlook == "OUTLOOK_NEEDS_CHANGE" && !isChoice:
		return "error"
	}
	return "not done"
}

func TestCasesOfKubectlRolloutStatus(t *testing.T) {
	planner, err := startPlanner()
	if err != nil {
		t.Fatal(err)
	}
	defer planner.close()
	names, cases := viewerCases(t)
	if len(names) != 15 {
		t.Errorf("kubectl has %d cases instead of 15", len(names))
	}
	listed := differences(t, "kubectl rollout status")
	answers := map[string]int{}
	for _, name := range names {
		object := cases[name]
		// Convert numbers to their JSON types for both programs.
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		viewer, err := polymorphichelpers.StatusViewerFor(schema.GroupKind{Group: "apps", Kind: u.GetKind()})
		if err != nil {
			t.Fatal(err)
		}
		_, done, err := viewer.Status(u, 0)
		theirs := answer(done, err)
		answers[theirs]++
		report, err := planner.computeStatus("2026-11-20T12:00:00Z", object, complete(object)...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		check(t, listed, name, theirs, theirs, report.answer())
		// Check that a wrong answer would be detected.
		for _, wrong := range []string{"done", "not done", "error"} {
			row, isListed := listedRow(t, name)
			if wrong != report.answer() && problem(row, isListed, name, theirs, theirs, wrong) == "" {
				t.Errorf("%s: the answer %q is not noticed", name, wrong)
			}
		}
	}
	checkAll(t, listed)
	for _, word := range []string{"done", "not done", "error"} {
		if answers[word] == 0 {
			t.Errorf("no case is %q", word)
		}
	}
}

func listedRow(t *testing.T, name string) (string, bool) {
	row, isListed := differences(t, "kubectl rollout status")[name]
	return row, isListed
}
