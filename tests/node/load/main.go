// Command load calls PlanRollout at a constant rate over one channel without a retry policy, or sends requests over HTTP/1.1, half of
// them over new connections. It prints the number of calls
// every second, and a line for each failed call.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

const deployment = `{"apiVersion": "apps/v1", "kind": "Deployment",
  "metadata": {"name": "web", "namespace": "shop", "uid": "00000000-0000-4000-8000-000000000001", "resourceVersion": "1",
    "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
  "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}`

// Line is a line of the output.
type Line struct {
	OK     int    `json:"ok"`
	Failed int    `json:"failed"`
	Code   string `json:"code,omitempty"`
	Error  string `json:"error,omitempty"`
}

func main() {
	target := flag.String("target", "", "address of the service")
	interval := flag.Duration("interval", 5*time.Millisecond, "time between the starts of two calls")
	policy := flag.String("policy", "pick_first", "load balancing policy")
	web := flag.Bool("http", false, "send HTTP/1.1 requests to the target, a URL")
	flag.Parse()
	request := &rollplanv1.PlanRolloutRequest{Snapshot: &rollplanv1.Snapshot{
		Now: timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), Objects: []string{deployment},
	}}
	channel, err := grpc.NewClient(*target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+*policy+`": {}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	client := rollplanv1.NewRolloutPlannerClient(channel)
	call := func(ctx context.Context, _ int) error {
		_, err := client.PlanRollout(ctx, request)
		return err
	}
	if *web {
		once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		call = func(ctx context.Context, number int) error {
			return get(ctx, []*http.Client{http.DefaultClient, once}[number%2], *target)
		}
	}
	var (
		mutex sync.Mutex
		total Line
		out   = json.NewEncoder(os.Stdout)
	)
	printLine := func(line Line) {
		if err := out.Encode(line); err != nil {
			log.Fatal(err)
		}
	}
	calls := time.NewTicker(*interval)
	lines := time.NewTicker(time.Second)
	for number := 0; ; number++ {
		select {
		case <-calls.C:
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				err := call(ctx, number)
				mutex.Lock()
				defer mutex.Unlock()
				if err == nil {
					total.OK++
					return
				}
				total.Failed++
				printLine(Line{total.OK, total.Failed, status.Code(err).String(), err.Error()})
			}()
		case <-lines.C:
			mutex.Lock()
			printLine(total)
			mutex.Unlock()
		}
	}
}

// get sends a request, and reads the whole response.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
