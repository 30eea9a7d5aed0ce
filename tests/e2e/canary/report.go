package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sum adds up the outcomes of some runs.
type sum struct {
	runs, increases, removals int
	// affected are the runs with violations.
	affected                   int
	violations                 map[part]int
	promoted, patches, raises  int
	deaths, late               int
	refused, written, problems int
	lost                       int
}

func add(outcomes []*outcome) (s sum) {
	s.violations = map[part]int{}
	for _, o := range outcomes {
		s.runs++
		s.increases += o.verdict.increases
		s.removals += o.verdict.removals
		for _, v := range o.verdict.violations {
			s.violations[v.part]++
		}
		if len(o.verdict.violations) > 0 {
			s.affected++
		}
		if o.finalImage != image("v1") {
			s.promoted++
		}
		s.patches += o.patches
		s.raises += o.raises
		s.deaths += o.deaths
		s.late += o.late
		s.refused += o.refused
		s.written += o.written
		s.lost += o.lost
		s.problems += len(o.problems)
	}
	return s
}

// report returns the table, all violations, and an error if the results do not meet the requirements.
func report(tasks []task, outcomes []*outcome, repeated map[repeatedCase]*repeatedControls, version string, seed uint64) (table, details string, failed error) {
	var canaries, controls []*outcome
	var b, lists strings.Builder
	found := map[string]bool{}
	for i, o := range outcomes {
		t := tasks[i]
		switch {
		case t.sabotage != nil:
			kind := t.Name[:strings.LastIndex(t.Name, "-")]
			// The observer must find the sabotage by the pods, not only by the fields that were written.
			found[kind] = found[kind] || slices.ContainsFunc(o.verdict.violations, func(v violation) bool { return !strings.HasPrefix(v.what, "limits") })
			continue
		case t.control != nil:
			controls = append(controls, o)
		default:
			canaries = append(canaries, o)
		}
		// The cases with names must not have violations.
		if t.check != nil && t.control == nil && len(o.verdict.violations) > 0 {
			o.problem("violations")
		}
		for _, v := range o.verdict.violations {
			fmt.Fprintf(&lists, "- violation, %s, %s: %s\n", t, v, o.c)
		}
		for _, problem := range o.problems {
			fmt.Fprintf(&lists, "- problem: %s: %s\n", problem, o.c)
		}
	}
	ours, theirs := add(canaries), add(controls)
	fmt.Fprintf(&b, "Kubernetes %s, seed %d: %d canaries, and the same rollouts with the same events without a canary. With the canaries, %d patches\n",
		version, seed, ours.runs, ours.patches)
	fmt.Fprintf(&b, "were carried out, of which %d began a further step; %d callers died after a patch, and %d sent theirs late; other clients wrote %d times, and the guard refused %d\n",
		ours.raises, ours.deaths-ours.late, ours.late, ours.written, ours.refused)
	fmt.Fprintf(&b, "writes. %d states were lost before there was a copy. %d Deployments ended with a new template.\n\n", ours.lost, ours.promoted)
	b.WriteString("| | required | canaries | without |\n| --- | --- | --- | --- |\n")
	fmt.Fprintf(&b, "| increases of sizes that were checked | | %d | %d |\n", ours.increases, theirs.increases)
	fmt.Fprintf(&b, "| deletions of available pods that were checked | | %d | %d |\n", ours.removals, theirs.removals)
	for _, p := range parts {
		required := ""
		if p == hold || p == abort {
			required = "0"
		}
		fmt.Fprintf(&b, "| above the ceiling or below the floor: %s | %s | %d | %d |\n", p, required, ours.violations[p], theirs.violations[p])
	}
	fmt.Fprintf(&b, "| runs with one of these | | %d | %d |\n", ours.affected, theirs.affected)
	alone, lines := compareAlone(repeated)
	fmt.Fprintf(&b, "| of these, not reproduced by the Deployment controller alone in %d runs | 0 | %d | |\n", maxControls, alone)
	fmt.Fprintf(&b, "| Deployments that are not the user's at the end, and other problems | 0 | %d | |\n", ours.problems)
	b.WriteString(lines)
	var errs []error
	if n := ours.violations[hold] + ours.violations[abort]; n > 0 {
		errs = append(errs, fmt.Errorf("%d violations at a hold, or in an abort of one", n))
	}
	// From a promotion on, and after scaling, the guarantees are those of the Deployment controller alone.
	if alone > 0 {
		errs = append(errs, fmt.Errorf("violations in %d cases in which the Deployment controller alone has none", alone))
	}
	if ours.problems > 0 {
		errs = append(errs, fmt.Errorf("%d problems", ours.problems))
	}
	for kind, is := range found {
		if !is {
			errs = append(errs, fmt.Errorf("the observer has not found %s", kind))
		} else {
			fmt.Fprintf(&lists, "- control: the observer has found %s\n", kind)
		}
	}
	return b.String(), lists.String(), errors.Join(errs...)
}

// compareAlone returns in how many cases only the run with a canary has violations, and a table of all cases with violations.
func compareAlone(repeated map[repeatedCase]*repeatedControls) (alone int, table string) {
	if len(repeated) == 0 {
		return 0, ""
	}
	var b strings.Builder
	b.WriteString("\n| case | the Deployment controller alone | runs with violations |\n| --- | --- | --- |\n")
	byName := func(a, b repeatedCase) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	for _, c := range slices.SortedFunc(maps.Keys(repeated), byName) {
		r := repeated[c]
		if r.violating == 0 {
			alone++
		}
		fmt.Fprintf(&b, "| %s | %s | %d of %d |\n", c.name, c.manners, r.violating, r.runs)
	}
	return alone, b.String()
}
