package rollplan

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrNativeController says that Kubernetes' own Deployment controller is at work on the same Deployment. The two would
// fight: that controller sizes the ReplicaSets of every Deployment, even of a paused one.
var ErrNativeController = errors.New("the Deployment controller of kube-controller-manager writes to this Deployment too: " +
	"turn it off (--controllers=*,-deployment-controller), or use PlannedDeployments")

// nativeQuiet is how long Kubernetes' own controller must have been still before a Deployment is touched again.
const nativeQuiet = time.Minute

// nativeWatch looks for status writes of Kubernetes' own Deployment controller after the first look. No clocks are
// compared, since the API server may have another one than we.
type nativeWatch struct {
	looked bool
	// last is the time of its last write, by the API server's clock.
	last metav1.Time
	// heldUntil is how long the Deployment is left alone, by ours.
	heldUntil time.Time
}

func (n *nativeWatch) check(owner *unstructured.Unstructured, now time.Time) error {
	for _, entry := range owner.GetManagedFields() {
		if entry.Manager != "kube-controller-manager" || entry.Subresource != "status" || entry.Time == nil {
			continue
		}
		if n.looked && n.last.Before(entry.Time) {
			n.heldUntil = now.Add(nativeQuiet)
		}
		if n.last.Before(entry.Time) {
			n.last = *entry.Time
		}
	}
	n.looked = true
	if now.Before(n.heldUntil) {
		return ErrNativeController
	}
	return nil
}
