package main

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/kubernetes/pkg/controller/deployment/util"
)

// Whole rollouts: upstream and our planner each control a Deployment from its creation in a simulation of their own. Both
// simulations use the same random numbers. A user makes changes for a while, and pods fail; after that, all pods become
// healthy, and the simulations continue until there are no more writes. After each tick, both sides must be equal: the
// sizes, annotations and readiness of all ReplicaSets, the counters, conditions and revision of the Deployment, and the
// events.
//
// Only the names of ReplicaSets (by the order of their creation) and the times of conditions are normalized.

const (
	busyTicks  = 20
	maxTicks   = 1000
	stuckTicks = 100 // without writes, after which an incomplete rollout is considered stuck
	restTicks  = 3   // without writes, after which a complete rollout has ended
)

// life is the simulation of a rollout on one side.
type life struct {
	sim   *simulation
	names renaming // of ReplicaSets
	seen  int
}

func newLife(seed, unit uint64) *life {
	l := &life{sim: newSimulation(newGenerator(seed, unit, clockOf(int(unit)))), names: renaming{}}
	l.sim.pace = 1 // ReplicaSets with the same creation time would be ordered by name, and hashes differ
	return l
}

// tick describes the result of a pass independently of the names of ReplicaSets.
func (l *life) tick(world *World, r *Result) string {
	var b strings.Builder
	for _, rs := range world.ReplicaSets {
		l.call(rs.Name)
	}
	for _, rs := range r.Attempts {
		l.call(rs.Name)
	}
	for _, w := range r.Writes {
		fmt.Fprintf(&b, "%s %s/%s %s\n", w.Op, w.Kind, w.Subresource, l.names.text(w.Name))
	}
	for _, e := range r.Events {
		fmt.Fprintf(&b, "event %s %s %s\n", e.Type, e.Reason, l.names.text(e.Message))
	}
	var sets []string
	for _, rs := range r.Sets {
		sets = append(sets, fmt.Sprintf("%s: image %s size %d ready %d available %d annotations %v deleting %v",
			l.names.text(rs.Name), rs.Spec.Template.Spec.Containers[0].Image, *rs.Spec.Replicas, rs.Status.ReadyReplicas, rs.Status.AvailableReplicas, rs.Annotations, rs.DeletionTimestamp != nil))
	}
	sort.Strings(sets)
	b.WriteString(strings.Join(sets, "\n") + "\n")
	d := r.Deployment
	fmt.Fprintf(&b, "deployment: annotations %v\n", d.Annotations)
	st := d.Status.DeepCopy()
	for _, c := range st.Conditions {
		fmt.Fprintf(&b, "condition %s %s %s %s\n", c.Type, c.Status, c.Reason, l.names.text(c.Message))
	}
	st.Conditions = nil
	fmt.Fprintf(&b, "status %s\n", js(st))
	return b.String()
}

// call assigns a name to a ReplicaSet by the order of creation.
func (l *life) call(name string) {
	if _, ok := l.names[name]; !ok {
		l.seen++
		l.names[name] = fmt.Sprintf("set-%d", l.seen)
	}
}

