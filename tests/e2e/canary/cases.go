package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// fault is the defect of the new pods.
type fault string

const (
	good       fault = "good"
	neverReady fault = "never ready"
	noImage    fault = "image missing"
	badImage   fault = "image name invalid"
	// lostImage is an image that the nodes cannot use anymore, once all pods have it.
	lostImage fault = "image lost"
	crashLoop fault = "crash loop"
	// crashOnce is a pod that fails some time after it became ready, and then becomes ready again.
	crashOnce fault = "crashes once"
	// stall is a rollout in which only the first half of the pods, and one more, become ready.
	stall fault = "the second half is never ready"
)

// action is what a user or another client does.
type action string

const (
	scale        action = "scale"
	promote      action = "promote"
	abortIt      action = "abort"
	release      action = "release"
	applyOld     action = "kubectl apply, old image"
	applyNew     action = "kubectl apply, new image"
	applyThird   action = "kubectl apply, third image"
	setThird     action = "kubectl set image"
	undo         action = "kubectl rollout undo"
	restart      action = "kubectl rollout restart"
	replace      action = "kubectl replace"
	dropState    action = "annotation removed"
	editState    action = "annotation edited, then removed"
	zero         action = "scale to 0 and back"
	pause        action = "kubectl rollout pause and resume"
	deleteStable action = "ReplicaSet deleted"
	putBack      action = "minReadySeconds put back"
	loosen       action = "limits changed"
	failStable   action = "stable pod fails"
)

// nothing is only a wait.
const nothing action = ""

// step is an action after a delay. In the control, the same actions occur during a rollout without a canary.
type step struct {
	After  time.Duration
	Action action
	// The delay begins once new pods exist, this percentage of the first number of pods, and nothing has changed for the duration
	// Quiet.
	Percent int
	Quiet   time.Duration
	// Step is the number of the step of the canary that must have begun.
	Step int
	// Replicas is the new number for scale.
	Replicas int
}

// testCase is one canary. The seed determines all of it.
type testCase struct {
	Name           string
	Seed           uint64
	Replicas       int
	MaxSurge       string
	MaxUnavailable string
	MinReady       int
	// Steps, Surge and Bake are fields of the policy. Policy has the other fields.
	Steps  []string
	Surge  string
	Bake   int
	Policy map[string]string
	Fault  fault
	Guard  bool
	// Steerers is the number of callers. Deaths lists after which patches each of them stops for a while. With Late, it stops
	// between the plan and the patch, and sends the patch later.
	Steerers int
	Deaths   []int
	Late     bool
	// Hold has the actions from the beginning of the hold, and End is the last command, once the step EndStep has begun. Rollout
	// and Retry follow after it.
	Hold    []step
	End     action
	EndStep int
	Rollout []step
	Retry   bool
	// Start is the range of times that pods take to become ready.
	StartMin, StartMax time.Duration
	// sabotage changes the patches of a steerer, in controls.
	sabotage func(operations []map[string]any)
	// check is a further requirement of a named case.
	check func(*outcome) error
}

func (c testCase) String() string {
	steps := func(steps []step) (names []string) {
		for _, s := range steps {
			names = append(names, string(s.Action))
		}
		return names
	}
	return fmt.Sprintf("%s (%d replicas, surge %s+%q, unavailable %s, minReadySeconds %d, steps %s, %s, guard %t, %d steerers, at the hold %q, then %s %q, %v)",
		c.Name, c.Replicas, c.MaxSurge, c.Surge, c.MaxUnavailable, c.MinReady, strings.Join(c.Steps, ", "), c.Fault, c.Guard, c.Steerers,
		steps(c.Hold), c.End, steps(c.Rollout), c.Policy)
}

func (c testCase) limits() limits {
	l := limits{surge: intstr.Parse(c.MaxSurge), unavailable: intstr.Parse(c.MaxUnavailable), minReady: int32(c.MinReady)}
	if c.Surge != "" {
		l.allowed = intstr.Parse(c.Surge)
	}
	return l
}

