package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// benchTranscript ends with a complete Deployment, for which a plan writes nothing, whatever the time is.
	benchTranscript = "tolerated-code"
	// templateBytes is the size of a template in the benchmarks of the service.
	templateBytes = 5000
	benchRounds   = 10
	// clockTick is the unit of times in /proc. For user space, Linux uses 100 Hz on every platform.
	clockTick = time.Second / 100
)

// contestant is a driver whose processor time for a plan is limited.
type contestant struct {
	name   string
	bound  time.Duration
	driver *driver
	perRun []time.Duration
}

// bench measures the processor time of each driver for a plan: decoding the objects of a cache, one call of the real service,
// and its response. The drivers take turns, so that other load on the machine affects all of them equally. Each argument is a
// name, a limit in milliseconds, a protocol and a command, separated by spaces.
func bench(directory, service string, plans int, arguments []string) error {
	transcripts, err := readTranscripts(directory, benchTranscript)
	if err != nil {
		return err
	}
	server, address, err := startService(service)
	if err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	var all []*contestant
	for _, argument := range arguments {
		c, err := enter(transcripts[0], address, argument)
		if err != nil {
			return fmt.Errorf("%s: %w", argument, err)
		}
		all = append(all, c)
	}
	for range benchRounds {
		for _, c := range all {
			if err := c.run(plans / benchRounds); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	fmt.Printf("processor time of the client for a plan, the best of %d rounds of %d plans:\n", benchRounds, plans/benchRounds)
	exceeded := 0
	for _, c := range all {
		// Other load on the machine can only increase the time, so the best round counts.
		best := slices.Min(c.perRun)
		note := ""
		if best > c.bound {
			exceeded++
			note = ", which it exceeds"
		}
		fmt.Printf("  %-12s %6.2f ms, at most %.2f ms allowed%s\n", c.name, milliseconds(best), milliseconds(c.bound), note)
		if err := c.driver.stop(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if exceeded > 0 {
		return fmt.Errorf("%d clients exceed their limit", exceeded)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// enter starts a driver and has it request one plan.
func enter(t *transcript, address, argument string) (*contestant, error) {
	fields := strings.Fields(argument)
	if len(fields) < 4 {
		return nil, fmt.Errorf("want NAME MILLISECONDS PROTOCOL COMMAND")
	}
	bound, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return nil, err
	}
	d, err := startDriver(fields[3:])
	if err != nil {
		return nil, err
	}
	start := startCommand{
		Command: "start", API: "http://127.0.0.1:1", Planner: "http://" + address, Protocol: fields[2], Owner: t.Owner,
		MinIntervalMs: 100, PlannerTimeoutMs: 10_000,
	}
	if err := d.ask(start, &struct{}{}); err != nil {
		return nil, err
	}
	last := t.Syncs[len(t.Syncs)-1]
	command := syncCommand{Command: "sync"}
	for _, key := range last.Cache {
		text, err := withLargeTemplate(t.object(key))
		if err != nil {
			return nil, err
		}
		command.Cache = append(command.Cache, string(text))
	}
	result := &syncResult{}
	if err := d.ask(command, result); err != nil {
		return nil, err
	}
	if result.Outcome != "done" {
		return nil, fmt.Errorf("the outcome is %s %s", result.Outcome, result.Error)
	}
	return &contestant{name: fields[0], bound: time.Duration(bound * float64(time.Millisecond)), driver: d}, nil
}

// run requests several plans and records their processor time.
func (c *contestant) run(plans int) error {
	before, err := processorTime(c.driver.command.Process.Pid)
	if err != nil {
		return err
	}
	if err := c.driver.ask(map[string]any{"command": "repeat", "syncs": plans}, &struct{}{}); err != nil {
		return err
	}
	after, err := processorTime(c.driver.command.Process.Pid)
	c.perRun = append(c.perRun, (after-before)/time.Duration(plans))
	return err
}

// withLargeTemplate pads the template of an object to the usual size. Equal templates remain equal.
func withLargeTemplate(object map[string]any) ([]byte, error) {
	spec := object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	container := spec["containers"].([]any)[0].(map[string]any)
	var environment []any
	for i := 0; i*100 < templateBytes; i++ {
		environment = append(environment, map[string]any{"name": fmt.Sprintf("SETTING_%02d", i), "value": strings.Repeat("v", 68)})
	}
	container["env"] = environment
	return json.Marshal(object)
}

// startService starts the real service, and returns its address.
func startService(path string) (*exec.Cmd, string, error) {
	command := exec.Command(path, "serve", "--listen", "127.0.0.1:0")
	output, err := command.StderrPipe()
	if err != nil {
		return nil, "", err
	}
	if err := command.Start(); err != nil {
		return nil, "", err
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var line struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		if address, ok := strings.CutPrefix(line.Message, "listening on "); ok {
			go func() {
				for lines.Scan() { // the log of the calls
				}
			}()
			return command, address, nil
		}
	}
	_ = command.Process.Kill()
	return nil, "", fmt.Errorf("%s does not start", path)
}

// processorTime is the user and system time of a process since its start.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, which may contain any character.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("unexpected format of /proc/%d/stat: %s", pid, stat)
	}
	var sum time.Duration
	for _, field := range fields[11:13] { // utime and stime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * clockTick
	}
	return sum, nil
}
