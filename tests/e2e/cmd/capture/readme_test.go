package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestReadme checks that the README in examples/ is the one that its snapshots and the scenarios make.
func TestReadme(t *testing.T) {
	const folder = "../../../../examples"
	have, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`Kubernetes (v\S+) API server`).FindSubmatch(have)
	if version == nil {
		t.Fatal("the README names no version of Kubernetes")
	}
	examples, err := readExamples(folder)
	if err != nil {
		t.Fatal(err)
	}
	if want := readme(examples, string(version[1])); string(have) != string(want) {
		t.Errorf("the README should be:\n%s", want)
	}
}
