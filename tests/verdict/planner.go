// Package verdict compares the reports of rollplan with those of kstatus and kubectl about the same objects.
package verdict

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// defaultPlanner answers one request per line. Set ROLLPLAN_LINES to use another program.
const defaultPlanner = "../../target/debug/examples/plan_lines"

// planner is rollplan as a child process.
type planner struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPlanner() (*planner, error) {
	path := os.Getenv("ROLLPLAN_LINES")
	if path == "" {
		path = defaultPlanner
	}
	cmd := exec.Command(path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w\nbuild it first: cargo build --profile test --example plan_lines", err)
	}
	return &planner{cmd, in, bufio.NewReaderSize(out, 1<<20)}, nil
}

func (p *planner) close() {
	p.in.Close()
	_ = p.cmd.Wait()
}

// call makes one call. If the planner rejects it, call returns the reported error.
func (p *planner) call(method string, request, response any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	line := bytes.Join([][]byte{[]byte(method), data, []byte("\n")}, []byte(" "))
	if _, err := p.in.Write(line); err != nil {
		return fmt.Errorf("planner: %w", err)
	}
	answer, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("planner: %w", err)
	}
	var refusal struct{ Error string }
	if json.Unmarshal(answer, &refusal) == nil && refusal.Error != "" {
		return fmt.Errorf("%s: %s", method, refusal.Error)
	}
	return json.Unmarshal(answer, response)
}

// report contains the fields of a RolloutReport that are compared.
type report struct {
	Phase   string
	Message string
	Generic bool
	Verdict struct {
		Outlook string
		Certain bool
		Reason  string
	}
}

// word is the phase without its prefix.
func (r report) word() string {
	const prefix = "PHASE_"
	if len(r.Phase) > len(prefix) {
		return r.Phase[len(prefix):]
	}
	return r.Phase
}

// computeStatus requests the status of the object. The others are further objects in the snapshot.
func (p *planner) computeStatus(now string, object map[string]any, others ...map[string]any) (report, error) {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": append(others, object)})
	if err != nil {
		return report{}, err
	}
	request := map[string]any{"snapshot": map[string]any{
		"now":                 now,
		"objects":             []string{string(text)},
		"replicaSetsComplete": true,
		"podsComplete":        true,
		"target": map[string]any{
			"apiVersion": object["apiVersion"],
			"kind":       object["kind"],
		},
	}}
	var response struct{ Report report }
	err = p.call("ComputeStatus", request, &response)
	return response.Report, err
}
