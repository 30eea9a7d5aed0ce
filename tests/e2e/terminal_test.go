package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// What a terminal is told to do.
const (
	colour      = "\x1b["
	overwrite   = "\r\x1b[2K"
	wrappingOff = "\x1b[?7l"
)

// writeKubectl makes a kubectl that shows one rollout on the way twice, and then another that is done.
func writeKubectl(t *testing.T) string {
	t.Helper()
	examples, err := filepath.Abs(examplesDir)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := `#!/bin/sh
echo look >>"` + dir + `/looks"
if [ "$(wc -l <"` + dir + `/looks")" -le 2 ]; then
  cat "` + examples + `/mid-rollout.json"
else
  cat "` + examples + `/after-undo.json"
fi
`
	path := filepath.Join(dir, "kubectl")
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// watchCommand is `rollplan status --watch` with that kubectl.
func watchCommand(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rollplan(t), "status", "web", "-n", "shop", "--watch", "--interval", "1ms")
	cmd.Env = append(os.Environ(), "KUBECTL="+writeKubectl(t), "TERM=xterm", "NO_COLOR=")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// runOnTerminal runs a command on a terminal and returns all it wrote there.
func runOnTerminal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	var out bytes.Buffer
	// Linux says EIO when the last one at the other end has left.
	if _, err := io.Copy(&out, terminal); err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

// TestTerminal looks at what a person sees: a line that is overwritten, in colour unless NO_COLOR is set, on a
// terminal that can; and plain lines in a log.
func TestTerminal(t *testing.T) {
	t.Run("live", func(t *testing.T) {
		out := runOnTerminal(t, watchCommand(t))
		if !strings.Contains(out, overwrite+wrappingOff) {
			t.Errorf("no line is overwritten: %q", out)
		}
		if !strings.Contains(out, "successfully rolled out") {
			t.Errorf("the end is not told: %q", out)
		}
	})
	t.Run("dumb", func(t *testing.T) {
		out := runOnTerminal(t, watchCommand(t, "TERM=dumb"))
		if strings.Contains(out, "\x1b") {
			t.Errorf("a terminal that cannot is steered: %q", out)
		}
	})
	t.Run("log", func(t *testing.T) {
		out, err := watchCommand(t).Output()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(out, "\x1b\r") {
			t.Errorf("a log is steered: %q", out)
		}
		// The rollout has not moved between two looks, so it is told of once.
		if lines := strings.Count(string(out), "is rolling out"); lines != 1 {
			t.Errorf("told of %d times: %q", lines, out)
		}
	})

	status := func(t *testing.T, env ...string) *exec.Cmd {
		file := filepath.Join(examplesDir, "stuck-bad-image.json")
		cmd := exec.CommandContext(t.Context(), rollplan(t), "status", "-f", file, "--now", exampleTime(t, filepath.Base(file)))
		cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
		cmd.Env = append(cmd.Env, env...)
		return cmd
	}
	// A stalled rollout is exit 1, which is not what this is about.
	onTerminal := func(t *testing.T, env ...string) string {
		cmd := status(t, env...)
		cmd.Args = append([]string{"sh", "-c", `"$@" || [ $? = 1 ] || [ $? = 3 ]`, "sh"}, cmd.Args...)
		path, err := exec.LookPath("sh")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = path
		return runOnTerminal(t, cmd)
	}
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
