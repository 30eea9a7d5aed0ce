package workloads

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// Service is a running server.
type Service struct {
	command *exec.Cmd
	url     string
}

// StartService starts the server of a rollplan binary, which ends with the context.
func StartService(ctx context.Context, binary string, log io.Writer) (*Service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	s := &Service{exec.CommandContext(ctx, binary, "serve", "--listen", address), "http://" + address}
	s.command.Stderr = log
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	return s, controlplane.Poll(ctx, "the service", func(context.Context) error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// Stop kills the server.
func (s *Service) Stop() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

// CallError is an answer that is not 200.
type CallError struct {
	Code int
	Body string
}

func (e *CallError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Body) }

// Call calls a method, with JSON over Connect.
func (s *Service) Call(ctx context.Context, method string, body []byte, response any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/rollplan.v1.RolloutPlanner/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = &CallError{answer.StatusCode, string(text)}
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, response)
}
