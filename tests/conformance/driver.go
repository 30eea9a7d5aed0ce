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

// clockResolution is that of the clocks of drivers, by which a timer may be due later.
const clockResolution = 2 * time.Millisecond

// driver is the program under test. It reads commands from its standard input, a line of JSON each, and prints a line of
// JSON for each.
type driver struct {
	command *exec.Cmd
	input   io.WriteCloser
	replies chan []byte
	// sessions has those of all leaderships so far.
	sessions map[string]bool
}

func startDriver(command []string) (*driver, error) {
	d := &driver{command: exec.Command(command[0], command[1:]...), replies: make(chan []byte), sessions: map[string]bool{}}
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

// startCommand begins a leadership: the adapter discards all state.
type startCommand struct {
	Command          string          `json:"command"`
	API              string          `json:"api"`
	Planner          string          `json:"planner"`
	Protocol         string          `json:"protocol"`
	Owner            driverOwner     `json:"owner"`
	Options          json.RawMessage `json:"options,omitempty"`
	StatusIntervalMs int             `json:"statusIntervalMs"`
	MinIntervalMs    int             `json:"minIntervalMs"`
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
	NotBeforeMs    float64 `json:"notBeforeMs"`
	Events         []event `json:"events"`
	Error          string  `json:"error"`
}

// check compares a result with the transcript. The adapter has set its timer at most as long ago as given.
func (r *syncResult) check(want *transcriptSync, events []event, timerSet time.Duration) error {
	if r.Outcome != want.Outcome {
		return fmt.Errorf("the outcome is %s %s, want %s", r.Outcome, r.Error, want.Outcome)
	}
	if r.Outcome == "done" {
		after := time.Duration(want.RequeueAfterMs) * time.Millisecond
		if have := time.Duration(r.RequeueAfterMs * float64(time.Millisecond)); have > after || have < after-timerSet {
			return fmt.Errorf("the next sync is due after %s, want %s", have, after)
		}
	}
	if (r.Outcome == "done" || r.Outcome == "again") && want.NotBeforeMs > 0 && r.NotBeforeMs != float64(want.NotBeforeMs) {
		return fmt.Errorf("the next sync is allowed after %v ms, want %d ms", r.NotBeforeMs, want.NotBeforeMs)
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
	s, err := newScript(c, t, d.sessions, func() { _ = d.send(map[string]string{"command": "cancel"}) })
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
		StatusIntervalMs: t.StatusIntervalMs, MinIntervalMs: t.MinIntervalMs, PlannerTimeoutMs: t.PlannerTimeoutMs,
	}
	var timer time.Time
	for i, sync := range t.Syncs {
		if i == 0 || sync.Start {
			s.lead()
			if err := d.ask(start, &struct{}{}); err != nil {
				return err
			}
		}
		command := syncCommand{Command: "sync", Cache: []string{}, Request: sync.Canary}
		if sync.Canary != nil {
			command.Command = "canary"
		}
		for _, key := range sync.Cache {
			command.Cache = append(command.Cache, string(t.Objects[key]))
		}
		if sync.Due {
			time.Sleep(time.Until(timer))
		}
		s.begin(sync)
		result := &syncResult{}
		if err := d.ask(command, result); err != nil {
			return fmt.Errorf("sync %d: %w", i+1, err)
		}
		timer = time.Now().Add(time.Duration(sync.RequeueAfterMs)*time.Millisecond + clockResolution)
		if err := s.end(result); err != nil {
			return fmt.Errorf("sync %d (%s): %w", i+1, sync.About, err)
		}
	}
	return nil
}
