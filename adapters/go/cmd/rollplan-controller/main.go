// Command rollplan-controller rolls out Deployments by the plans of a rollplan service. See docs/adapters.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"rollplan.dev/rollplan/adapters/go/controller"
	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// name is who we are: in events, in managedFields and as the lease.
const name = "rollplan-controller"

// modes are the kinds that can be rolled out.
var modes = map[string]schema.GroupVersionKind{
	"takeover":        rollplan.Deployment,
	"custom-resource": rollplan.PlannedDeployment,
}

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	ctrl.RegisterFlags(flags) // --kubeconfig
	logging := zap.Options{}
	logging.BindFlags(flags)
	var (
		mode        = flags.String("mode", "", "takeover: apps/v1 Deployments, where the Deployment controller of kube-controller-manager is off; custom-resource: PlannedDeployments, on any cluster. Required.")
		planner     = flags.String("planner", "", "address of the rollplan service, as host:port. Required.")
		plannerTLS  = flags.String("planner-ca", "", "file with the certificates (PEM) to trust the service by; without it the connection is not encrypted, as beside a mesh")
		timeout     = flags.Duration("planner-timeout", rollplan.DefaultTimeout, "how long one call of the service may take")
		terminating = flags.Bool("terminating-replicas", true, "whether the API server keeps status.terminatingReplicas (feature gate DeploymentReplicaSetTerminatingReplicas)")
		namespaces  = flags.String("namespaces", "", "namespaces to work in, separated by commas; empty for all")
		selector    = flags.String("selector", "", "label selector of the Deployments to work on; empty for all")
		workers     = flags.Int("workers", 5, "Deployments to work on at the same time")
		interval    = flags.Duration("min-interval", 100*time.Millisecond, "least time between two looks at a Deployment: what happens within it is answered at once, at its end")
		status      = flags.Duration("status-interval", 500*time.Millisecond, "how long a status waits that only tells how far a rollout has come, so that one write tells of all within it")
		qps         = flags.Float64("kube-api-qps", 50, "calls of the API server a second")
		burst       = flags.Int("kube-api-burst", 100, "calls of the API server at once")
		metrics     = flags.String("metrics-bind-address", ":8080", "where metrics are served; 0 for nowhere")
		health      = flags.String("health-probe-bind-address", ":8081", "where /healthz and /readyz are served; 0 for nowhere")
		pprof       = flags.String("pprof-bind-address", "", "where profiles of this process are served; empty for nowhere")
		elect       = flags.Bool("leader-elect", true, "work only while holding the lease, so that several copies may run")
		electIn     = flags.String("leader-elect-namespace", "", "namespace of the lease; by default the pod's own")
		lease       = flags.Duration("leader-elect-lease-duration", 15*time.Second, "how long a lease lasts that its holder does not renew")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	kind, known := modes[*mode]
	if !known {
		return fmt.Errorf("--mode is %q, and must be takeover or custom-resource", *mode)
	}
	if *planner == "" {
		return errors.New("--planner is required: the address of the rollplan service")
	}
	chosen, err := labels.Parse(*selector)
	if err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	if *elect && *electIn == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return errors.New("outside a cluster, --leader-elect-namespace is required; or --leader-elect=false, if this is the only copy")
	}
	transport := insecure.NewCredentials()
	if *plannerTLS != "" {
		if transport, err = credentials.NewClientTLSFromFile(*plannerTLS, ""); err != nil {
			return fmt.Errorf("--planner-ca: %w", err)
		}
	}
	service, err := rollplan.NewClient(*planner, *timeout, grpc.WithTransportCredentials(transport))
	if err != nil {
		return fmt.Errorf("--planner: %w", err)
	}
	defer service.Close()

	if os.Getenv("GOGC") == "" {
		// What is kept is small beside what passes through: half the collections, for a tenth more memory.
		debug.SetGCPercent(200)
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst, config.UserAgent = float32(*qps), *burst, name
	renew := *lease * 2 / 3
	retry := *lease * 2 / 15
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Cache:                         cacheOptions(kind, *namespaces, chosen),
		Client:                        client.Options{FieldOwner: name},
		Metrics:                       server.Options{BindAddress: *metrics},
		HealthProbeBindAddress:        *health,
		PprofBindAddress:              *pprof,
		LeaderElection:                *elect,
		LeaderElectionID:              name + "-" + *mode,
		LeaderElectionNamespace:       *electIn,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return err
	}
	rollouts := &rollplan.Rollouts{
		Kind: kind, Planner: service, Reader: mgr.GetCache(), Writer: mgr.GetClient(),
		//lint:ignore SA1019 Kubernetes' own controller writes core/v1 events, which kubectl describe counts and dates
		Recorder:       mgr.GetEventRecorderFor(name),
		StatusInterval: *status,
		Options:        &rollplanv1.PlanOptions{TerminatingReplicas: terminating},
	}
	if err := errors.Join(
		controller.Add(ctx, mgr, rollouts, controller.Options{Workers: *workers, Interval: *interval}),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	); meta.IsNoMatchError(err) {
		return fmt.Errorf("the cluster does not know the custom resource; kubectl apply -f adapters/config/planneddeployment-crd.yaml: %w", err)
	} else if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// cacheOptions keep of each object what the service reads.
func cacheOptions(kind schema.GroupVersionKind, namespaces string, selector labels.Selector) cache.Options {
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(kind)
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			owner:         {Label: selector, Transform: withoutFieldSets},
			&corev1.Pod{}: {Transform: withoutSpec},
		},
	}
	for namespace := range strings.SplitSeq(namespaces, ",") {
		if namespace = strings.TrimSpace(namespace); namespace != "" {
			if options.DefaultNamespaces == nil {
				options.DefaultNamespaces = map[string]cache.Config{}
			}
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// withoutSpec drops the largest part of a pod, of which only the node's name is read.
func withoutSpec(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Spec = nil, corev1.PodSpec{NodeName: pod.Spec.NodeName}
	}
	return object, nil
}

// withoutFieldSets keeps of the managed fields who wrote when: that tells whether Kubernetes' own controller writes.
func withoutFieldSets(object any) (any, error) {
	if owner, ok := object.(*unstructured.Unstructured); ok {
		entries, _, _ := unstructured.NestedFieldNoCopy(owner.Object, "metadata", "managedFields")
		list, _ := entries.([]any)
		for _, entry := range list {
			if fields, ok := entry.(map[string]any); ok {
				delete(fields, "fieldsV1")
			}
		}
	}
	return object, nil
}
