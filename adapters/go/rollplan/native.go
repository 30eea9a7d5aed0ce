package rollplan

import (
	"errors"
	"time"

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
	last time.Time
	// heldUntil is how long the Deployment is left alone, by ours.
	heldUntil time.Time
}

func (n *nativeWatch) check(owner *unstructured.Unstructured, now time.Time) error {
	if at := nativeStatusWrite(owner); n.last.Before(at) {
		if n.looked {
			n.heldUntil = now.Add(nativeQuiet)
		}
		n.last = at
	}
	n.looked = true
	if now.Before(n.heldUntil) {
		return ErrNativeController
	}
	return nil
}

// nativeStatusWrite is the time of the last status write of Kubernetes' own controller that is still to be seen. It
// reads the managed fields where they are: GetManagedFields converts them, which costs more than a plan.
func nativeStatusWrite(owner *unstructured.Unstructured) (last time.Time) {
	metadata, _ := owner.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if fields["manager"] != "kube-controller-manager" || fields["subresource"] != "status" {
			continue
		}
		text, _ := fields["time"].(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil && last.Before(at) {
			last = at
		}
	}
	return last
}
