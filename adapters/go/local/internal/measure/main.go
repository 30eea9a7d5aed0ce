// Command measure prints what a plan costs with the planner in the process, and with the service at the address given:
// tests/local/measure.py.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rollplan.dev/rollplan/adapters/go/local"
	"rollplan.dev/rollplan/adapters/go/planner"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

const (
	rounds = 500
	calls  = 5
)

func main() {
	address, example := os.Args[1], os.Args[2]
	objects, err := os.ReadFile(example)
	check(err)
	request := &rollplanv1.PlanRolloutRequest{Snapshot: &rollplanv1.Snapshot{
		Objects: []string{string(objects)}, ReplicaSetsComplete: true, PodsComplete: true, Now: timestamppb.Now(),
	}}
	memory, begin := memoryMiB(), time.Now()
	inProcess, err := local.New(local.Options{})
	check(err)
	plan(inProcess, request)
	start := time.Since(begin)
	inProcessUs := best(inProcess, request)
	memory = memoryMiB() - memory
	service, err := planner.NewClient(address, planner.DefaultTimeout, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"startMs":   float64(start.Microseconds()) / 1e3,
		"localUs":   inProcessUs,
		"serviceUs": best(service, request),
		"memoryMiB": memory,
	}))
}

func plan(client planner.Planner, request *rollplanv1.PlanRolloutRequest) {
	response, err := client.PlanRollout(context.Background(), request)
	check(err)
	if len(response.GetSteps()) == 0 {
		log.Fatal("no steps")
	}
}

// best returns the microseconds of a plan in the best round. Rounds are short, so that other load does not affect all of them.
func best(client planner.Planner, request *rollplanv1.PlanRolloutRequest) float64 {
	times := make([]float64, rounds)
	for i := range times {
		begin := time.Now()
		for range calls {
			plan(client, request)
		}
		times[i] = float64(time.Since(begin).Microseconds()) / calls
	}
	return slices.Min(times)
}

// memoryMiB returns the memory of this process.
func memoryMiB() float64 {
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	kib, err := strconv.ParseFloat(string(regexp.MustCompile(`VmRSS:\s*(\d+)`).FindSubmatch(status)[1]), 64)
	check(err)
	return kib / 1024
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
