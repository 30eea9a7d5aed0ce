package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// response has the fields of ForecastRolloutResponse that are compared.
type response struct {
	Effect     string `json:"effect"`
	StartTimes struct {
		Source string `json:"source"`
		Count  int    `json:"count"`
		Guess  bool   `json:"guess"`
	} `json:"startTimes"`
	Limits struct {
		PodsMax int `json:"podsMax"`
	} `json:"limits"`
	Expected forecast `json:"expected"`
}

type forecast struct {
	Outcome          string         `json:"outcome"`
	Reason           string         `json:"reason"`
	Duration         *durationRange `json:"duration"`
	PodsMax          countRange     `json:"podsMax"`
	AvailableMin     countRange     `json:"availableMin"`
	ReplicaSetWrites countRange     `json:"replicaSetWrites"`
}

const never = "OUTCOME_NEVER"

type countRange struct {
	Low    int `json:"low"`
	Median int `json:"median"`
	High   int `json:"high"`
}

type durationRange struct {
	Low    duration `json:"low"`
	Median duration `json:"median"`
	High   duration `json:"high"`
}

// duration is a protobuf duration as JSON, for example "1.5s".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// service is a running server.
type service struct {
	command *exec.Cmd
	url     string
}

// startService starts the server of a rollplan binary, which ends with the context.
func startService(ctx context.Context, binary string) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	s := &service{exec.CommandContext(ctx, binary, "serve", "--listen", address), "http://" + address}
	s.command.Stderr = os.Stderr
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

func (s *service) stop() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

// forecast calls ForecastRollout, with JSON over Connect.
func (s *service) forecast(ctx context.Context, body json.RawMessage) (r response, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/rollplan.v1.RolloutPlanner/ForecastRollout", bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}
