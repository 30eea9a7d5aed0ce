package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"rollplan.dev/rollplan/tests/e2e/workloads"
)

// instant is how long a number of pods must last to count. Within one sync, the Deployment controller scales one ReplicaSet
// after the other, and pods of the first are created meanwhile.
const instant = 250 * time.Millisecond

// comparison is one segment of a rollout and its forecast.
type comparison struct {
	c        testCase
	s        segment
	part     int
	answer   response
	observed observation
}

// observation is what a segment shows.
type observation struct {
	duration time.Duration
	// sizeMax is the highest sum of the sizes of ReplicaSets, sizeAtStart the first one, and podsMax the highest number of pods
	// that lasted.
	sizeMax, sizeAtStart, podsMax int
	availableMin                  int
	writes                        int
}

// compareAll requests the forecasts of all segments, and combines them with the segments. change changes the requests.
func compareAll(ctx context.Context, s *workloads.Service, records []record, change func(json.RawMessage) (json.RawMessage, error)) ([]*comparison, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2) // the service runs no more at the same time
	var all []*comparison
	for _, r := range records {
		for i, segment := range r.Segments {
			k := &comparison{c: r.Case, s: segment, part: i, observed: r.observe(segment)}
			all = append(all, k)
			group.Go(func() (err error) {
				request := segment.Request
				if change != nil {
					request, err = change(request)
				}
				if err == nil {
					err = s.Call(ctx, "ForecastRollout", request, &k.answer)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", r.Case.Name, err)
				}
				return nil
			})
		}
	}
	return all, group.Wait()
}

// observe summarizes a segment.
func (r record) observe(s segment) observation {
	o := observation{duration: s.End.since(s.Start), writes: s.Writes}
	counts := r.counts()
	o.availableMin = math.MaxInt
	last := s.End
	if s.Complete {
		// Pods may be observed a little later than the status that counts them.
		last += milliseconds(instant.Milliseconds())
	}
	for i, count := range counts {
		end, isLast := last, true
		if i+1 < len(counts) && counts[i+1].at <= last {
			end, isLast = counts[i+1].at, false
		}
		if count.at <= s.Start {
			o.sizeAtStart, o.sizeMax, o.podsMax, o.availableMin = count.size, count.size, count.pods, count.available
		} else if count.at <= last {
			o.sizeMax = max(o.sizeMax, count.size)
		}
		lasts := end.since(max(count.at, s.Start)) >= instant || isLast && s.Complete && count.at <= last
		if lasts {
			o.podsMax, o.availableMin = max(o.podsMax, count.pods), min(o.availableMin, count.available)
		}
	}
	return o
}

// count are the sizes of all ReplicaSets and their numbers of pods from a time on.
type count struct {
	at                    milliseconds
	size, pods, available int
}

// counts returns the numbers, as they change.
func (r record) counts() (counts []count) {
	// Each effect changes the size of a ReplicaSet, or its numbers of pods.
	type effect struct {
		at                    milliseconds
		set                   string
		size, pods, available int
	}
	var effects []effect
	sizes := map[string]int{}
	for _, change := range r.Sets {
		effects = append(effects, effect{at: change.At, set: change.Name, size: change.Size - sizes[change.Name]})
		sizes[change.Name] = change.Size
	}
	isActive, isReady := map[string]bool{}, map[string]milliseconds{}
	for _, change := range r.Pods {
		active := !change.Terminating && !change.Gone
		if active != isActive[change.Name] {
			isActive[change.Name] = active
			pods := 1
			if !active {
				pods = -1
			}
			effects = append(effects, effect{at: change.At, set: change.Set, pods: pods})
		}
		available, ready := isReady[change.Name]
		switch {
		case active && change.ReadyAt > 0 && !ready:
			available = max(change.At, milliseconds(change.ReadyAt+int64(r.Case.MinReady))*1000)
			isReady[change.Name] = available
			effects = append(effects, effect{at: available, set: change.Set, available: 1})
		case ready && (!active || change.ReadyAt == 0):
			// A pod may stop being ready before it is available.
			effects = append(effects, effect{at: max(change.At, available), set: change.Set, available: -1})
			delete(isReady, change.Name)
		}
	}
	slices.SortStableFunc(effects, func(a, b effect) int { return cmp.Compare(a.at, b.at) })
	states := map[string]effect{}
	var now count
	for _, e := range effects {
		before := states[e.set]
		after := effect{size: before.size + e.size, pods: before.pods + e.pods}
		states[e.set] = after
		now.at, now.size, now.available = e.at, now.size+e.size, now.available+e.available
		// More pods than the size: the ReplicaSet is about to delete them.
		now.pods += min(after.pods, after.size) - min(before.pods, before.size)
		if len(counts) > 0 && counts[len(counts)-1].at == now.at {
			counts[len(counts)-1] = now
		} else {
			counts = append(counts, now)
		}
	}
	return counts
}

// otherStrategy replaces the strategy of a request by the most careful one: the comparison must fail. Few samples are enough.
func otherStrategy(request json.RawMessage) (json.RawMessage, error) {
	var fields map[string]any
	if err := json.Unmarshal(request, &fields); err != nil {
		return nil, err
	}
	change := fields["changes"].([]any)[0].(map[string]any)
	var deployment map[string]any
	if err := json.Unmarshal([]byte(change["deployment"].(string)), &deployment); err != nil {
		return nil, err
	}
	deployment["spec"].(map[string]any)["strategy"] = map[string]any{
		"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": 1, "maxUnavailable": 0}}
	text, err := json.Marshal(deployment)
	if err != nil {
		return nil, err
	}
	change["deployment"], fields["samples"] = string(text), 10
	return json.Marshal(fields)
}