// rollout simulates a rollout on both sides. It returns the number of ticks and, if the rollout ended early, the reason:
// the exemption that applied, or too many pods that are replaced a few at a time.
func (w *worker) rollout(seed, unit uint64) (ticks int, parted string, diffs []Difference, at *World, err error) {
	up, our := newLife(seed, unit), newLife(seed, unit)
	quiet, moved := 0, 0
	for ticks = 0; ticks < maxTicks && quiet < restTicks; ticks++ {
		if ticks == busyTicks {
			for _, l := range []*life{up, our} {
				l.sim.busy, l.sim.healthy = 0, 1
				l.sim.w.Deployment.Spec.Paused = false
			}
		}
		u, o := up.sim.w.AsStored(), our.sim.w.AsStored()
		r := w.up.Pass(u, NewServer(u))
		s, err := w.ours.Pass(o, &Result{})
		if diffs, err := unplanned(s, err); len(diffs) > 0 || err != nil {
			return ticks, "", diffs, o, err
		}
		if a, b := up.tick(u, r), our.tick(o, s); a != b {
			if name := exempt(u, false); name != "" {
				return ticks, name, nil, nil, nil
			}
			return ticks, "", []Difference{{fmt.Sprintf("tick %d", ticks), a, b}}, o, nil
		}
		if len(r.Writes) > 0 {
			moved = ticks
		}
		if len(r.Writes) == 0 && ticks > busyTicks && complete(u) {
			quiet++
		} else {
			quiet = 0
		}
		up.sim.step(r)
		our.sim.step(s)
	}
	if quiet < restTicks && ticks-moved < stuckTicks {
		return ticks, fmt.Sprintf("equal so far, not complete after %d ticks", ticks), nil, nil, nil
	}
	if quiet < restTicks && staleDesiredReplicas(up.sim.w) {
		diffs, at, err := w.settleRollout(our)
		return ticks, "stale-desired-replicas: equal, and stuck indefinitely; settled plans complete it", diffs, at, err
	}
	if quiet < restTicks {
		return ticks, "", []Difference{{"rest", "not complete after " + fmt.Sprint(ticks) + " ticks", ""}}, our.sim.w, nil
	}
	return ticks, "", nil, nil, nil
}

// settleRollout continues a rollout in which passes and upstream are stuck with settled plans, which must complete it.
func (w *worker) settleRollout(l *life) ([]Difference, *World, error) {
	quiet := 0
	for range maxTicks {
		at := l.sim.w.AsStored()
		s, err := w.ours.settle(at)
		if diffs, err := unplanned(s, err); len(diffs) > 0 || err != nil {
			return diffs, at, err
		}
		if quiet++; len(s.Writes) > 0 || !complete(at) {
			quiet = 0
		}
		if quiet == restTicks {
			return nil, nil, nil
		}
		l.sim.step(s)
	}
	return []Difference{{"rest", "stuck in stale desired-replicas", "not complete with settled plans either"}}, l.sim.w, nil
}

// unplanned returns a difference if our planner returned no plan, or an error if its process has exited.
func unplanned(s *Result, err error) ([]Difference, error) {
	var gone *plannerGone
	if errors.As(err, &gone) {
		return nil, err
	}
	if err == nil {
		err = s.Err
	}
	if err != nil {
		return []Difference{{What: "no plan", Ours: err.Error()}}, nil
	}
	return nil, nil
}

// complete reports whether the rollout is complete or the Deployment is being deleted.
func complete(w *World) bool {
	d := w.Deployment
	return d.DeletionTimestamp != nil || util.DeploymentComplete(d, &d.Status)
}

// rollouts compares n rollouts and prints the results.
func rollouts(c *config) (int, error) {
	began := time.Now()
	var mu sync.Mutex
	var first error
	ticks, failed, same, parted := 0, 0, 0, map[string]int{}
	for phase := 0; phase < 2; phase++ { // the upstream clock is global
		setUpstreamClock(clockOf(phase))
		var wg sync.WaitGroup
		for k := range c.workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				w, err := newWorker(c)
				if err == nil {
					defer w.close()
				}
				for unit := phase + 2*k; unit < c.n && err == nil; unit += 2 * c.workers {
					if c.unit >= 0 && unit != c.unit {
						continue
					}
					t, name, diffs, at, e := w.rollout(c.seed, uint64(unit))
					err = e
					mu.Lock()
					ticks += t
					switch {
					case len(diffs) > 0:
						if failed++; failed <= c.maxReports {
							fmt.Printf("=== seed %d rollout %d (go run ./parity -rollouts -n %d -seed %d -unit %d)\n%s", c.seed, unit, c.n, c.seed, unit, describe(at))
							for _, d := range diffs {
								fmt.Println(d.Explain())
							}
						}
					case name != "":
						parted[name]++
					default:
						same++
					}
					mu.Unlock()
				}
				if err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}()
		}
		wg.Wait()
	}
	for _, name := range sortedKeys(parted) {
		fmt.Printf("  %6d ended early: %s\n", parted[name], name)
	}
	fmt.Printf("seed %d: %d rollouts, %d passes on each side, in %s\n%d passed, %d failed\n", c.seed, same+failed+sum(parted), ticks, time.Since(began).Round(time.Millisecond), same, failed)
	return failed, first
}

func sum(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}
