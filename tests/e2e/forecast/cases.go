package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// kind is what a case is about.
type kind string

const (
	// rollingUpdate changes the image and waits until the rollout is complete.
	rollingUpdate kind = "rollout"
	// scaledRollout also changes the number of replicas in the middle of the rollout.
	scaledRollout kind = "scaled"
	// quotaRollout has a quota that lets the rollout create fewer pods at once than its strategy.
	quotaRollout kind = "quota"
	// stuckRollout has a quota or a node that leaves no room for the first new pod.
	stuckRollout kind = "stuck"
)

// testCase is one rollout. The seed determines all of it.
type testCase struct {
	Name string `json:"name"`
	Kind kind   `json:"kind"`
	// Adapter is true if our adapter carries it out, as a PlannedDeployment.
	Adapter        bool   `json:"adapter"`
	Replicas       int    `json:"replicas"`
	MaxSurge       string `json:"maxSurge"`
	MaxUnavailable string `json:"maxUnavailable"`
	MinReady       int    `json:"minReadySeconds"`
	// Start are the times that pods take to start, and Termination to terminate.
	Start       distribution `json:"start"`
	Termination distribution `json:"termination"`
	// QuotaLeft and NodeLeft are the number of pods that the quota and the node have room for, besides the replicas.
	QuotaLeft *int `json:"quotaLeft,omitempty"`
	NodeLeft  *int `json:"nodeLeft,omitempty"`
	// ScaleTo is the new number of replicas of a scaledRollout.
	ScaleTo int    `json:"scaleTo,omitempty"`
	Seed    uint64 `json:"seed"`
}

// isSlow is true for a rollout that may take much longer than its pods. It is observed for a limited time, beside all others.
func (c testCase) isSlow() bool { return c.Kind == quotaRollout || c.Kind == stuckRollout }

// shape is the form of a distribution.
type shape string

const (
	fixed      shape = "fixed"
	uniform    shape = "uniform"
	longTail   shape = "long tail"
	correlated shape = "correlated"
	// correlatedAgain is correlated, and the pods whose start times are observed were rolled out: some found their image on the node.
	correlatedAgain shape = "correlated, after an update"
)

// isCorrelated is true for start times that depend on each other.
func (s shape) isCorrelated() bool { return s == correlated || s == correlatedAgain }

// distribution is a distribution of times.
type distribution struct {
	Shape  shape   `json:"shape"`
	Median float64 `json:"median"`
}

// draw returns a time. For a correlated distribution, it is the time without the image.
func (d distribution) draw(random *rand.Rand) time.Duration {
	seconds := d.Median
	switch d.Shape {
	case uniform:
		seconds *= 0.5 + random.Float64()
	case longTail: // log-normal: 5 % take three times as long as the median
		seconds *= math.Exp(0.7 * random.NormFloat64())
	case correlated, correlatedAgain:
		seconds *= 0.4 + 0.2*random.Float64()
	}
	return time.Duration(seconds * float64(time.Second))
}

// pull returns the time that a node needs for an image, before its first pod can start.
func (d distribution) pull(random *rand.Rand) time.Duration {
	if !d.Shape.isCorrelated() {
		return 0
	}
	return time.Duration(d.Median * (1 + random.Float64()) * float64(time.Second))
}

// generate returns the cases of a seed.
func generate(seed uint64, count int) []testCase {
	var cases []testCase
	for i := range count {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		c := testCase{Name: fmt.Sprintf("r%03d", i), Kind: rollingUpdate, Seed: random.Uint64(), Adapter: i%5 == 3}
		shapes := []shape{fixed, uniform, longTail, correlated}
		c.Start = distribution{shapes[i/2%len(shapes)], 3 + 4*random.Float64()}
		c.Termination = distribution{uniform, 0.5 + random.Float64()}
		for {
			c.Replicas = 1 + random.IntN(40)
			if i%2 == 0 { // enough start times for a percentile
				c.Replicas = 20 + random.IntN(21)
			}
			surge, unavailable := limit(random), limit(random)
			c.MaxSurge, c.MaxUnavailable = surge.text, unavailable.text
			if pods := surge.of(c.Replicas, math.Ceil) + unavailable.of(c.Replicas, math.Floor); pods > 0 && c.Replicas/pods <= 8 {
				break
			}
		}
		if random.IntN(3) == 0 {
			c.MinReady = 1 + random.IntN(6)
		}
		switch i % 10 {
		case 4, 8:
			c.Kind = scaledRollout
			for c.ScaleTo = c.Replicas; c.ScaleTo == c.Replicas; {
				c.ScaleTo = max(1, c.Replicas/2) + random.IntN(c.Replicas+2)
			}
		case 6:
			// Few pods: with many, the back-off of the ReplicaSet controller grows to several minutes.
			c.Kind, c.MaxSurge, c.MaxUnavailable = quotaRollout, "50%", "0"
			c.Replicas = 3 + random.IntN(5)
			c.QuotaLeft = new(1 + random.IntN(2))
		}
		if i%20 == 19 {
			c.Kind, c.MaxSurge, c.MaxUnavailable = stuckRollout, "25%", "0"
			c.Replicas = min(c.Replicas, 10)
			c.QuotaLeft, c.NodeLeft, c.ScaleTo = new(0), nil, 0
			if i%40 == 39 {
				c.QuotaLeft, c.NodeLeft = nil, new(0)
			}
		}
		if c.Start.Shape == correlated && c.Kind == rollingUpdate && i/8%2 == 0 {
			c.Start.Shape = correlatedAgain
		}
		cases = append(cases, c)
	}
	return cases
}

// enlarge makes all cases rollouts of this many replicas by the native controller.
func enlarge(cases []testCase, replicas int) []testCase {
	for i := range cases {
		c := &cases[i]
		c.Kind, c.Adapter, c.Replicas, c.MaxSurge, c.MaxUnavailable = rollingUpdate, false, replicas, "25%", "25%"
		c.Start, c.QuotaLeft, c.NodeLeft = distribution{uniform, 5}, nil, nil
	}
	return cases
}

// amount is maxSurge or maxUnavailable.
type amount struct {
	text   string
	number int
}

func limit(random *rand.Rand) amount {
	if random.IntN(2) == 0 {
		number := random.IntN(6)
		return amount{fmt.Sprint(number), number}
	}
	number := []int{0, 10, 25, 33, 50, 100}[random.IntN(6)]
	return amount{fmt.Sprintf("%d%%", number), number}
}

func (a amount) of(replicas int, round func(float64) float64) int {
	if a.text == fmt.Sprint(a.number) {
		return a.number
	}
	return int(round(float64(replicas*a.number) / 100))
}
