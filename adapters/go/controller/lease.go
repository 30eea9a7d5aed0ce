package controller

import (
	"context"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var leaseHolder = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "rollplan_controller_lease_holder",
	Help: "Always 1. The label holder has the holder of the lease, and self whether that is this process. Other processes wait for the lease.",
}, []string{"lease", "holder", "self"})

func init() { ctrlmetrics.Registry.MustRegister(leaseHolder) }

// Lock is the lock of leader election. It logs and measures who holds the lease: a standby is ready and does nothing, which
// would otherwise be hard to tell from an adapter without work.
type Lock struct {
	resourcelock.Interface

	mu     sync.Mutex
	holder string
}

// Get reads the lease.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.observe(ctx, record.HolderIdentity)
	}
	return record, raw, err
}

// Create creates the lease.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.observe(ctx, record.HolderIdentity)
	}
	return err
}

// Update acquires, renews or releases the lease.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.observe(ctx, record.HolderIdentity)
	}
	return err
}

// observe reports a change of the holder. It is empty after the lease has been released.
func (l *Lock) observe(ctx context.Context, holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if holder == l.holder {
		return
	}
	l.holder = holder
	lease, self := l.Describe(), holder == l.Identity()
	leaseHolder.Reset()
	if holder == "" {
		return
	}
	leaseHolder.WithLabelValues(lease, holder, strconv.FormatBool(self)).Set(1)
	message := "Waiting for the lease, which another adapter holds"
	if self {
		message = "Acquired the lease"
	}
	log.FromContext(ctx).WithName("lease").Info(message, "lease", lease, "holder", holder)
}
