package planner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// The commands of the README build its programs from a checkout, because no version is published.
func TestReadmeBuildsFromCheckout(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands string
	var programs []string
	for _, block := range regexp.MustCompile("(?s)```(sh|go)\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		switch {
		case block[1] == "go":
			programs = append(programs, block[2])
		case !strings.Contains(block[2], "serve"): // the service is the one below
			commands += block[2]
		}
	}
	address := listen(t, service{plan: func(_ context.Context, request *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
		summary := request.GetSnapshot().GetTarget().GetName() + " has " + request.GetSnapshot().GetObjects()[0]
		return &rollplanv1.PlanRolloutResponse{Steps: []*rollplanv1.Step{{Summary: summary}}}, nil
	}})

	directory := t.TempDir()
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(checkout, filepath.Join(directory, "rollplan")); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"shop.json": "objects", "main.go": strings.ReplaceAll(programs[0], "127.0.0.1:50051", address)}
	for i, program := range programs[1:] {
		files[fmt.Sprintf("program%d/main.go", i)] = program
	}
	for name, text := range files {
		file := filepath.Join(directory, "shop", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	commands = strings.Replace(commands, "mkdir shop", "mkdir -p shop", 1) + "go vet ./...\n"
	cmd := exec.CommandContext(ctx, "bash", "-ec", commands)
	cmd.Dir = directory
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "web has objects\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}