// generate returns the cases of a seed.
func generate(seed uint64, count int) (cases []testCase) {
	for i := range count {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		c := testCase{Name: fmt.Sprintf("c%03d", i), Seed: random.Uint64(), Guard: i%3 == 2, Steerers: 1 + random.IntN(2),
			Late: random.IntN(3) == 0, StartMin: 100 * time.Millisecond, StartMax: time.Second}
		for !c.drawLimits(random) {
		}
		c.Bake = 1 + random.IntN(3)
		c.Policy = map[string]string{
			"onSuccess": pick(random, "CANARY_RESPONSE_HOLD", "CANARY_RESPONSE_PROMOTE"),
			"onFailure": pick(random, "CANARY_RESPONSE_ABORT", "CANARY_RESPONSE_ABORT", "CANARY_RESPONSE_HOLD"),
			"onTimeout": pick(random, "CANARY_RESPONSE_ABORT", "CANARY_RESPONSE_HOLD"),
			"timeout":   "15s",
		}
		if random.IntN(2) == 0 {
			c.Policy["onRolloutFailure"] = "ROLLOUT_RESPONSE_ROLL_BACK"
		}
		c.Fault = pick(random, good, good, good, good, neverReady, noImage, crashLoop, crashOnce)
		for patch := range 5 {
			if random.IntN(3) == 0 {
				c.Deaths = append(c.Deaths, patch)
			}
		}
		wait := func(max int) time.Duration { return time.Duration(random.IntN(max)) * time.Millisecond }
		draw := func(most int, actions ...action) (steps []step) {
			for range random.IntN(most + 1) {
				s := step{After: wait(2000), Action: pick(random, actions...), Step: 1 + random.IntN(len(c.Steps))}
				s.Replicas = max(1, c.Replicas/2) + random.IntN(c.Replicas+2)
				steps = append(steps, s)
			}
			return steps
		}
		others := []action{applyOld, applyNew, applyThird, setThird, undo, restart, replace, dropState, editState, zero, pause,
			deleteStable, putBack, loosen, failStable}
		// A third of the cases has no interference.
		if i%3 == 0 {
			others = []action{scale}
		}
		c.Hold = draw(2, append([]action{scale, scale, scale}, others...)...)
		c.EndStep = 1 + random.IntN(len(c.Steps))
		c.End = pick(random, promote, promote, abortIt, abortIt, "", release)
		c.Rollout = draw(1, scale, abortIt, abortIt, undo, pause, applyOld, setThird, dropState, zero)
		if i%3 == 0 {
			c.Rollout = draw(1, scale, abortIt)
		}
		for i := range c.Rollout {
			c.Rollout[i].Percent = random.IntN(100)
			c.Rollout[i].After /= 4
		}
		c.Retry = random.IntN(3) == 0
		cases = append(cases, c)
	}
	return cases
}

// drawLimits draws the Deployment and the canary pods. It returns false if the rollout would take too long.
func (c *testCase) drawLimits(random *rand.Rand) bool {
	limit := func() string {
		if random.IntN(2) == 0 {
			return fmt.Sprint(random.IntN(7))
		}
		// The API server keeps leading zeros.
		return pick(random, "0%", "10%", "25%", "025%", "33%", "50%", "100%")
	}
	c.Replicas, c.MaxSurge, c.MaxUnavailable, c.MinReady, c.Surge = 1+random.IntN(40), limit(), limit(), 0, ""
	if random.IntN(3) == 0 {
		c.MinReady = 1 + random.IntN(3)
	}
	ceiling, floor, err := c.limits().bounds(int32(c.Replicas))
	if err != nil {
		return false
	}
	// The API server refuses limits that are both 0.
	if slices.Contains([]string{"0", "0%"}, c.MaxSurge) && slices.Contains([]string{"0", "0%"}, c.MaxUnavailable) {
		return false
	}
	surge := int(ceiling) - c.Replicas
	isWhole := random.IntN(10) == 0
	if rounds := c.Replicas / (surge + c.Replicas - int(floor)); rounds*(1+c.MinReady) > 12 {
		return false
	}
	switch {
	case isWhole:
		surge, c.Surge = c.Replicas, "100%"
	case surge == 0:
		surge = 1 + random.IntN(min(3, c.Replicas))
		c.Surge = fmt.Sprint(surge)
	}
	c.Steps = drawSteps(random, c.Replicas, min(surge, c.Replicas))
	return true
}

