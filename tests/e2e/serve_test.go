package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const service = "rollplan.v1.RolloutPlanner"

// TestServe sends the output of kubectl to a running server with grpcurl and server reflection, as developers do first.
// Client libraries that parse JSON and ignore unknown fields send the same requests.
func TestServe(t *testing.T) {
	programs, err := controlplane.Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address := startServer(ctx, t, rollplan(t))
	call := func(input string, args ...string) (out, errOut string, err error) {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, programs.Path("grpcurl"), append([]string{"-plaintext"}, args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
		err = cmd.Run()
		return stdout.String(), stderr.String(), err
	}
	grpcurl := func(input string, args ...string) string {
		t.Helper()
		out, errOut, err := call(input, args...)
		if err != nil {
			t.Fatalf("grpcurl %s: %v\n%s", strings.Join(args, " "), err, errOut)
		}
		return out
	}

	if services := strings.Fields(grpcurl("", address, "list")); !slices.Contains(services, service) {
		t.Errorf("reflection lists %v, want %s among them", services, service)
	}
	response := grpcurl(requestWithExample(t, "mid-rollout.json"), "-allow-unknown-fields", "-d", "@", address, service+"/PlanRollout")
	var p plan
	if err := json.Unmarshal([]byte(response), &p); err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, step := range p.Steps {
		actions = append(actions, step.actions()...)
	}
	if !slices.Equal(actions, []string{"scaleReplicaSet", "scaleReplicaSet"}) {
		t.Errorf("actions are %v\n%s", actions, response)
	}

	// grpc-go is stricter than other clients about where the status of an error may be.
	_, errOut, err := call("{}", "-d", "@", address, service+"/PlanRollout")
	for _, want := range []string{"Code: InvalidArgument", "INVALID_REQUEST", "snapshot"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("request without a snapshot: %v\n%s\nwant %q", err, errOut, want)
		}
	}
}

// requestWithExample returns a PlanRolloutRequest with the unmodified objects of an example.
func requestWithExample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examplesDir, name))
	if err != nil {
		t.Fatal(err)
	}
	request, err := json.Marshal(object{"snapshot": object{
		"now": exampleTime(t, name), "objects": []string{string(text)}, "replicaSetsComplete": true, "podsComplete": true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(request)
}

// startServer runs `rollplan serve` on a free port until the test ends and returns its address. The test fails if the
// server does not exit cleanly after SIGTERM.
func startServer(ctx context.Context, t *testing.T, binary string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, binary, "serve", "--listen", "127.0.0.1:0")
	stopWithGroup(cmd, syscall.SIGTERM)
	errOut, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(found)
		lines := bufio.NewScanner(io.TeeReader(errOut, &log))
		for reported := false; lines.Scan(); {
			if address, ok := listenAddress(lines.Text()); ok && !reported {
				found <- address
				reported = true
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Cancel()
		<-read
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			t.Errorf("stop rollplan serve: %v", err)
		}
		if t.Failed() {
			t.Logf("rollplan serve:\n%s", log.String())
		}
	})
	address := <-found
	if address == "" {
		t.Fatal("rollplan serve has not logged its address")
	}
	return address
}

var listening = regexp.MustCompile(`(?i)listening on (127\.0\.0\.1:\d+)`)

// listenAddress extracts the address of the gRPC listener from a line of the log.
func listenAddress(line string) (string, bool) {
	if match := listening.FindStringSubmatch(line); match != nil {
		return match[1], true
	}
	return "", false
}
