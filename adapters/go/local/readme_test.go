package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The program of the README runs as it is written: without a service, cgo or a compiler of C.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := ""
	program := ""
	for _, block := range regexp.MustCompile("(?s)```(sh|go)\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if block[1] == "go" {
			program += block[2]
		} else {
			commands += block[2]
		}
	}
	objects, err := os.ReadFile("../../../examples/mid-rollout.json")
	if err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	shop := filepath.Join(directory, "shop")
	err = errors.Join(
		os.Symlink(checkout, filepath.Join(directory, "rollplan")),
		os.Mkdir(shop, 0o700),
		os.WriteFile(filepath.Join(shop, "shop.json"), objects, 0o600),
		os.WriteFile(filepath.Join(shop, "main.go"), []byte(program), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", strings.Replace(commands, "mkdir shop", "mkdir -p shop", 1))
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "CC=false")
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile("(?m)^scale ").Match(out) {
		t.Errorf("%v:\n%s", err, out)
	}
}
