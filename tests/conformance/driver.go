package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"
)

// replyTimeout limits the time that a driver may take for one command.
const replyTimeout = 60 * time.Second

// driver is the program under test. It reads commands from its standard input, a line of JSON each, and prints a line of
// JSON for each.
type driver struct {
	command *exec.Cmd
	input   io.WriteCloser
	replies chan []byte
}

func startDriver(command []string) (*driver, error) {
	d := &driver{command: exec.Command(command[0], command[1:]...), replies: make(chan []byte)}
	d.command.Stderr = os.Stderr
	var err error
	if d.input, err = d.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := d.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(d.replies)
		lines := bufio.NewReader(output)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			d.replies <- line
		}
	}()
	return d, nil
}

// startCommand begins a transcript: the adapter discards all state.
type startCommand struct {
	Command          string          `json:"command"`
	API              string          `json:"api"`
	Planner          string          `json:"planner"`
	Protocol         string          `json:"protocol"`
	Owner            driverOwner     `json:"owner"`
	Options          json.RawMessage `json:"options,omitempty"`
	PlannerTimeoutMs int             `json:"plannerTimeoutMs"`
}

type driverOwner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// syncCommand runs one sync, or plans a canary with a request. The objects are those that a cache shows, each as the API server
// printed it.
type syncCommand struct {
	Command string          `json:"command"`
	Cache   []string        `json:"cache"`
	Request json.RawMessage `json:"request,omitempty"`
}

type syncResult struct {
	Outcome        string  `json:"outcome"`
	RequeueAfterMs float64 `json:"requeueAfterMs"`
	Events         []event `json:"events"`
	Error          string  `json:"error"`
}

// check compares a result with the transcript.
func (r *syncResult) check(want *transcriptSync, events []event) error {
	if !slices.Contains(want.Outcomes, r.Outcome) {
		return fmt.Errorf("the outcome is %s %s, want %v", r.Outcome, r.Error, want.Outcomes)
	}
	if r.Outcome == "done" {
		var after time.Duration
		if want.RequeueAfter != "" {
			var err error
			if after, err = time.ParseDuration(want.RequeueAfter); err != nil {
				return err
			}
		}
		// A client that omitted an optional plan counts the time from the plan before.
		if have := time.Duration(r.RequeueAfterMs * float64(time.Millisecond)); have > after || have < after-time.Second {
			return fmt.Errorf("the next sync is due after %s, want %s", have, after)
		}
	}
	if !slices.Equal(events, want.Events) {
		return fmt.Errorf("the events are %v, want %v", events, want.Events)
	}
	return nil
}

// send sends a command without waiting for the reply.
func (d *driver) send(command any) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	_, err = d.input.Write(append(line, '\n'))
	return err
}

// ask sends a command and reads the reply.
func (d *driver) ask(command, reply any) error {
	if err := d.send(command); err != nil {
		return err
	}
	select {
	case line, ok := <-d.replies:
		if !ok {
			return errors.New("the driver ended")
		}
		if err := json.Unmarshal(line, reply); err != nil {
			return fmt.Errorf("the driver printed %q: %w", line, err)
		}
		return nil
	case <-time.After(replyTimeout):
		return fmt.Errorf("no reply from the driver within %s", replyTimeout)
	}
}

// stop closes the input of the driver, which ends it.
func (d *driver) stop() error {
	_ = d.input.Close()
	ended := make(chan error, 1)
	go func() { ended <- d.command.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(replyTimeout):
		_ = d.command.Process.Kill()
		return errors.New("the driver did not end when its input was closed")
	}
}

// play plays one transcript.
func (d *driver) play(c contract, t *transcript, protocol string) (err error) {
	s, err := newScript(c, t, func() { _ = d.send(map[string]string{"command": "cancel"}) })
	if err != nil {
		return err
	}
	api, planner := s.serve()
	defer func() {
		close(s.ended)
		api.CloseClientConnections()
		planner.CloseClientConnections()
		api.Close()
		planner.Close()
	}()
	start := startCommand{
		Command: "start", API: api.URL, Planner: planner.URL, Protocol: protocol, Owner: t.Owner, Options: t.Options,
		PlannerTimeoutMs: t.PlannerTimeoutMs,
	}
	if err := d.ask(start, &struct{}{}); err != nil {
		return err
	}
	for i, sync := range t.Syncs {
		command := syncCommand{Command: "sync", Cache: []string{}, Request: sync.Canary}
		if sync.Canary != nil {
			command.Command = "canary"
		}
		for _, key := range sync.Cache {
			command.Cache = append(command.Cache, string(t.Objects[key]))
		}
		s.begin(sync)
		result := &syncResult{}
		if err := d.ask(command, result); err != nil {
			return fmt.Errorf("sync %d: %w", i+1, err)
		}
		if err := s.end(result); err != nil {
			return fmt.Errorf("sync %d (%s): %w", i+1, sync.About, err)
		}
	}
	return nil
}
