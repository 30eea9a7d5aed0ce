package rollplan

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrNativeController means that the Deployment controller of kube-controller-manager manages the same Deployment. The
// two controllers would overwrite each other: the native one scales the ReplicaSets of every Deployment, even if it is
// paused.
var ErrNativeController = errors.New("the Deployment controller of kube-controller-manager also writes to this Deployment: " +
	"disable it (--controllers=*,-deployment-controller) or use PlannedDeployments")

// nativeQuietPeriod is how long the native controller must not have written before the adapter resumes work on a
// Deployment.
const nativeQuietPeriod = time.Minute

// nativeDetector detects status writes that the native Deployment controller makes after the first observation of a
// Deployment. It never compares the clock of the API server with the local one, since the two may differ.
type nativeDetector struct {
	observed bool
	// lastWrite is the time of the latest write of the native controller, by the clock of the API server.
	lastWrite time.Time
	// suspendedUntil is when the adapter may work on the Deployment again, by the local clock.
	suspendedUntil time.Time
}

func (n *nativeDetector) check(owner *unstructured.Unstructured, now time.Time) error {
	if at := lastNativeStatusWrite(owner); n.lastWrite.Before(at) {
		if n.observed {
			n.suspendedUntil = now.Add(nativeQuietPeriod)
		}
		n.lastWrite = at
	}
	n.observed = true
	if now.Before(n.suspendedUntil) {
		return ErrNativeController
	}
	return nil
}

// lastNativeStatusWrite returns the time of the latest status write by kube-controller-manager in managedFields. It
// reads the unstructured content, because GetManagedFields converts all entries, which costs more than a plan.
func lastNativeStatusWrite(owner *unstructured.Unstructured) (last time.Time) {
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
