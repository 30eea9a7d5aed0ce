package rollplan_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"rollplan.dev/rollplan/adapters/go/planner"
	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Sync reads a Deployment, requests a plan and carries it out. A controller calls it for each key of its work queue.
//
// This example uses a fake service and a fake API server. In a controller, the address is that of a rollplan service, the
// configuration is that of the cluster, and Reader is a Cache.
func ExampleRollouts_Sync() {
	service, err := planner.NewClient(exampleService(), planner.DefaultTimeout,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	cluster := httptest.NewServer(http.HandlerFunc(exampleCluster))
	defer cluster.Close()
	api, err := rollplan.NewAPI(&rest.Config{Host: cluster.URL}, cluster.Client())
	if err != nil {
		log.Fatal(err)
	}
	events := record.NewFakeRecorder(1)

	rollouts := &rollplan.Rollouts{Kind: rollplan.Deployment, Planner: service, Reader: api, API: api, Recorder: events}
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	result, err := rollouts.Sync(context.Background(), key)
	if err != nil {
		log.Fatal(err) // a controller retries with backoff
	}
	for _, step := range result.Response.GetSteps() {
		fmt.Println(step.GetSummary())
	}
	fmt.Println(<-events.Events)
	fmt.Println("requeue after", result.RequeueAfter.Round(time.Minute), "failed:", result.Failed)
	// Output:
	// POST /apis/apps/v1/namespaces/shop/replicasets: web-1
	// create ReplicaSet web-1 with 2 replicas
	// Normal ScalingReplicaSet Scaled up replica set web-1 from 0 to 2
	// requeue after 10m0s failed: <nil>
}

// exampleServer returns the same plan for every request.
type exampleServer struct {
	rollplanv1.UnimplementedRolloutPlannerServer
}

func (exampleServer) PlanRollout(context.Context, *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
	timers := &rollplanv1.SyncResponse{AtLatest: durationpb.New(10 * time.Minute)}
	return &rollplanv1.PlanRolloutResponse{Sync: timers, Steps: []*rollplanv1.Step{{
		Summary: "create ReplicaSet web-1 with 2 replicas",
		Call: &rollplanv1.ApiCall{
			Verb: rollplanv1.Verb_VERB_CREATE, ApiVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1",
			ContentType: "application/json", Path: "/apis/apps/v1/namespaces/shop/replicasets",
			BodyJson: `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","namespace":"shop"},"spec":{"replicas":2}}`,
		},
		Events: []*rollplanv1.Event{{
			Type: corev1.EventTypeNormal, Reason: "ScalingReplicaSet", Message: "Scaled up replica set web-1 from 0 to 2",
		}},
	}}}, nil
}

func exampleService() (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	rollplanv1.RegisterRolloutPlannerServer(server, exampleServer{})
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String()
}

// exampleCluster has a Deployment and no ReplicaSets, and prints created objects.
func exampleCluster(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case request.Method == http.MethodPost:
		object, err := io.ReadAll(request.Body)
		if err != nil {
			log.Fatal(err)
		}
		parsed, err := rollplan.ParseObject(object, rollplan.ReplicaSet)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s: %s\n", request.Method, request.URL.Path, parsed.Name)
		w.Write(object)
	case strings.HasSuffix(request.URL.Path, "/replicasets"):
		io.WriteString(w, `{"apiVersion":"apps/v1","kind":"ReplicaSetList","metadata":{},"items":[]}`)
	default:
		io.WriteString(w, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"1"},
			"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}}}}`)
	}
}
