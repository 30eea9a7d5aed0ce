package rollplan

import (
	"errors"
	"time"

	"github.com/tidwall/gjson"
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

func (n *nativeDetector) check(owner *Object, now time.Time) error {
	if at := owner.nativeStatusWrite; n.lastWrite.Before(at) {
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

// lastNativeStatusWrite returns the time of the latest status write by kube-controller-manager in managedFields.
func lastNativeStatusWrite(managedFields gjson.Result) (last time.Time) {
	managedFields.ForEach(func(_, entry gjson.Result) bool {
		found := gjson.GetMany(entry.Raw, "manager", "subresource", "time")
		if found[0].String() == "kube-controller-manager" && found[1].String() == "status" {
			if at, err := time.Parse(time.RFC3339, found[2].String()); err == nil && last.Before(at) {
				last = at
			}
		}
		return true
	})
	return last
}
