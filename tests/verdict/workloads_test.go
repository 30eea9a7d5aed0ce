package verdict

import (
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

const twice = "history: two ControllerRevisions of one revision"

func TestUndoAndHistoryOfWorkloadsAreThoseOfKubectl(t *testing.T) {
	planner, err := startPlanner()
	if err != nil {
		t.Fatal(err)
	}
	defer planner.close()
	listed := differences(t, "kubectl rollout undo and history of StatefulSets and DaemonSets")
	g := rand.New(rand.NewPCG(seed, 2))
	outcomes, found := map[string]int{}, map[string]int{}
	for number := range *histories {
		h := newWorkloadHistory(g)
		theirs, ours := h.kubectlUndo(), planner.undo(h, h.toRevision, types.StrategicMergePatchType)
		outcomes[h.kind+" "+theirs.word()]++
		theirTable, err := h.kubectlHistory()
		if err != nil {
			t.Fatal(err)
		}
		ourTable, err := planner.history(h)
		if err != nil {
			t.Fatal(err)
		}
		differences := tableDiffers(theirTable, ourTable, nil, twice)
		if difference := outcomeDiffers(theirs, ours); difference != "" {
			differences = append(differences, difference)
		}
		for _, difference := range differences {
			found[difference]++
			if _, isListed := listed[difference]; !isListed && found[difference] == 1 {
				t.Errorf("history %d of a %s: a difference that %s does not list: %s\nkubectl: %v %+v\nrollplan: %v %+v", number,
					h.kind, page, difference, theirs.err, theirTable, ours.err, ourTable)
			}
		}
	}
	for name := range listed {
		if found[name] == 0 {
			t.Errorf("%s lists %q, and no history shows it", page, name)
		}
	}
	for _, kind := range []string{"StatefulSet", "DaemonSet"} {
		for _, word := range []string{"rolled back", "skipped", "no earlier revision", "no such revision"} {
			if outcomes[kind+" "+word] == 0 {
				t.Errorf("no history of a %s is %s", kind, word)
			}
		}
	}
	t.Logf("%d histories: %v; differences: %v", *histories, outcomes, found)
}

// An answer with a single mistake is detected.
func TestWrongRollbacksAndTablesOfWorkloadsAreNoticed(t *testing.T) {
	g := rand.New(rand.NewPCG(seed, 3))
	rollbacks, tables := 0, 0
	for range 200 {
		h := newWorkloadHistory(g)
		right := h.kubectlUndo()
		if right.word() == "rolled back" {
			rollbacks++
			wrong := right.object.DeepCopyObject()
			switch object := wrong.(type) {
			case *appsv1.StatefulSet:
				object.Spec.Template.Spec.Containers[0].Image += "x"
			case *appsv1.DaemonSet:
				object.Spec.Template.Spec.Containers[0].Image += "x"
			}
			for _, wrong := range []undone{{object: wrong}, {object: h.object}, {skipped: true}} {
				if outcomeDiffers(right, wrong) == "" {
					t.Error("another rollback is not noticed")
				}
			}
		}
		table, err := h.kubectlHistory()
		if err != nil {
			t.Fatal(err)
		}
		if len(table) == 0 {
			continue
		}
		tables++
		cause := slices.Clone(table)
		cause[0].cause += "x"
		for _, wrong := range [][]row{cause, table[1:], append(slices.Clone(table), row{revision: 99})} {
			if len(tableDiffers(table, wrong, nil, twice)) == 0 {
				t.Error("another table is not noticed")
			}
		}
	}
	if rollbacks == 0 || tables == 0 {
		t.Errorf("%d rollbacks, %d tables", rollbacks, tables)
	}
}
