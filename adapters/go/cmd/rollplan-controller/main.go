// Command rollplan-controller carries out the plans of a rollplan service: as a Deployment controller, or as one that restarts
// workloads when their configuration changes. See docs/reference/adapters.md and docs/guides/restarts.md.
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

	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"rollplan.dev/rollplan/adapters/go/controller"
	"rollplan.dev/rollplan/adapters/go/planner"
	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// name identifies the controller in events, managedFields and the lease.
const name = "rollplan-controller"

// restartsMode is the value of --mode with which the controller only restarts workloads.
const restartsMode = "restarts"

// modes maps the other values of --mode to the kinds whose rollouts the controller manages.
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
	ctrl.RegisterFlags(flags)                                    // --kubeconfig
	logging := zap.Options{StacktraceLevel: zapcore.DPanicLevel} // errors of the API server need no stack
	logging.BindFlags(flags)
	var (
		mode       = flags.String("mode", "", "takeover manages apps/v1 Deployments and requires that the Deployment controller of kube-controller-manager is disabled; custom-resource manages PlannedDeployments on any cluster; restarts restarts workloads when their configuration changes, together with any Deployment controller. Required.")
		address    = flags.String("planner", "", "address of the rollplan service in the form host:port. Calls are balanced over all addresses that the name resolves to. Required.")
		plannerTLS = flags.String("planner-ca", "", "PEM file with the CA certificates that verify the service. If empty, the connection is not encrypted.")
		timeout    = flags.Duration("planner-timeout", planner.DefaultTimeout, "timeout of one attempt to call the service. A call that fails with UNAVAILABLE, or that an overloaded service rejects, is attempted up to three times.")
		namespaces = flags.String("namespaces", "", "comma-separated list of namespaces to watch. If empty, all namespaces are watched.")
		selector   = flags.String("selector", "", "label selector of the objects to manage: Deployments, or the workloads to restart. If empty, all are managed.")
		workers    = flags.Int("workers", 5, "number of Deployments that are reconciled concurrently")
		interval   = flags.Duration("min-interval", 100*time.Millisecond, "minimum time between two syncs of a Deployment. One plan at its end covers all changes within it.")
		status     = flags.Duration("status-interval", 500*time.Millisecond, "how long to delay a status update that only reports progress, so that one write covers all changes within it. The end of a rollout is reported without delay.")
		qps        = flags.Float64("kube-api-qps", 50, "maximum rate of API server requests, per second")
		burst      = flags.Int("kube-api-burst", 100, "maximum burst of API server requests")
		metrics    = flags.String("metrics-bind-address", ":8080", "address of the metrics endpoint. Set it to 0 to disable the endpoint.")
		secure     = flags.Bool("metrics-secure", true, "serve metrics over HTTPS with a self-signed certificate, and only to clients that the API server authenticates and allows to get the path /metrics. Requires permission to create TokenReviews and SubjectAccessReviews.")
		health     = flags.String("health-probe-bind-address", ":8081", "address of the endpoints /healthz and /readyz. The latter fails while the service is not reachable or not healthy. Set it to 0 to disable them.")
		pprof      = flags.String("pprof-bind-address", "", "address of the pprof endpoint. If empty, the endpoint is disabled.")
		elect      = flags.Bool("leader-elect", true, "work only while holding a lease, so that several replicas can run")
		electIn    = flags.String("leader-elect-namespace", "", "namespace of the lease. Defaults to the namespace of the pod.")
		probe      = flags.Duration("native-controller-probe", 25*time.Second, "in takeover mode, how long to watch, before the first write, whether the native Deployment controller writes the status of a Deployment without pods. Set it to 0 to start at once.")
		restarts   = restartFlags(flags)
		leaseName  = flags.String("leader-elect-lease-name", "", "name of the lease, in the namespace of the pod or --leader-elect-namespace. Adapters with the same lease exclude each other, so each installation needs its own. Defaults to rollplan-controller and the mode.")
		lease      = flags.Duration("leader-elect-lease-duration", 15*time.Second, "how long other replicas wait before they take over a lease that is not renewed")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	kind, known := modes[*mode]
	if !known && *mode != restartsMode {
		return fmt.Errorf("invalid --mode %q: must be takeover, custom-resource or restarts", *mode)
	}
	if err := restarts.parse(*mode); err != nil {
		return err
	}
	if *address == "" {
		return errors.New("--planner is required: set it to the address of the rollplan service")
	}
	labelSelector, err := labels.Parse(*selector)
	if err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	if *elect && *electIn == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return errors.New("outside a cluster, set --leader-elect-namespace, or set --leader-elect=false if no other replica runs")
	}
	if *leaseName == "" {
		*leaseName = name + "-" + *mode
	}
	transport := insecure.NewCredentials()
	if *plannerTLS != "" {
		if transport, err = credentials.NewClientTLSFromFile(*plannerTLS, ""); err != nil {
			return fmt.Errorf("--planner-ca: %w", err)
		}
	}
	service, err := planner.NewClient(*address, *timeout, grpc.WithTransportCredentials(transport),
		grpc.WithChainUnaryInterceptor(controller.MeasurePlanner))
	if err != nil {
		return fmt.Errorf("--planner: %w", err)
	}
	defer service.Close()

	ctrl.SetLogger(filtered(ctx, zap.New(zap.UseFlagOptions(&logging))))
	ctrl.Log.WithName(name).Info("Starting", "version", version(), "mode", *mode, "planner", *address)
	limitMemory()
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst, config.UserAgent = float32(*qps), *burst, name
	config.DisableCompression = true // costs more processor time than it saves within a cluster
	renew := *lease * 2 / 3
	retry := *lease * 2 / 15
	lock := &controller.Lock{}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                             metricsOptions(*metrics, *secure),
		HealthProbeBindAddress:              *health,
		PprofBindAddress:                    *pprof,
		LeaderElection:                      *elect,
		LeaderElectionID:                    *leaseName,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       lease,
		RenewDeadline:                       &renew,
		RetryPeriod:                         &retry,
	})
	if err != nil {
		return err
	}
	// The manager uses the lock once it starts. The lock records events with the manager.
	if lock.Interface, err = leaderelection.NewResourceLock(config, mgr, leaderelection.Options{
		LeaderElection: *elect, LeaderElectionNamespace: *electIn, LeaderElectionID: *leaseName, RenewDeadline: renew,
	}); err != nil {
		return err
	}
	api, err := rollplan.NewAPI(config, mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	watched := splitList(*namespaces)
	add := func() error {
		options := controller.Options{Workers: *workers}
		if *probe > 0 && kind == rollplan.Deployment {
			if options.Probe, err = newProbe(api, *electIn, *probe); err != nil {
				return err
			}
		}
		return addRollouts(ctx, mgr, &rollplan.Rollouts{
			Kind: kind, Planner: service, API: api, StatusInterval: *status, MinInterval: *interval,
			// The gauge of rollouts needs the phases in the reports.
			Options: &rollplanv1.PlanOptions{Report: true},
		}, labelSelector, watched, options)
	}
	if *mode == restartsMode {
		add = func() error { return restarts.add(ctx, mgr, service, api, labelSelector, watched) }
	}
	if err := errors.Join(
		add(),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("planner", (&readiness{check: service.Check}).Check),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// addRollouts adds the controller of rollouts to a manager.
func addRollouts(ctx context.Context, mgr ctrl.Manager, rollouts *rollplan.Rollouts, selector labels.Selector, namespaces []string, options controller.Options) error {
	cache, err := rollplan.NewCache(rollouts.API, rollouts.Kind, selector, namespaces...)
	if err != nil {
		return err
	}
	if err := awaitAccess(ctx, rollouts.API, cache.Kinds(), namespaces); err != nil {
		return err
	}
	rollouts.Reader = cache
	//lint:ignore SA1019 kubectl describe shows count and age of core/v1 events, which the native controller records too
	rollouts.Recorder = mgr.GetEventRecorderFor(name)
	return controller.Add(mgr, rollouts, cache, options)
}

// version is that of the module, or the commit of a build from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return info.Main.Version + " (" + setting.Value + ")"
		}
	}
	return info.Main.Version
}

// splitList splits a comma-separated list.
func splitList(text string) (items []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
