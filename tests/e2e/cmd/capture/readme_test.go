package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestReadmeIsCurrent checks that the README in examples/ matches the snapshots and the scenarios.
func TestReadmeIsCurrent(t *testing.T) {
	const dir = "../../../../examples"
	have, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`Kubernetes (v\S+) API server`).FindSubmatch(have)
	if version == nil {
		t.Fatal("the README contains no Kubernetes version")
	}
	examples, err := readExamples(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := readme(examples, string(version[1])); string(have) != string(want) {
		t.Errorf("the README is outdated, want:\n%s", want)
	}
}