// drawSteps draws 1 to 5 steps of up to this number of pods. Some have no more pods than the one before.
func drawSteps(random *rand.Rand, replicas, most int) (steps []string) {
	var counts []int
	for range 1 + random.IntN(5) {
		counts = append(counts, 1+random.IntN(most))
	}
	slices.Sort(counts)
	isPercent := random.IntN(2) == 0
	for _, pods := range counts {
		number := fmt.Sprint(pods)
		if percent := pods * 100 / replicas; (isPercent != (random.IntN(4) == 0)) && (percent*replicas+99)/100 == pods {
			number = fmt.Sprintf("%d%%", percent)
		}
		// The service refuses a step that is the same as the one before.
		if len(steps) == 0 || sameKind(steps[len(steps)-1], number) < 0 {
			steps = append(steps, number)
		}
	}
	return steps
}

// sameKind compares two numbers of pods or two percentages. It returns a negative number if they are not of the same kind.
func sameKind(a, b string) int {
	left, right := intstr.Parse(a), intstr.Parse(b)
	if left.Type != right.Type {
		return -1
	}
	number := func(v intstr.IntOrString) int {
		n, _ := intstr.GetScaledValueFromIntOrPercent(&v, 100, true)
		return n
	}
	return number(left) - number(right)
}

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// named returns canaries in steps with known sizes, and the scenarios in which Argo Rollouts has lost capacity, each with the
// number of its issue. If it was lost in the middle of a rollout, the case has a stalled rollout, so that the Deployment
// controller sees current statuses.
func named() []testCase {
	base := testCase{Seed: 1, Replicas: 10, MaxSurge: "2", MaxUnavailable: "0", Steps: []string{"2"}, Bake: 1, Fault: good, Steerers: 1,
		Policy: map[string]string{}, StartMin: 500 * time.Millisecond, StartMax: 2 * time.Second}
	with := func(name string, change func(*testCase)) testCase {
		c := base
		c.Name = name
		change(&c)
		return c
	}
	allPods := func(c *testCase) {
		c.MaxSurge, c.MaxUnavailable, c.Surge, c.Steps = "25%", "25%", "100%", []string{"100%"}
	}
	return []testCase{
		// Each step is one change of one size.
		with("steps", func(c *testCase) {
			c.MaxSurge, c.Steps, c.End = "50%", []string{"1", "30%", "50%"}, abortIt
			// The Deployment controller may be stopped when the last step begins.
			c.Hold = []step{{Step: 3, Percent: 50, Quiet: time.Second}}
			c.check = allOf(endsWith("v1"), hasSizes("v1", []int32{10}), hasSizes("v2", []int32{1, 3, 5, 0}))
		}),
		// The stable ReplicaSet has the annotation of the smaller surge, so it gets too many pods for a moment.
		with("steps-then-scaled", func(c *testCase) {
			c.MaxSurge, c.Surge, c.Steps, c.End = "10%", "30%", []string{"10%", "30%"}, abortIt
			// 30% of 20 pods are 60% of 10.
			c.Hold = []step{{Step: 2, Percent: 30, Quiet: 2 * time.Second, Action: scale, Replicas: 20},
				{Percent: 60, After: time.Second, Quiet: 2 * time.Second}}
			// While stable pods are still started, the abort removes those of the canary as they become available.
			c.check = allOf(endsWith("v1"), hasSizes("v1", []int32{10, 23, 20}), growsThenShrinks("v2", 1, 3, 6))
		}),
		// All pods beside all stable ones.
		with("all-promoted", func(c *testCase) {
			allPods(c)
			c.Hold, c.End = []step{{Percent: 100, Quiet: 3 * time.Second}}, promote
			// If the Deployment controller does not observe at once that all new pods are available, it stops at the floor.
			c.check = allOf(endsWith("v2"), hasSizes("v1", []int32{10, 0}, []int32{10, 8, 0}), hasSizes("v2", []int32{10}))
		}),
		// Half of them are ready.
		with("all-half-ready-aborted", func(c *testCase) {
			allPods(c)
			c.Fault, c.Hold, c.End = stall, []step{{Percent: 100, Quiet: 3 * time.Second}}, abortIt
			c.check = allOf(endsWith("v1"), hasSizes("v1", []int32{10}), hasSizes("v2", []int32{10, 0}), func(o *outcome) error {
				if ready := o.readyAtAbort(); ready != 6 {
					return fmt.Errorf("%d new pods were ready at the abort instead of 6", ready)
				}
				return nil
			})
		}),
		// After the last step, the limits are ignored.
		with("argo-139", func(c *testCase) {
			c.End, c.check = promote, endsWith("v2")
		}),
		// An abort by the manifest of the previous release removes the new pods before the old ones are back.
		with("argo-2119", func(c *testCase) {
			c.Fault, c.End, c.Rollout = stall, promote, []step{{Percent: 60, Quiet: 5 * time.Second, Action: applyOld}}
			c.check = endsWith("v1")
		}),
		// A fast rollback to the stable template late in a rollout, with 21 pods.
		with("argo-3020", func(c *testCase) {
			c.Replicas, c.MaxSurge, c.MaxUnavailable = 21, "25%", "0"
			c.Fault, c.End, c.Rollout = stall, promote, []step{{Percent: 60, Quiet: 5 * time.Second, Action: abortIt}}
			c.check = endsWith("v1")
		}),
		// An abort in the middle of a rollout never ends.
		with("argo-4898", func(c *testCase) {
			c.Fault, c.End, c.Rollout = stall, promote, []step{{Percent: 60, Quiet: 5 * time.Second, Action: abortIt}}
			c.MaxSurge, c.MaxUnavailable = "20%", "1"
			c.check = endsWith("v1")
		}),
		// Scaling up after an abort creates pods of the rejected template again.
		with("argo-4973", func(c *testCase) {
			c.End, c.Rollout = abortIt, []step{{After: 6 * time.Second, Action: scale, Replicas: 20}}
			c.check = func(o *outcome) error {
				if high := o.highestAfterAbort(); high > 0 {
					return fmt.Errorf("the rejected template has %d pods after the abort", high)
				}
				return endsWith("v1")(o)
			}
		}),
	}
}

