package rollplan_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Sync reads a Deployment, requests a plan and carries it out. A controller calls it for each key of its work queue.
//
// This example uses a fake service and a fake API server. In a controller, the address is that of a rollplan service,
// and Reader, APIReader and Writer come from a controller-runtime manager: GetCache, GetAPIReader and GetClient.
func ExampleRollouts_Sync() {
	service, err := rollplan.NewClient(exampleService(), rollplan.DefaultTimeout,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	cluster := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(exampleDeployment()).Build()
	events := record.NewFakeRecorder(1)

	rollouts := &rollplan.Rollouts{
		Kind:    rollplan.Deployment,
		Planner: service, Reader: cluster, APIReader: cluster, Writer: cluster, Recorder: events,
	}
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	result, err := rollouts.Sync(context.Background(), key)
	if err != nil {
		log.Fatal(err) // a controller retries with backoff
	}
	for _, step := range result.Response.GetSteps() {
		fmt.Println(step.GetSummary())
	}
	fmt.Println(<-events.Events)
	fmt.Println("requeue after", result.RequeueAfter, "retry:", result.Retry)

	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(rollplan.ReplicaSet)
	if err := cluster.Get(context.Background(), types.NamespacedName{Namespace: "shop", Name: "web-1"}, set); err != nil {
		log.Fatal(err)
	}
	fmt.Println("found ReplicaSet", set.GetName())
	// Output:
	// create ReplicaSet web-1 with 2 replicas
	// Normal ScalingReplicaSet Scaled up replica set web-1 from 0 to 2
	// requeue after 0s retry: false
	// found ReplicaSet web-1
}

// exampleServer returns the same plan for every request.
type exampleServer struct {
	rollplanv1.UnimplementedRolloutPlannerServer
}

func (exampleServer) PlanRollout(context.Context, *rollplanv1.PlanRolloutRequest) (*rollplanv1.PlanRolloutResponse, error) {
	return &rollplanv1.PlanRolloutResponse{Steps: []*rollplanv1.Step{{
		Summary: "create ReplicaSet web-1 with 2 replicas",
		Call: &rollplanv1.ApiCall{
			Verb: rollplanv1.Verb_VERB_CREATE, ApiVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1",
			ContentType: "application/json",
			BodyJson:    `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","namespace":"shop"},"spec":{"replicas":2}}`,
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

func exampleDeployment() *unstructured.Unstructured {
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
	}}
	deployment.SetGroupVersionKind(rollplan.Deployment)
	deployment.SetNamespace("shop")
	deployment.SetName("web")
	return deployment
}
