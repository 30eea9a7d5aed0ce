package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// leases is an API server with one lease.
type leases struct {
	record *resourcelock.LeaderElectionRecord
}

// leaseOf is the lock of one adapter.
type leaseOf struct {
	*leases
	identity string
}

func (l leaseOf) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return l.record, nil, nil
}
func (l leaseOf) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = &record
	return nil
}
func (l leaseOf) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	*l.record = record
	return nil
}
func (l leaseOf) RecordEvent(string) {}
func (l leaseOf) Identity() string   { return l.identity }
func (l leaseOf) Describe() string   { return "apps/canary-rollplan-controller-takeover" }

func TestStandbyReportsTheHolderOfTheLease(t *testing.T) {
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.NewJSON(func(line string) { lines = append(lines, line) }, funcr.Options{}))
	server := &leases{}
	active, standby := &Lock{Interface: leaseOf{server, "active"}}, &Lock{Interface: leaseOf{server, "standby"}}
	check := func(message, metric string) {
		t.Helper()
		if len(lines) != 1 || !strings.Contains(lines[0], message) || !strings.Contains(lines[0], `"lease":"apps/canary-rollplan-controller-takeover"`) {
			t.Errorf("the log is %q, want one line with %q", lines, message)
		}
		lines = nil
		want := "# HELP rollplan_controller_lease_holder Always 1. The label holder has the holder of the lease, and self whether that is this process. Other processes wait for the lease.\n" +
			"# TYPE rollplan_controller_lease_holder gauge\nrollplan_controller_lease_holder{" + metric + "} 1\n"
		if err := testutil.CollectAndCompare(leaseHolder, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}

	if err := active.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "active"}); err != nil {
		t.Fatal(err)
	}
	check(`"msg":"Acquired the lease"`, `holder="active",lease="apps/canary-rollplan-controller-takeover",self="true"`)
	for range 3 { // it is read every two seconds, and reported once
		if _, _, err := standby.Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	check(`"holder":"active"`, `holder="active",lease="apps/canary-rollplan-controller-takeover",self="false"`)

	if err := active.Update(ctx, resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(leaseHolder); n != 0 {
		t.Errorf("%d holders of a released lease", n)
	}
	if err := standby.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "standby"}); err != nil {
		t.Fatal(err)
	}
	check(`"holder":"standby"`, `holder="standby",lease="apps/canary-rollplan-controller-takeover",self="true"`)
}