// allOf requires several results.
func allOf(checks ...func(*outcome) error) func(*outcome) error {
	return func(o *outcome) (err error) {
		for _, check := range checks {
			err = errors.Join(err, check(o))
		}
		return err
	}
}

// hasSizes requires the sizes that the ReplicaSet with a tag of the image has had, in order. There may be several possibilities.
func hasSizes(tag string, want ...[]int32) func(*outcome) error {
	return func(o *outcome) error {
		got := o.log.sizesOf(image(tag))
		if !slices.ContainsFunc(want, func(sizes []int32) bool { return slices.Equal(got, sizes) }) {
			return fmt.Errorf("the ReplicaSet of %s had the sizes %v instead of %v", tag, got, want)
		}
		return nil
	}
}

// growsThenShrinks requires that the ReplicaSet with a tag of the image has had these sizes first, and then only smaller ones until 0.
func growsThenShrinks(tag string, first ...int32) func(*outcome) error {
	return func(o *outcome) error {
		got := o.log.sizesOf(image(tag))
		if len(got) <= len(first) || !slices.Equal(got[:len(first)], first) || got[len(got)-1] != 0 ||
			!slices.IsSortedFunc(got[len(first)-1:], func(a, b int32) int { return int(b - a) }) {
			return fmt.Errorf("the ReplicaSet of %s had the sizes %v instead of %v, and then smaller ones until 0", tag, got, first)
		}
		return nil
	}
}

// endsWith requires that the Deployment ends with a tag of the image.
func endsWith(tag string) func(*outcome) error {
	return func(o *outcome) error {
		if got := o.finalImage; got != image(tag) {
			return fmt.Errorf("it ends with the image %s instead of %s", got, image(tag))
		}
		return nil
	}
}

func image(tag string) string { return "registry.example/web:" + tag }

// broken returns cases with steerers that write other fields. The observer must find each kind.
func broken() (cases []testCase) {
	sabotages := []struct{ name, path, value string }{
		{"looser-unavailable", "/spec/strategy/rollingUpdate/maxUnavailable", "100%"},
		{"larger-surge", "/spec/strategy/rollingUpdate/maxSurge", "100%"},
	}
	for _, s := range sabotages {
		for i := range 2 {
			cases = append(cases, testCase{
				Name: fmt.Sprintf("broken-%s-%d", s.name, i), Seed: uint64(i), Replicas: 8, MaxSurge: "2", MaxUnavailable: "1", Steps: []string{"1"},
				Bake: 1, Fault: good, Steerers: 1, Policy: map[string]string{}, End: []action{promote, abortIt}[i],
				StartMin: 100 * time.Millisecond, StartMax: time.Second,
				sabotage: func(operations []map[string]any) {
					for _, operation := range operations {
						if operation["op"] == "add" && operation["path"] == s.path {
							operation["value"] = s.value
						}
					}
				},
			})
		}
	}
	return cases
}
