package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child process.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	// done is closed after the process has exited. Then err is the result of Wait.
	done chan struct{}
	err  error
}

// spawn starts a program and appends its output to a log file.
func spawn(name, log, path string, env []string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// Ctrl-C must not reach the process, because the processes must stop in order.
		Setpgid: true,
		// Do not leave the process behind if this process is killed or panics.
		Pdeathsig: syscall.SIGKILL,
	}
	p := &process{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the parent thread exits, so keep that thread until the process has exited.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// stop sends SIGTERM and waits for the process. It kills the process after the grace period, which is an error.
func (p *process) stop(grace time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if the process has already exited
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s was killed because it did not exit within %s after SIGTERM", p.name, grace)
}

// kill sends SIGKILL and waits for the process.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if the process has already exited
	<-p.done
}

// await polls until the condition holds. It fails early if the process exits.
func (p *process) await(ctx context.Context, what string, cond func(context.Context) error) error {
	return poll(ctx, p.done, what, func(ctx context.Context) error {
		select {
		case <-p.done:
			return fmt.Errorf("%s: %w; see %s", p.name, errors.Join(p.err, errExited), p.log)
		default:
			return cond(ctx)
		}
	})
}

var errExited = errors.New("exited unexpectedly")

// pollInterval is short compared to the conditions to wait for, and long compared to the cost of checking one.
const pollInterval = 100 * time.Millisecond

// Poll calls cond until it returns nil or the context ends. Then the error includes the last error of cond.
func Poll(ctx context.Context, what string, cond func(context.Context) error) error {
	return poll(ctx, nil, what, cond)
}

func poll(ctx context.Context, abort <-chan struct{}, what string, cond func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && last != nil {
			err = last // the new error only reports that the context has ended
		}
		last = err
		if errors.Is(err, errExited) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w", what, ctx.Err(), err)
		case <-abort:
			abort = nil // check again: cond reports why the process has exited
		case <-ticker.C:
		}
	}
}

// exited reports whether the process has exited.
func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
