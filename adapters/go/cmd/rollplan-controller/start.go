package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"rollplan.dev/rollplan/adapters/go/rollplan"
)

const (
	// accessTimeout is how long a starting adapter repeats lists that the API server does not answer or rejects: a starting API
	// server rejects everything until it has loaded the roles. It is shorter than the 60 s of the startup probe in the chart.
	accessTimeout = 30 * time.Second
	// accessBackoffMin and accessBackoffMax limit the delay between these lists.
	accessBackoffMin = 500 * time.Millisecond
	accessBackoffMax = 5 * time.Second
	// readinessTimeout is shorter than the timeout of kubelet probes.
	readinessTimeout = 800 * time.Millisecond
)

// awaitAccess waits until all kinds can be listed in these namespaces: without permission, a watch would never start. It
// returns an error if one cannot be listed after a while, or immediately if the API server does not serve its kind.
func awaitAccess(ctx context.Context, api *rollplan.API, kinds []schema.GroupVersionKind, namespaces []string) error {
	logger := ctrl.Log.WithName(name)
	end := time.Now().Add(accessTimeout)
	for delay := accessBackoffMin; ; delay = min(2*delay, accessBackoffMax) {
		err := checkLists(ctx, api, kinds, namespaces)
		switch {
		case err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil:
			return err
		case time.Now().Add(delay).After(end):
			return fmt.Errorf("no access to the API server after %s: %w", accessTimeout, err)
		}
		logger.Info("No access to the API server yet, trying again", "delay", delay.String(), "error", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
	}
}

// checkLists returns an error for each kind that cannot be listed.
func checkLists(ctx context.Context, api *rollplan.API, kinds []schema.GroupVersionKind, namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var failed []error
	for _, namespace := range namespaces {
		for _, kind := range kinds {
			_, err := api.List(ctx, kind, namespace, metav1.ListOptions{Limit: 1})
			switch {
			case apierrors.IsNotFound(err) && kind == rollplan.PlannedDeployment:
				return fmt.Errorf("the API server does not serve %s: apply adapters/config/planneddeployment-crd.yaml, and wait for it with "+
					"kubectl wait --for=condition=Established crd/planneddeployments.apps.rollplan.dev: %w", kind, err)
			case apierrors.IsNotFound(err):
				return fmt.Errorf("the API server does not serve %s: %w", kind, err)
			case err != nil:
				failed = append(failed, fmt.Errorf("list %s: %w", kind, err))
			}
		}
	}
	return errors.Join(failed...)
}

// readiness checks whether the adapter is ready. It logs each change, with the reason.
type readiness struct {
	check func(context.Context) error

	mu sync.Mutex
	// reported is the last logged result, or nil.
	reported *string
}

// Check implements [healthz.Checker].
func (r *readiness) Check(request *http.Request) error {
	ctx, cancel := context.WithTimeout(request.Context(), readinessTimeout)
	defer cancel()
	err := r.check(ctx)
	result := "ready"
	if err != nil {
		result = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported != nil && *r.reported == result {
		return err
	}
	r.reported = &result
	if logger := ctrl.Log.WithName(name); err != nil {
		logger.Info("Not ready: the service is unreachable or unhealthy", "error", result)
	} else {
		logger.Info("Ready")
	}
	return err
}
