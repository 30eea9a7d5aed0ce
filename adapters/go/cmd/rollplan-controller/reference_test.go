package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

const reference = "../../../../docs/reference/adapters.md"

// checkPart compares a part of the reference with what this test writes. UPDATE_GOLDEN=1 writes it.
func checkPart(t *testing.T, name, header string, rows []string) {
	t.Helper()
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`[^|]+`).ReplaceAllString(header, " --- ")
	table := strings.Join(append([]string{header, rule}, rows...), "\n") + "\n"
	part := regexp.MustCompile(`(?s)(<!-- ` + name + `: written by [^\n]*-->\n)(.*?)(<!-- ` + name + ` ends -->)`)
	found := part.FindSubmatch(page)
	switch {
	case found == nil:
		t.Fatalf("%s has no part %s", reference, name)
	case string(found[2]) == table:
	case os.Getenv("UPDATE_GOLDEN") != "":
		written := strings.Replace(string(page), string(found[0]), string(found[1])+table+string(found[3]), 1)
		if err := os.WriteFile(reference, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the part %s of %s must be as UPDATE_GOLDEN=1 writes it:\n%s", name, reference, table)
	}
}

// help returns what --help prints.
func help(t *testing.T) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = write
	defer func() { os.Stderr = stderr }()
	done := make(chan string)
	go func() {
		text, _ := io.ReadAll(read)
		done <- string(text)
	}()
	err = run(t.Context(), []string{"--help"})
	write.Close()
	text := <-done
	if err == nil || len(text) == 0 {
		t.Fatalf("%v, %q", err, text)
	}
	return text
}

// TestReferenceFlags compares the table of the flags with --help, without those of the mode restarts and of the logger.
func TestReferenceFlags(t *testing.T) {
	flags := regexp.MustCompile(`(?m)^  -([a-z-]+)[^\n]*\n    \t([^\n]*)$`).FindAllStringSubmatch(help(t), -1)
	byDefault := regexp.MustCompile(` \(default "?(.*?)"?\)$`)
	var rows []string
	for _, flag := range flags {
		name, usage := flag[1], flag[2]
		if strings.HasPrefix(name, "zap-") || strings.HasPrefix(usage, "in mode restarts,") {
			continue
		}
		value := ""
		if found := byDefault.FindStringSubmatch(usage); found != nil {
			usage, value = strings.TrimSuffix(usage, found[0]), "`"+found[1]+"`"
		}
		rows = append(rows, fmt.Sprintf("| `--%s` | %s | %s |", name, value, usage))
	}
	if len(rows) < 15 {
		t.Fatalf("%d flags", len(rows))
	}
	checkPart(t, "flags", "| flag | default | description |", rows)
}

// TestReferenceMetrics compares the table of the metrics with those that are registered in every mode.
func TestReferenceMetrics(t *testing.T) {
	descriptions := make(chan *prometheus.Desc, 1000)
	ctrlmetrics.Registry.(prometheus.Collector).Describe(descriptions)
	close(descriptions)
	fields := regexp.MustCompile(`^Desc\{fqName: "(rollplan_controller_\w+)", help: "(.*?)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)
	var rows []string
	for description := range descriptions {
		if found := fields.FindStringSubmatch(description.String()); found != nil {
			labels := strings.ReplaceAll(found[3], ",", "`, `")
			rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s |", found[1], labels, found[2]))
		}
	}
	if len(rows) == 0 {
		t.Fatal("no metrics")
	}
	slices.Sort(rows)
	checkPart(t, "metrics", "| metric | labels | meaning |", rows)
}
