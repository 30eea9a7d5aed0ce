// Command controller is a Deployment controller with the planner in its own process. It shows how to add the controller of
// rollplan.dev/rollplan/adapters/go/controller to a manager of controller-runtime, for example to your own.
//
//	go run ./examples/controller --mode=custom-resource|takeover [--kubeconfig=FILE]
//
// Run a single replica, in takeover mode only if the Deployment controller of kube-controller-manager is disabled. This example
// has no lease (see LeaderElection in [ctrl.Options]), no probe for that controller (see Probe in [controller.Options]), no
// metrics and no health endpoints, and watches all namespaces. The command rollplan-controller has all of them, and needs a
// service: docs/reference/adapters.md. Other flags of that command are ignored.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"rollplan.dev/rollplan/adapters/go/controller"
	"rollplan.dev/rollplan/adapters/go/local"
	"rollplan.dev/rollplan/adapters/go/rollplan"
)

// name identifies the controller in events and managedFields.
const name = "rollplan-example"

var kinds = map[string]schema.GroupVersionKind{
	"custom-resource": rollplan.PlannedDeployment,
	"takeover":        rollplan.Deployment,
}

func main() {
	mode := pflag.String("mode", "", "custom-resource manages PlannedDeployments, takeover Deployments")
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine) // --kubeconfig
	// The end-to-end tests pass all flags of rollplan-controller.
	pflag.CommandLine.ParseErrorsAllowlist.UnknownFlags = true
	pflag.Parse()
	kind, known := kinds[*mode]
	if !known {
		fmt.Fprintln(os.Stderr, "--mode=custom-resource|takeover is required")
		os.Exit(2)
	}
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), kind); err != nil {
		ctrl.Log.Error(err, "The controller has failed")
		os.Exit(1)
	}
}

func run(ctx context.Context, kind schema.GroupVersionKind) error {
	planner, err := local.New(local.Options{})
	if err != nil {
		return err
	}
	defer planner.Close()
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.UserAgent = name
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	api, err := rollplan.NewAPI(config, mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	cache, err := rollplan.NewCache(api, kind, nil)
	if err != nil {
		return err
	}
	rollouts := &rollplan.Rollouts{
		Kind: kind, Planner: planner, API: api, Reader: cache,
		//lint:ignore SA1019 kubectl describe shows count and age of core/v1 events
		Recorder:    mgr.GetEventRecorderFor(name),
		MinInterval: 100 * time.Millisecond, StatusInterval: 500 * time.Millisecond,
	}
	if err := controller.Add(mgr, rollouts, cache, controller.Options{Workers: 5}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
