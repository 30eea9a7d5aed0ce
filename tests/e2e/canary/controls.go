package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// control is a run by the Deployment controller alone.
type control struct {
	// attempt numbers the controls of a case.
	attempt int
	// held are the limits of the steps of a hold. The user writes the first together with the new image, whose pods never become
	// ready, or with minReadySeconds of a hold if the rollout continues, and the others later.
	held []*appsv1.RollingUpdateDeployment
	// continues is whether the user puts the limits back afterwards.
	continues bool
}

// maxControls is how many controls a case with violations has at most.
const maxControls = 60

// manner is how a case with violations is repeated without a canary.
type manner string

const (
	asBefore manner = "the same rollout and events"
	// atOtherMoments has random times between the events.
	atOtherMoments manner = "at other moments"
	// undone is the same rollout, undone at random moments.
	undone manner = "undone at other moments"
	// heldByHand has the limits of the hold.
	heldByHand manner = "scaled with the limits of the hold, and pods that never become ready"
	// continuedByHand has the limits of the hold, and then those of the user, at other moments.
	continuedByHand manner = "scaled with the limits of the hold, then continued or undone with those of the user"
)

// mannersOf returns how a case is repeated after a violation, in turn.
func mannersOf(c testCase, v violation) []manner {
	isScaled := func(s step) bool { return s.Action == scale }
	switch {
	case v.part == scaled:
		return []manner{heldByHand, continuedByHand}
	case v.part == undoing:
		return []manner{asBefore, atOtherMoments, undone}
	// After a release, the rollout continues from the limits of the hold.
	case v.part == promotion && slices.ContainsFunc(c.Hold, isScaled), v.part == native && c.End == release:
		return []manner{asBefore, atOtherMoments, continuedByHand}
	}
	return []manner{asBefore, atOtherMoments}
}

// repeat returns a control of a case with violations.
func (m manner) repeat(c testCase, o *outcome, attempt int) task {
	t := task{c, &control{attempt: attempt}}
	random := rand.New(rand.NewPCG(c.Seed, uint64(attempt)))
	later := func(s step) step {
		s.Percent, s.After = random.IntN(100), time.Duration(random.IntN(1000))*time.Millisecond
		return s
	}
	switch m {
	case heldByHand:
		t.control.held = o.log.heldLimits()
	case continuedByHand:
		t.control.held, t.control.continues = o.log.heldLimits(), true
		for _, steps := range []*[]step{&t.Hold, &t.Rollout} {
			*steps = slices.Clone(*steps)
			for i := range *steps {
				(*steps)[i].After = time.Duration(random.IntN(2000)) * time.Millisecond
			}
		}
		if t.End != abortIt {
			t.End = promote
		}
	case atOtherMoments:
		t.Hold, t.Rollout = nil, nil
		for _, s := range slices.Concat(c.Hold, []step{{Action: c.End}}, c.Rollout) {
			if s.Action != "" {
				t.Rollout = append(t.Rollout, later(s))
			}
		}
		t.End = ""
	case undone:
		t.Hold, t.End, t.Rollout = nil, "", []step{later(step{Action: abortIt})}
	}
	return t
}

// repeatedCase is a case with violations, and what is repeated.
type repeatedCase struct {
	name    string
	manners string
}

// repeatedControls counts the further controls of a case, and those with violations. The times of two runs differ by chance.
type repeatedControls struct{ runs, violating int }

// repeatControls repeats each case with violations without a canary, until the Deployment controller alone has violations too. At
// most maxControls are run.
func (h *harness) repeatControls(ctx context.Context, tasks []task, outcomes []*outcome, parallel int) (map[repeatedCase]*repeatedControls, error) {
	next, tried := map[repeatedCase]func(attempt int) task{}, map[repeatedCase]*repeatedControls{}
	for i, o := range outcomes {
		if tasks[i].control != nil || tasks[i].sabotage != nil {
			continue
		}
		for _, v := range o.verdict.violations {
			manners := mannersOf(tasks[i].testCase, v)
			key := repeatedCase{tasks[i].Name, join(manners)}
			tried[key] = &repeatedControls{}
			next[key] = func(attempt int) task { return manners[attempt%len(manners)].repeat(tasks[i].testCase, o, attempt) }
		}
	}
	for attempt := 1; attempt <= maxControls && len(next) > 0; {
		var keys []repeatedCase
		var batch []task
		for last := min(attempt+max(1, parallel/len(next)), maxControls+1); attempt < last; attempt++ {
			for key, repeat := range next {
				keys = append(keys, key)
				batch = append(batch, repeat(attempt))
			}
		}
		results, err := h.runAll(ctx, batch, parallel)
		if err != nil {
			return nil, err
		}
		for i, o := range results {
			tried[keys[i]].runs++
			if len(o.verdict.violations) > 0 {
				tried[keys[i]].violating++
				delete(next, keys[i])
			}
		}
	}
	return tried, nil
}

// join lists manners for the table.
func join(manners []manner) string {
	var texts []string
	for _, m := range manners {
		texts = append(texts, string(m))
	}
	return strings.Join(texts, "; ")
}
