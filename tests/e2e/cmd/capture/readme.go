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

// example is a captured scenario and the time to plan it at.
type example struct {
	scenario
	now time.Time
}

// readExamples reads the snapshots of all scenarios.
func readExamples(folder string) ([]example, error) {
	var examples []example
	for _, scenario := range scenarios {
		text, err := os.ReadFile(filepath.Join(folder, scenario.file))
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

// afterCapture is how much later than the newest thing in a snapshot its plan is made.
const afterCapture = 5 * time.Second

// planTime is the newest time in the snapshot and a little more, so that the same file always gives the same time.
func planTime(snapshot []byte) (time.Time, error) {
	var value any
	if err := json.Unmarshal(snapshot, &value); err != nil {
		return time.Time{}, err
	}
	newest := newestTime(value)
	if newest.IsZero() {
		return newest, errors.New("the snapshot holds no time")
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
			// The time by which a pod must be gone lies ahead.
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
		if e.file == "mid-rollout.json" { // the one that shows most
			first = e
		}
	}
	fmt.Fprintf(&b, `# Snapshots of real rollouts

Each file is what `+"`kubectl get deploy,rs,pods -n %s -o json`"+` printed on a Kubernetes %s API server, unmodified. Kubernetes' own
Deployment controller made them; it was stopped just before each capture, so most of them leave something to decide. There is no
kubelet: what pods and containers report was written into their status as one would. What the API server, the scheduler and the
controllers say is their own.

    rollplan plan -f examples/%s --now %s

A plan needs to know what time it is. The time to pass is the newest one in the file (`+"`deletionTimestamp`"+` aside, which lies ahead)
and %d seconds more. `+"`--show-managed-fields`"+` was given where the table says so.

| file | what it shows | `+"`--now`"+` |
|---|---|---|
`, namespace, version, first.file, first.now.UTC().Format(time.RFC3339), int(afterCapture.Seconds()))
	for _, e := range examples {
		shows := e.shows
		if len(e.flags) > 0 {
			shows += " (with managed fields)"
		}
		fmt.Fprintf(&b, "| [%[1]s](%[1]s) | %[2]s | `%[3]s` |\n", e.file, shows, e.now.UTC().Format(time.RFC3339))
	}
	b.WriteString("\nMake them again, on a control plane that the command builds and starts by itself (this file too):\n\n" +
		"    cd tests && go run ./e2e/cmd/capture ../examples\n")
	return b.Bytes()
}
