package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// verdict is what the comparison of some rollouts shows.
type verdict struct {
	// segments is the number of forecasts, and outside lists those whose envelope the rollout has left.
	segments int
	outside  []string
	// ended is the number of rollouts whose extremes are known, and different lists those whose extremes differ from the
	// forecast.
	ended     int
	different []string
	// covered counts the rollouts with enough independent start times by whether their duration is in the interval.
	covered ratio
	// uncovered lists those whose duration is not in it.
	uncovered []string
	// stuck is the number of rollouts that were forecast never to complete, and wrong lists the other outcomes that were wrong.
	stuck int
	wrong []string
	// writes lists the rollouts with another number of writes.
	writes []string
}

// ratio counts successes.
type ratio struct{ hits, all int }

func (r *ratio) add(hit bool) {
	r.all++
	if hit {
		r.hits++
	}
}

func (r ratio) share() float64 { return float64(r.hits) / float64(max(1, r.all)) }

func (r ratio) String() string {
	if r.all == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d (%.0f %%)", r.hits, r.all, 100*r.share())
}

// isTimed is true for a rollout whose duration is compared with the interval.
func (k *comparison) isTimed() bool {
	return k.s.Complete && k.answer.Expected.Duration != nil && k.c.Kind != quotaRollout
}

func (k *comparison) isCovered() bool {
	d := k.answer.Expected.Duration
	return time.Duration(d.Low) <= k.observed.duration && k.observed.duration <= time.Duration(d.High)
}

// enough is the number of start times from which the interval is required to be right.
const enough = 20

func judge(compared []*comparison) (v verdict) {
	for _, k := range compared {
		e, o := k.answer.Expected, k.observed
		label := fmt.Sprintf("%s.%d (%s, %s, %d replicas, surge %s, unavailable %s)", k.c.Name, k.part, k.c.Kind, k.c.Start.Shape, k.c.Replicas, k.c.MaxSurge, k.c.MaxUnavailable)
		v.segments++
		// While a ReplicaSet waits for its quota, or another one has not yet deleted its pods, sizes are larger than numbers of pods.
		sizeMax := max(k.answer.Limits.PodsMax, o.sizeAtStart)
		if o.sizeMax > sizeMax || o.podsMax > e.PodsMax.High || o.availableMin < e.AvailableMin.Low {
			v.outside = append(v.outside, fmt.Sprintf("%s: sizes %d (at most %d), pods %d (at most %d), available %d (at least %d)",
				label, o.sizeMax, sizeMax, o.podsMax, e.PodsMax.High, o.availableMin, e.AvailableMin.Low))
		}
		isStuck := e.Outcome == never
		if isStuck {
			v.stuck++
		}
		if k.s.Complete && isStuck || k.c.Kind == stuckRollout && !isStuck {
			v.wrong = append(v.wrong, fmt.Sprintf("%s: %s %s", label, e.Outcome, e.Reason))
		}
		if !k.s.Complete && !isStuck {
			continue // until the next forecast, or not long enough
		}
		v.ended++
		if o.podsMax != e.PodsMax.Median || o.availableMin != e.AvailableMin.Median {
			why := "in the range of the samples"
			if o.podsMax < e.PodsMax.Low || o.podsMax > e.PodsMax.High || o.availableMin < e.AvailableMin.Low || o.availableMin > e.AvailableMin.High {
				why = "not in the range of the samples"
			}
			v.different = append(v.different, fmt.Sprintf("%s: highest %d, forecast %s; lowest %d, forecast %s: %s", label, o.podsMax, e.PodsMax, o.availableMin, e.AvailableMin, why))
		}
		if k.isTimed() && !k.c.Start.Shape.isCorrelated() && k.answer.StartTimes.Count >= enough {
			v.covered.add(k.isCovered())
			if !k.isCovered() {
				v.uncovered = append(v.uncovered, fmt.Sprintf("%s: %s, forecast %s", label, o.duration.Round(100*time.Millisecond), e.Duration))
			}
		}
		// Another order of starts gives another number of steps: the range of the samples, with a tolerance.
		allowed := func(writes int) float64 { return max(1, 0.1*float64(writes)) }
		w := e.ReplicaSetWrites
		if float64(o.writes) < float64(w.Low)-allowed(w.Low) || float64(o.writes) > float64(w.High)+allowed(w.High) {
			v.writes = append(v.writes, fmt.Sprintf("%s: %d writes, forecast %s", label, o.writes, w))
		}
	}
	return v
}

func (r countRange) String() string { return fmt.Sprintf("%d (%d–%d)", r.Median, r.Low, r.High) }

// few is the number of rollouts below which a share depends on chance.
const few = 40

// tolerated returns how many of all rollouts may miss a requirement that a share of them must meet. For fewer than few
// rollouts, a model that meets the requirement in exactly this share exceeds the returned number with a probability below 1
// in 10,000.
func tolerated(all int, share float64) int {
	if all >= few {
		return int(math.Floor((1 - share) * float64(all)))
	}
	// The binomial distribution: the probability of exactly count, and of more.
	probability, more := math.Pow(share, float64(all)), 1.0
	for count := 0; ; count++ {
		if more -= probability; more < 1e-4 || count == all {
			return count
		}
		probability *= float64(all-count) / float64(count+1) * (1 - share) / share
	}
}

