package controlplane

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Program is a process that is not part of the control plane, for example the program under test.
type Program struct{ process *process }

// Run starts a program and appends its output to a log in the directory of the control plane. The program is killed when
// this process exits.
func (c *ControlPlane) Run(name, path string, args ...string) (*Program, error) {
	p, err := spawn(name, c.path(name+".log"), path, nil, args...)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Stop sends SIGTERM and waits until the program exits. It returns an error if the program has to be killed.
func (p *Program) Stop() error { return p.process.stop(stopGrace) }

// Kill sends SIGKILL and waits until the program exits.
func (p *Program) Kill() { p.process.kill() }

// Signal sends the program a signal.
func (p *Program) Signal(signal os.Signal) error { return p.process.cmd.Process.Signal(signal) }

// Ended reports whether the program has exited.
func (p *Program) Ended() bool { return p.process.exited() }

// Done returns a channel that is closed when the program exits.
func (p *Program) Done() <-chan struct{} { return p.process.done }

// Log returns the path of the log.
func (p *Program) Log() string { return p.process.log }

// Usage returns the resource usage of the program since its start.
func (p *Program) Usage() (Usage, error) { return usageOf(p.process.cmd.Process.Pid) }

// Usage is the resource usage of a process since its start.
type Usage struct {
	// CPU is the user and system CPU time.
	CPU time.Duration
	// MemoryBytes is the resident set size, and MemoryPeakBytes its peak.
	MemoryBytes, MemoryPeakBytes int64
}

// Sub returns the usage since an earlier one. The memory is that of now.
func (u Usage) Sub(before Usage) Usage {
	u.CPU -= before.CPU
	return u
}

// clockTick is the unit of times in /proc. For user space, Linux uses 100 Hz on every platform.
const clockTick = time.Second / 100

// usageOf reads the usage of a process from /proc.
func usageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	// The second field is the name in parentheses, which may contain any character.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return Usage{}, fmt.Errorf("unexpected format of /proc/%d/stat: %s", pid, stat)
	}
	var usage Usage
	for _, field := range fields[11:13] { // utime and stime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Usage{}, err
		}
		usage.CPU += time.Duration(ticks) * clockTick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	for field, value := range map[string]*int64{"VmRSS:": &usage.MemoryBytes, "VmHWM:": &usage.MemoryPeakBytes} {
		_, rest, found := strings.Cut(string(status), "\n"+field)
		if !found {
			return Usage{}, fmt.Errorf("/proc/%d/status has no %s", pid, field)
		}
		line, _, _ := strings.Cut(rest, "\n")
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
		if err != nil {
			return Usage{}, err
		}
		*value = kilobytes << 10
	}
	return usage, nil
}
