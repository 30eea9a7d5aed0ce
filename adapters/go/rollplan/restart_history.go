package rollplan

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// unscheduledVersion is the annotation in which a cache of [NewRestartCache] keeps the last resource version at which a pod had
// no node. The service reads it.
const unscheduledVersion = "rollplan.dev/unscheduled-version"

// history is what a cache of [NewRestartCache] has seen of earlier versions of its objects. It shows the order of writes within
// a second, and which writes of a configuration changed its data. A new process knows less, which causes restarts, but omits none.
type history struct {
	mu sync.Mutex
	// unscheduled holds the last resource version at which each pod had no node.
	unscheduled map[types.UID]uint64
	data        map[types.UID]dataVersion
}

// dataVersion is the data of a configuration, and when it changed.
type dataVersion struct {
	configuration *rollplanv1.Configuration
	lastWrite     time.Time
}

func newHistory() *history {
	return &history{unscheduled: map[types.UID]uint64{}, data: map[types.UID]dataVersion{}}
}

// pod trims a pod, and keeps the last version at which it had no node.
func (h *history) pod(o *Object) {
	spec := o.field("spec")
	if !spec.Exists() {
		return // trimmed already
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if version := o.version(); spec.Get("nodeName").String() == "" && version > 0 {
		h.unscheduled[o.UID] = version
	}
	trimPod(o, h.unscheduled[o.UID])
}

// configuration replaces a configuration by its summary, and corrects when its data changed.
func (h *history) configuration(checksums Checksums) func(*Object) {
	return func(o *Object) {
		if o.Configuration != nil {
			return
		}
		checksums.summarize(o)
		h.mu.Lock()
		defer h.mu.Unlock()
		summary := o.Configuration
		known, isKnown := h.data[o.UID]
		earlier := known.configuration
		switch {
		case !isKnown || summary.GetResourceVersion() < earlier.GetResourceVersion():
		case maps.Equal(earlier.GetKeyChecksums(), summary.GetKeyChecksums()) && earlier.GetChecksum() == summary.GetChecksum():
			summary.ChangedAt, summary.ChangeUncertain = earlier.GetChangedAt(), earlier.GetChangeUncertain()
			summary.ResourceVersion = earlier.GetResourceVersion()
		default:
			// The time of a write that only removes keys is not recorded: no manager owns a removed field.
			changed := time.Now()
			if o.lastWrite.After(known.lastWrite) {
				changed = o.lastWrite
			}
			summary.ChangedAt, summary.ChangeUncertain = timestamppb.New(changed), false
		}
		h.data[o.UID] = dataVersion{summary, o.lastWrite}
	}
}

// forget drops what is known of a deleted object.
func (h *history) forget(o *Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unscheduled, o.UID)
	delete(h.data, o.UID)
}

// version returns the resource version as a number, or 0: resource versions of one API server are comparable integers.
func (o *Object) version() uint64 {
	version, _ := strconv.ParseUint(o.ResourceVersion, 10, 64)
	return version
}
