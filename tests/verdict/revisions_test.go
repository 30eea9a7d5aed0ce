package verdict

import (
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// The default is for every run. The stage `histories` compares 100,000.
var histories = flag.Int("histories", 2000, "how many random histories `undo` and `history` are compared on")

const seed = 14

// kubectl logs a warning for each revision that is not a number. Discard them.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// undoDiffers names the difference between two rollbacks, or returns "" if they are equal.
func undoDiffers(h history, theirs, ours undone) string {
	difference := outcomeDiffers(theirs, ours)
	if difference != "" && h.hasTwice() {
		return "undo: two ReplicaSets of one revision"
	}
	return difference
}

func outcomeDiffers(theirs, ours undone) string {
	isEqual := theirs.word() == ours.word() &&
		(theirs.err != nil || theirs.skipped || apiequality.Semantic.DeepEqual(theirs.object, ours.object))
	switch {
	case isEqual:
		return ""
	case theirs.word() != ours.word():
		return "undo: " + theirs.word() + " / " + ours.word()
	}
	return "undo: another object"
}

// historyDiffers returns the explanations of the differences between two tables.
func historyDiffers(h history, theirs, ours []row) []string {
	explained := map[string]string{}
	for _, set := range h.sets {
		switch {
		case metav1.GetControllerOf(set) == nil:
			explained[set.Name] = "history: a ReplicaSet of nobody"
		case isGarbage(set):
			explained[set.Name] = "history: a revision that is not a number"
		}
	}
	return tableDiffers(theirs, ours, explained, "history: two ReplicaSets of one revision")
}

// tableDiffers returns the explanations of the differences between two tables. `explained` has those of rows that only rollplan
// prints, by name.
func tableDiffers(theirs, ours []row, explained map[string]string, twice string) []string {
	shown := map[int64]string{}
	for _, row := range theirs {
		shown[row.revision] = row.cause
	}
	var found []string
	var rows []row
	for _, row := range ours {
		if reason := explained[row.name]; reason != "" {
			found = append(found, reason)
			continue
		}
		last := len(rows) - 1
		if last < 0 || rows[last].revision != row.revision {
			rows = append(rows, row)
			continue
		}
		// kubectl shows only one of them.
		found = append(found, twice)
		if row.cause == shown[row.revision] {
			rows[last] = row
		}
	}
	isEqual := slices.EqualFunc(theirs, rows, func(a, b row) bool {
		return a.revision == b.revision && a.cause == b.cause
	})
	if !isEqual {
		found = append(found, "history: another table")
	}
	return found
}

func TestUndoAndHistoryAreThoseOfKubectl(t *testing.T) {
	planner, err := startPlanner()
	if err != nil {
		t.Fatal(err)
	}
	defer planner.close()
	listed := differences(t, "kubectl rollout undo and history")
	g := rand.New(rand.NewPCG(seed, 0))
	outcomes, found := map[string]int{}, map[string]int{}
	for number := range *histories {
		h := newHistory(g)
		theirs, ours := kubectlUndo(h), planner.undo(h, h.toRevision, types.JSONPatchType)
		outcomes[theirs.word()]++
		theirTable, err := kubectlHistory(h)
		if err != nil {
			t.Fatal(err)
		}
		ourTable, err := planner.history(h)
		if err != nil {
			t.Fatal(err)
		}
		differences := historyDiffers(h, theirTable, ourTable)
		if difference := undoDiffers(h, theirs, ours); difference != "" {
			differences = append(differences, difference)
		}
		for _, difference := range differences {
			found[difference]++
			if _, isListed := listed[difference]; !isListed && found[difference] == 1 {
				t.Errorf("history %d: a difference that %s does not list: %s\nkubectl: %v %+v\nrollplan: %v %+v", number, page,
					difference, theirs.err, theirTable, ours.err, ourTable)
			}
		}
	}
	for name := range listed {
		if found[name] == 0 {
			t.Errorf("%s lists %q, and no history shows it", page, name)
		}
	}
	for _, word := range []string{"rolled back", "skipped", "paused", "no earlier revision", "no such revision"} {
		if outcomes[word] == 0 {
			t.Errorf("no history is %s", word)
		}
	}
	t.Logf("%d histories: %v; differences: %v", *histories, outcomes, found)
}

func deployment(u undone) *appsv1.Deployment {
	return u.object.(*appsv1.Deployment)
}

// An answer with a single mistake is detected.
func TestWrongRollbacksAndTablesAreNoticed(t *testing.T) {
	g := rand.New(rand.NewPCG(seed, 1))
	mistakes := map[string]int{}
	for range 500 {
		h := newHistory(g)
		right := kubectlUndo(h)
		wrong := func(what string, answer undone) {
			mistakes[what]++
			if undoDiffers(h, right, answer) == "" {
				t.Errorf("%s is not noticed", what)
			}
		}
		if right.word() == "rolled back" {
			image, annotation := deployment(right).DeepCopy(), deployment(right).DeepCopy()
			image.Spec.Template.Spec.Containers[0].Image += "x"
			wrong("another image", undone{object: image})
			annotation.Annotations["example.com/extra"] = ""
			wrong("another annotation", undone{object: annotation})
			wrong("no step", undone{skipped: true})
		}
		if right.word() == "skipped" || right.err != nil {
			wrong("a step", undone{object: h.deployment})
		}
		table, err := kubectlHistory(h)
		if err != nil {
			t.Fatal(err)
		}
		if len(table) == 0 {
			continue
		}
		mistakes["another table"]++
		cause := slices.Clone(table)
		cause[0].cause += "x"
		for _, wrong := range [][]row{cause, table[1:], append(slices.Clone(table), row{revision: 99})} {
			if len(historyDiffers(h, table, wrong)) == 0 {
				t.Error("another table is not noticed")
			}
		}
	}
	for _, what := range []string{"another image", "another annotation", "no step", "a step", "another table"} {
		if mistakes[what] == 0 {
			t.Errorf("no history has %s", what)
		}
	}
}
