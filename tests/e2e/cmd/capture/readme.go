package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// example is a captured scenario with the value of --now for its plan.
type example struct {
	scenario
	now time.Time
}

// readExamples reads the snapshots of all scenarios.
func readExamples(dir string) ([]example, error) {
	var examples []example
	for _, scenario := range scenarios {
		text, err := os.ReadFile(filepath.Join(dir, scenario.file))
		if err != nil {
			return nil, err
		}
		now, err := planTime(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", scenario.file, err)
		}
		examples = append(examples, example{scenario: scenario, now: now})
	}
	return examples, nil
}

// afterCapture is the time between the newest timestamp of a snapshot and its plan.
const afterCapture = 5 * time.Second

// planTime derives the time of the plan from the newest timestamp in the snapshot, so that it never changes.
func planTime(snapshot []byte) (time.Time, error) {
	var value any
	if err := json.Unmarshal(snapshot, &value); err != nil {
		return time.Time{}, err
	}
	newest := newestTime(value)
	if newest.IsZero() {
		return newest, errors.New("the snapshot contains no timestamp")
	}
	return newest.Add(afterCapture), nil
}

func newestTime(value any) time.Time {
	var newest time.Time
	keep := func(t time.Time) {
		if t.After(newest) {
			newest = t
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			// This is the end of the grace period, which is in the future.
			if key != "deletionTimestamp" {
				keep(newestTime(inner))
			}
		}
	case []any:
		for _, inner := range value {
			keep(newestTime(inner))
		}
	case string:
		if t, err := time.Parse(time.RFC3339, value); err == nil {
			keep(t)
		}
	}
	return newest
}

func readme(examples []example, version string) []byte {
	var b bytes.Buffer
	first := examples[0]
	for _, e := range examples {
		if e.file == "mid-rollout.json" { // the most instructive one
			first = e
		}
	}
	fmt.Fprintf(&b, `# Snapshots of real rollouts

Each file is the unmodified output of `+"`kubectl get deploy,rs,pods -n %s -o json`"+` on a Kubernetes %s API server, where
the native Deployment controller managed the Deployment. The controller was stopped shortly before each capture, so that a plan
for most snapshots has steps. A program wrote the status of pods and containers as a kubelet would. All other data comes from
the API server, the scheduler and the controllers.

    rollplan plan -f examples/%s --now %s

The value of `+"`--now`"+` is the newest timestamp in the file plus %d seconds, not counting
`+"`deletionTimestamp`"+`, which is in the future. Files marked "with managed fields" were saved with `+"`--show-managed-fields`"+`.

| file | content | `+"`--now`"+` |
|---|---|---|
`, namespace, version, first.file, first.now.UTC().Format(time.RFC3339), int(afterCapture.Seconds()))
	for _, e := range examples {
		shows := e.shows
		if len(e.flags) > 0 {
			shows += " (with managed fields)"
		}
		fmt.Fprintf(&b, "| [%[1]s](%[1]s) | %[2]s | `%[3]s` |\n", e.file, shows, e.now.UTC().Format(time.RFC3339))
	}
	b.WriteString("\nTo create the snapshots and this file again, on a control plane that the command builds and starts, run:\n\n" +
		"    cd tests && go run ./e2e/cmd/capture ../examples\n")
	return b.Bytes()
}