// failures lists the requirements that are not met.
func (v verdict) failures() (failed []error) {
	fail := func(format string, arguments ...any) { failed = append(failed, fmt.Errorf(format, arguments...)) }
	if len(v.outside) > 0 {
		fail("%d of %d rollouts have left the envelope of the forecast", len(v.outside), v.segments)
	}
	if len(v.different) > tolerated(v.ended, 0.95) {
		fail("%d of %d rollouts have other extremes than the median sample; at most 5 %% may", len(v.different), v.ended)
	}
	missed := v.covered.all - v.covered.hits
	switch share := v.covered.share(); {
	case v.covered.all < few && missed > tolerated(v.covered.all, 0.9):
		fail("the interval contains %s of the durations: %d may be outside", v.covered, tolerated(v.covered.all, 0.9))
	case v.covered.all >= few && (share < 0.85 || share > 0.97):
		fail("the interval contains %s of the durations, not 85–97 %%", v.covered)
	}
	if len(v.wrong) > 0 {
		fail("%d wrong outcomes", len(v.wrong))
	}
	if len(v.writes) > tolerated(v.ended, 0.95) {
		fail("%d of %d rollouts have other numbers of writes; at most 5 %% may", len(v.writes), v.ended)
	}
	return failed
}

// report returns the tables, the rollouts that differ, and an error if a requirement is not met, or if the control meets them.
func report(compared, control []*comparison, version string, seed uint64) (tables, details string, err error) {
	var b, lists strings.Builder
	native := slices.DeleteFunc(slices.Clone(compared), func(k *comparison) bool { return k.c.Adapter })
	ours := slices.DeleteFunc(slices.Clone(compared), func(k *comparison) bool { return !k.c.Adapter })
	verdicts := []verdict{judge(native), judge(ours), judge(control)}
	rollouts := func(all []*comparison) int {
		return len(slices.DeleteFunc(slices.Clone(all), func(k *comparison) bool { return k.part > 0 }))
	}
	fmt.Fprintf(&b, "Kubernetes %s, seed %d: %d rollouts by its Deployment controller, and %d by our adapter with settled plans. The control has\n",
		version, seed, rollouts(native), rollouts(ours))
	b.WriteString("forecasts of another strategy (`maxSurge` 1, `maxUnavailable` 0) for the same rollouts.\n\n")
	b.WriteString("| | required | Kubernetes | adapter | control |\n| --- | --- | --- | --- | --- |\n")
	row := func(what, required string, cell func(verdict) ratio) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", what, required, cell(verdicts[0]), cell(verdicts[1]), cell(verdicts[2]))
	}
	row("forecasts whose highest and lowest numbers of pods the rollout never leaves", "all", func(v verdict) ratio { return ratio{v.segments - len(v.outside), v.segments} })
	row("highest and lowest numbers are those of the median sample", "95 %", func(v verdict) ratio { return ratio{v.ended - len(v.different), v.ended} })
	row(fmt.Sprintf("duration in the 90 %% interval, with at least %d independent start times", enough), "85–97 %", func(v verdict) ratio { return v.covered })
	row("`NEVER`, and not complete at the end", "all", func(v verdict) ratio { return ratio{max(0, v.stuck-len(v.wrong)), v.stuck} })
	row("writes of ReplicaSets in the range of the samples, within 10 % or one write", "95 %", func(v verdict) ratio { return ratio{v.ended - len(v.writes), v.ended} })

	b.WriteString("\nDurations in the 90 % interval, by the number of observed start times and by their distribution, and the median of the measured\nduration divided by the median of the forecast:\n\n")
	limits := []int{0, 5, 10, enough, math.MaxInt}
	b.WriteString("| | 1–4 (a guess) | 5–9 | 10–19 | 20 or more | measured / forecast |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, form := range []shape{fixed, uniform, longTail, correlated, correlatedAgain} {
		fmt.Fprintf(&b, "| %s |", form)
		for i := range len(limits) - 1 {
			var r ratio
			for _, k := range compared {
				if n := k.answer.StartTimes.Count; k.isTimed() && k.c.Start.Shape == form && limits[i] <= n && n < limits[i+1] {
					r.add(k.isCovered())
				}
			}
			fmt.Fprintf(&b, " %s |", r)
		}
		var quotients []float64
		for _, k := range compared {
			if k.isTimed() && k.c.Start.Shape == form && k.answer.Expected.Duration.Median > 0 {
				quotients = append(quotients, k.observed.duration.Seconds()/time.Duration(k.answer.Expected.Duration.Median).Seconds())
			}
		}
		slices.Sort(quotients)
		if len(quotients) > 0 {
			at := func(share float64) float64 { return quotients[int(share*float64(len(quotients)-1))] }
			fmt.Fprintf(&b, " %.2f (%.2f–%.2f) |\n", at(0.5), at(0.05), at(0.95))
		} else {
			b.WriteString(" – |\n")
		}
	}
	failed := append(verdicts[0].failures(), verdicts[1].failures()...)
	for _, list := range []struct {
		title string
		of    func(verdict) []string
	}{
		{"Outside the envelope", func(v verdict) []string { return v.outside }},
		{"Other extremes than the median sample", func(v verdict) []string { return v.different }},
		{"Durations outside the interval", func(v verdict) []string { return v.uncovered }},
		{"Wrong outcomes", func(v verdict) []string { return v.wrong }},
		{"Other numbers of writes", func(v verdict) []string { return v.writes }},
	} {
		if all := append(list.of(verdicts[0]), list.of(verdicts[1])...); len(all) > 0 {
			fmt.Fprintf(&lists, "\n%s:\n\n", list.title)
			for _, line := range all {
				fmt.Fprintf(&lists, "- %s\n", line)
			}
		}
	}
	if len(verdicts[2].failures()) == 0 {
		failed = append(failed, errors.New("forecasts of another strategy pass too: the comparison shows nothing"))
	}
	return b.String(), lists.String(), errors.Join(failed...)
}

func (r durationRange) String() string {
	tenths := func(d duration) time.Duration { return time.Duration(d).Round(100 * time.Millisecond) }
	return fmt.Sprintf("%s (%s–%s)", tenths(r.Median), tenths(r.Low), tenths(r.High))
}
