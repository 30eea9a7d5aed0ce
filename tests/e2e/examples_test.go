package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

const examplesDir = "../../examples"

// TestExamples checks the plan of every snapshot in examples/ at the time in the README there.
func TestExamples(t *testing.T) {
	binary := rollplan(t)
	// The next writes of the native controller, except for status writes, which follow from the others.
	want := map[string]map[string]int{
		"fresh-create.json":     {"createReplicaSet": 1},
		"mid-rollout.json":      {"scaleReplicaSet": 2},
		"stuck-bad-image.json":  {},
		"rollover.json":         {"scaleReplicaSet": 2},
		"paused-scaled.json":    {"scaleReplicaSet": 2},
		"recreate-waiting.json": {},
		"history-cleanup.json":  {"deleteReplicaSet": 3},
		"after-undo.json":       {},
		"adopt-orphan.json":     {"checkOwner": 1, "adoptReplicaSet": 1},

		"stuck-crash-loop.json":              {},
		"stuck-unschedulable.json":           {},
		"stuck-quota.json":                   {},
		"stuck-readiness.json":               {},
		"paused-midway.json":                 {},
		"recreate-old-pods-terminating.json": {},
		"min-ready-seconds.json":             {},
		"scale-down-clamped.json":            {"scaleReplicaSet": 3},
	}
	files, err := filepath.Glob(filepath.Join(examplesDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(want) {
		t.Errorf("%d snapshots exist, want %d", len(files), len(want))
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			have := map[string]int{}
			for _, step := range runPlan(t, binary, "-f", file, "--deployment", "shop/web", "--now", exampleTime(t, name)).Steps {
				for _, action := range step.actions() {
					have[action]++
				}
			}
			if !maps.Equal(have, want[name]) {
				t.Errorf("planned actions are %v, want %v", have, want[name])
			}
		})
	}
}

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
