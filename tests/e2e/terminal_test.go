package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// Escape sequences that rollplan may write to a terminal.
const (
	colour      = "\x1b["
	overwrite   = "\r\x1b[J"
	wrappingOff = "\x1b[?7l"
)

// sequences matches any of these escape sequences.
var sequences = regexp.MustCompile("\x1b\\[[?0-9]*[a-zA-Z]|\r\x1b\\[J")

// fakeKubectl is the script that also replaces kubectl in the tests of the command line. Its header describes the files that
// it reads.
const fakeKubectl = "../it/cli/bin/kubectl"

// writeKubectlAnswers prepares a folder for fakeKubectl that shows one unfinished rollout twice, and then a complete one.
func writeKubectlAnswers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for poll, example := range map[int]string{1: "mid-rollout.json", 3: "after-undo.json"} {
		text, err := os.ReadFile(filepath.Join(examplesDir, example))
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for kind, answer := range map[string]string{"Deployment": "deploy", "ReplicaSet": "rs", "Pod": "pods"} {
			var items []json.RawMessage
			for _, item := range list.Items {
				var object struct{ Kind string }
				if err := json.Unmarshal(item, &object); err != nil {
					t.Fatal(err)
				}
				if object.Kind == kind {
					items = append(items, item)
				}
			}
			out, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, fmt.Sprintf("%s.%d.out", answer, poll))
			if err := os.WriteFile(path, out, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// watchCommand is `rollplan status --watch` with fakeKubectl.
func watchCommand(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rollplan(t), "status", "web", "-n", "shop", "--watch", "--interval", "1ms")
	kubectl, err := filepath.Abs(fakeKubectl)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "KUBECTL="+kubectl, "FAKE_KUBECTL="+writeKubectlAnswers(t), "TERM=xterm", "NO_COLOR=", "LC_ALL=C.UTF-8")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// runOnTerminal runs a command on a terminal and returns its output.
func runOnTerminal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	var out bytes.Buffer
	// Linux reports EIO when the other end of the terminal has been closed.
	if _, err := io.Copy(&out, terminal); err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

// TestTerminal checks the output for users: on a capable terminal, a view that is updated in place, in color unless NO_COLOR
// is set; in a log, plain lines.
func TestTerminal(t *testing.T) {
	t.Run("live", func(t *testing.T) {
		out := runOnTerminal(t, watchCommand(t))
		if !strings.Contains(out, overwrite) || !strings.Contains(out, wrappingOff) {
			t.Errorf("nothing is overwritten: %q", out)
		}
		for _, what := range []string{"ReplicaSet web-", "progressing", "complete", "at most 13 (10 + 25% rounded up = 13)"} {
			if !strings.Contains(out, what) {
				t.Errorf("%q is not shown: %q", what, out)
			}
		}
		for _, line := range strings.Split(sequences.ReplaceAllString(out, ""), "\r\n") {
			// A note is not part of the live view.
			if columns := utf8.RuneCountInString(line); columns > 80 && !strings.HasPrefix(line, "note: ") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
		if !strings.Contains(out, "successfully rolled out") {
			t.Errorf("the end of the rollout is not reported: %q", out)
		}
	})
	t.Run("dumb", func(t *testing.T) {
		out := runOnTerminal(t, watchCommand(t, "TERM=dumb"))
		if strings.Contains(out, "\x1b") {
			t.Errorf("escape sequences on a dumb terminal: %q", out)
		}
	})
	t.Run("no live", func(t *testing.T) {
		cmd := watchCommand(t)
		cmd.Args = append(cmd.Args, "--no-live")
		out := runOnTerminal(t, cmd)
		if strings.Contains(out, overwrite) || strings.Count(out, "is rolling out") != 1 {
			t.Errorf("not lines: %q", out)
		}
	})
	t.Run("log", func(t *testing.T) {
		out, err := watchCommand(t).Output()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(out, "\x1b\r") {
			t.Errorf("escape sequences in a log: %q", out)
		}
		// Nothing changes between the first two polls, so the state is printed once.
		if lines := strings.Count(string(out), "is rolling out"); lines != 1 {
			t.Errorf("reported %d times: %q", lines, out)
		}
	})

	status := func(t *testing.T, env ...string) *exec.Cmd {
		file := filepath.Join(examplesDir, "stuck-bad-image.json")
		cmd := exec.CommandContext(t.Context(), rollplan(t), "status", "-f", file, "--now", exampleTime(t, filepath.Base(file)))
		cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
		cmd.Env = append(cmd.Env, env...)
		return cmd
	}
	// The rollout is stalled, so the exit code is 1; only the output matters here.
	exitsOnTerminal := func(t *testing.T, cmd *exec.Cmd) string {
		cmd.Args = append([]string{"sh", "-c", `"$@" || [ $? = 1 ] || [ $? = 3 ]`, "sh"}, cmd.Args...)
		path, err := exec.LookPath("sh")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = path
		return runOnTerminal(t, cmd)
	}
	onTerminal := func(t *testing.T, env ...string) string { return exitsOnTerminal(t, status(t, env...)) }
	t.Run("table", func(t *testing.T) {
		cmd := status(t)
		cmd.Args = append(cmd.Args, "-f", filepath.Join(examplesDir, "stuck-quota.json"))
		out := exitsOnTerminal(t, cmd)
		for _, line := range strings.Split(sequences.ReplaceAllString(out, ""), "\r\n") {
			if columns := utf8.RuneCountInString(line); columns > 80 && !strings.HasPrefix(line, "note: ") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
		if strings.Count(out, "Deployment shop/web: stalled") != 1 || strings.Count(out, "shop/web  ") < 2 {
			t.Errorf("not a row for each, with the causes of the one that is stalled: %q", out)
		}
	})
	t.Run("colour", func(t *testing.T) {
		if out := onTerminal(t); !strings.Contains(out, colour) {
			t.Errorf("no colour: %q", out)
		}
	})
	t.Run("no colour", func(t *testing.T) {
		for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
			if out := onTerminal(t, env); strings.Contains(out, colour) {
				t.Errorf("%s: %q", env, out)
			}
		}
	})
}
