package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// instant is how long a number of pods may last without counting: while one ReplicaSet creates pods and another one has not yet
// deleted its own, there are more pods than the sizes allow.
const instant = time.Second

// comparison is one segment of a rollout beside its forecast.
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

// compareAll requests the forecasts of all segments, and places them beside the segments. change changes the requests.
func compareAll(ctx context.Context, s *service, records []record, change func(json.RawMessage) (json.RawMessage, error)) ([]*comparison, error) {
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
					k.answer, err = s.forecast(ctx, request)
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
	sizes, sum := map[string]int{}, 0
	for _, change := range r.Sets {
		if change.At > s.End {
			break
		}
		sum += change.Size - sizes[change.Name]
		sizes[change.Name] = change.Size
		if change.At <= s.Start {
			o.sizeAtStart = sum
		}
		if change.At > s.Start {
			o.sizeMax = max(o.sizeMax, sum)
		}
	}
	o.sizeMax = max(o.sizeMax, o.sizeAtStart)

	counts := r.counts()
	o.availableMin = r.Case.Replicas * 10
	for i, count := range counts {
		end := s.End
		if i+1 < len(counts) {
			end = min(end, counts[i+1].at)
		}
		begin := max(count.at, s.Start)
		if end < begin || end == begin && begin != s.End {
			continue
		}
		o.availableMin = min(o.availableMin, count.available)
		if end.since(begin) >= instant || begin == s.Start {
			o.podsMax = max(o.podsMax, count.pods)
		}
	}
	return o
}

// count is the number of pods from a time on.
type count struct {
	at              milliseconds
	pods, available int
}

// counts returns the numbers of pods, as they change.
func (r record) counts() []count {
	type effect struct {
		at              milliseconds
		pods, available int
	}
	var effects []effect
	last := map[string]podChange{}
	// availableAt is when the pod becomes available with its latest change, or has become available. 0 if it does not.
	availableAt := map[string]milliseconds{}
	for _, change := range r.Pods {
		before, seen := last[change.Name]
		was := seen && !before.Terminating && !before.Gone
		is := !change.Terminating && !change.Gone
		switch {
		case is && !was:
			effects = append(effects, effect{change.At, 1, 0})
		case !is && was:
			effects = append(effects, effect{change.At, -1, 0})
		}
		at := availableAt[change.Name]
		switch {
		case is && change.ReadyAt > 0 && at == 0:
			availableAt[change.Name] = max(change.At, milliseconds(change.ReadyAt+int64(r.Case.MinReady))*1000)
		case (!is || change.ReadyAt == 0) && at > 0:
			if at < change.At {
				effects = append(effects, effect{at, 0, 1}, effect{change.At, 0, -1})
			}
			delete(availableAt, change.Name)
		}
		last[change.Name] = change
	}
	for _, at := range availableAt {
		effects = append(effects, effect{at, 0, 1})
	}
	slices.SortStableFunc(effects, func(a, b effect) int { return cmp.Compare(a.at, b.at) })
	var counts []count
	var now count
	for _, e := range effects {
		now.at, now.pods, now.available = e.at, now.pods+e.pods, now.available+e.available
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
