package controlplane

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Program is a running program that is no part of the control plane: what is tested on it.
type Program struct{ process *process }

// Run starts a program whose output is appended to a log in the control plane's folder. It ends with the test.
func (c *ControlPlane) Run(name, path string, args ...string) (*Program, error) {
	p, err := spawn(name, c.path(name+".log"), path, nil, args...)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Stop asks the program to end and waits for it. It is an error if it had to be killed.
func (p *Program) Stop() error { return p.process.stop(stopGrace) }

// Kill ends the program without warning and waits for it.
func (p *Program) Kill() { p.process.kill() }

// Signal sends the program a signal.
func (p *Program) Signal(signal os.Signal) error { return p.process.cmd.Process.Signal(signal) }

// Ended says whether the program has ended.
func (p *Program) Ended() bool { return p.process.ended() }

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.process.done }

// Log is the path of its log.
func (p *Program) Log() string { return p.process.log }

// Usage is what the program has used so far.
func (p *Program) Usage() (Usage, error) { return usageOf(p.process.cmd.Process.Pid) }

// Usage is what a process has used since it started.
type Usage struct {
	// CPU is its time on a processor.
	CPU time.Duration
	// MemoryPeakBytes is its largest resident set.
	MemoryPeakBytes int64
}

// clockTick is the unit of times in /proc; Linux has it at 100 Hz for programs on every platform.
const clockTick = time.Second / 100

// usageOf reads /proc.
func usageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	// The second field is the name in parentheses, and may hold anything.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return Usage{}, fmt.Errorf("/proc/%d/stat has another form than we know: %s", pid, stat)
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
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			usage.MemoryPeakBytes = kilobytes << 10
			return usage, err
		}
	}
	return Usage{}, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}
