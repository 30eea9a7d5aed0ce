package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"rollplan.dev/rollplan/adapters/go/rollplan"
)

// log collects the lines of the log. The logger of controller-runtime can be set once.
var log []string

func init() {
	ctrl.SetLogger(filtered(context.Background(), funcr.NewJSON(func(line string) { log = append(log, line) }, funcr.Options{})))
}

// starting is an API server that answers lists with a status code until a time.
type starting struct {
	code  int
	until time.Time
	lists []string
}

func (s *starting) RoundTrip(request *http.Request) (*http.Response, error) {
	s.lists = append(s.lists, request.URL.Path)
	code, body := http.StatusOK, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}`
	if time.Now().Before(s.until) {
		reason := map[int]string{403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}[s.code]
		code, body = s.code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":"%s","message":"no roles yet"}`, s.code, reason)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: request}, nil
}

func (s *starting) api(t *testing.T) *rollplan.API {
	t.Helper()
	api, err := rollplan.NewAPI(&rest.Config{Host: "http://api", QPS: -1}, &http.Client{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

var watchedKinds = []schema.GroupVersionKind{rollplan.PlannedDeployment, rollplan.ReplicaSet}

func TestStartWaitsForRoles(t *testing.T) {
	for _, code := range []int{403, 503} {
		synctest.Test(t, func(t *testing.T) {
			log = nil
			server := &starting{code: code, until: time.Now().Add(20 * time.Second)}
			if err := awaitAccess(t.Context(), server.api(t), watchedKinds, []string{"a", "b"}); err != nil {
				t.Fatal(err)
			}
			if len(log) == 0 || !strings.Contains(log[0], "No access to the API server yet, trying again") || !strings.Contains(log[0], "no roles yet") {
				t.Errorf("the log is %q", log)
			}
			// Every namespace has its own roles.
			for _, namespace := range []string{"a", "b"} {
				if all := strings.Join(server.lists, " "); !strings.Contains(all, "/namespaces/"+namespace+"/replicasets") {
					t.Errorf("the lists are %s", all)
				}
			}
		})
	}
}

func TestStartEndsWithoutPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := &starting{code: 403, until: start.Add(time.Hour)}
		err := awaitAccess(t.Context(), server.api(t), watchedKinds, nil)
		if err == nil || !strings.Contains(err.Error(), "no access to the API server after 30s: list apps.rollplan.dev/v1alpha1, Kind=PlannedDeployment: no roles yet") {
			t.Errorf("%v", err)
		}
		if waited := time.Since(start); waited < 20*time.Second || waited > accessTimeout {
			t.Errorf("it ended after %s", waited)
		}
	})
}

func TestStartEndsAtOnceWithoutTheKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		server := &starting{code: 404, until: start.Add(time.Hour)}
		err := awaitAccess(t.Context(), server.api(t), watchedKinds, nil)
		if err == nil || !strings.Contains(err.Error(), "apply adapters/config/planneddeployment-crd.yaml") || time.Since(start) > 0 {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

func TestReadinessLogsEachChangeWithItsReason(t *testing.T) {
	log = nil
	var failure error
	check := (&readiness{check: func(context.Context) error { return failure }}).Check
	request := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	for _, failure = range []error{errors.New("connection refused"), errors.New("connection refused"), nil, nil, errors.New("draining")} {
		if err := check(request); !errors.Is(err, failure) {
			t.Errorf("%v, want %v", err, failure)
		}
	}
	ctrl.Log.Info("healthz check failed", "statuses", []any{struct{}{}}) // of controller-runtime
	for i, want := range []string{`"error":"connection refused"`, `"msg":"Ready"`, `"error":"draining"`} {
		if len(log) != 3 || !strings.Contains(log[i], want) {
			t.Fatalf("the log is %q", log)
		}
	}
}
