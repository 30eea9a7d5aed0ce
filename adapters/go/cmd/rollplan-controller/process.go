package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"rollplan.dev/rollplan/adapters/go/controller"
	"rollplan.dev/rollplan/adapters/go/rollplan"
)

// memoryLimitRatio is the ratio of GOMEMLIMIT to the memory limit of the container. The rest is for memory that the Go
// runtime does not count.
const memoryLimitRatio = 0.9

// limitMemory sets GOMEMLIMIT from the cgroup, unless the environment sets it, so that the garbage collector works harder
// before the kernel kills the process.
func limitMemory() {
	logger := ctrl.Log.WithName(name)
	if limit, err := memlimit.Set(memlimit.WithRatio(memoryLimitRatio), memlimit.WithProvider(memlimit.FromCgroup)); err != nil {
		logger.V(1).Info("Found no memory limit", "reason", err.Error())
	} else {
		logger.V(1).Info("Limited the memory of the Go runtime", "bytes", limit)
	}
}

// namespaceFile has the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// newProbe returns the probe for the native controller in the given namespace, by default that of the pod.
func newProbe(api *rollplan.API, namespace string, wait time.Duration) (*controller.Probe, error) {
	if namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, errors.New("outside a cluster, set --leader-elect-namespace, which also has the probe for the native " +
				"Deployment controller, or disable the probe with --native-controller-probe=0")
		}
		namespace = strings.TrimSpace(string(text))
	}
	return &controller.Probe{API: api, Namespace: namespace, Wait: wait}, nil
}

// metricsOptions configures the endpoint of metrics.
func metricsOptions(address string, secure bool) server.Options {
	options := server.Options{BindAddress: address, SecureServing: secure}
	if secure {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return options
}

// filterSink drops or downgrades lines of the manager.
type filterSink struct {
	logr.LogSink
	ctx context.Context
}

// filtered returns a logger that does not report the release of the lease as an error once ctx has ended, and leaves the
// result of the readiness check to [readiness].
func filtered(ctx context.Context, logger logr.Logger) logr.Logger {
	return logger.WithSink(filterSink{logger.GetSink(), ctx})
}

func (s filterSink) Info(level int, message string, values ...any) {
	// The line of controller-runtime does not have the reason.
	if message != "healthz check failed" {
		s.LogSink.Info(level, message, values...)
	}
}

func (s filterSink) Error(err error, message string, values ...any) {
	// controller-runtime has no type for this error.
	if s.ctx.Err() != nil && err != nil && err.Error() == "leader election lost" {
		s.Info(0, "Released the lease", values...)
		return
	}
	s.LogSink.Error(err, message, values...)
}

func (s filterSink) WithValues(values ...any) logr.LogSink {
	return filterSink{s.LogSink.WithValues(values...), s.ctx}
}

func (s filterSink) WithName(name string) logr.LogSink {
	return filterSink{s.LogSink.WithName(name), s.ctx}
}
