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

// process is one running program of the control plane.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	// done is closed when the process is gone and waited for.
	done chan struct{}
	err  error
}

// spawn starts a program whose output is appended to the log file.
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
		// A Ctrl-C in a terminal is ours to handle: the parts must end in order.
		Setpgid: true,
		// When we are killed, or a test panics, nobody is left to stop it.
		Pdeathsig: syscall.SIGKILL,
	}
	p := &process{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Pdeathsig follows the thread that started the process, so that thread stays until the process has gone.
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

// stop ends the process, waits for it, and says whether it had to be killed.
func (p *process) stop(grace time.Duration) error {
	// It may have gone by itself; then there is nothing to signal.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s was still there %s after SIGTERM and was killed", p.name, grace)
}

// kill ends the process without warning and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have gone by itself
	<-p.done
}

// await asks until the condition holds. It ends early when the process has ended: then it never will.
func (p *process) await(ctx context.Context, what string, cond func(context.Context) error) error {
	return poll(ctx, p.done, what, func(ctx context.Context) error {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w; see %s", p.name, errors.Join(p.err, errEnded), p.log)
		default:
			return cond(ctx)
		}
	})
}

var errEnded = errors.New("it should still run")

// pollInterval is short beside everything we wait for, and long beside what one question costs.
const pollInterval = 100 * time.Millisecond

// Poll asks until the condition holds, that is returns nil, or the context ends; then it tells the last reason.
func Poll(ctx context.Context, what string, cond func(context.Context) error) error {
	return poll(ctx, nil, what, cond)
}

func poll(ctx context.Context, abort <-chan struct{}, what string, cond func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && last != nil {
			err = last // the condition could only say that its time was over
		}
		last = err
		if errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w: %w", what, ctx.Err(), err)
		case <-abort:
			abort = nil // ask once more: the condition tells why it ended
		case <-tick.C:
		}
	}
}

// ended says whether the process has gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
