package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// forecastRollouts is the number of rollouts, and forecastParallel how many are observed at the same time.
const (
	forecastRollouts = 20
	forecastParallel = 3
)

// forecastErrorMax is the bound of the median error of the durations.
const forecastErrorMax = 0.3

// forecastCase is a rollout of containers that become ready after random times.
type forecastCase struct {
	name                        string
	replicas, surge, unused     int
	after, spread               time.Duration
	minReady                    int
	start                       time.Time
	podsMax, availableMin, size int
	complete                    time.Time
}

func (f *forecastCase) manifest(version int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[2]d
  minReadySeconds: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  strategy: {rollingUpdate: {maxSurge: %[4]d, maxUnavailable: %[5]d}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: app
        image: localhost/app:1
        args: [serve, -ready-after=%[6]s, -spread=%[7]s]
        env: [{name: VERSION, value: "%[8]d"}]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
`, f.name, f.replicas, f.minReady, f.surge, f.unused, f.after, f.spread, version)
}

// observer follows the Deployments and the sizes of ReplicaSets.
type observer struct {
	mu    sync.Mutex
	cases map[string]*forecastCase
	sizes map[string]map[string]int
}

type observed struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name       string            `json:"name"`
		Generation int64             `json:"generation"`
		Labels     map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		Replicas           int   `json:"replicas"`
		UpdatedReplicas    int   `json:"updatedReplicas"`
		AvailableReplicas  int   `json:"availableReplicas"`
	} `json:"status"`
}

func (o *observer) add(object observed, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := object.Metadata.Name
	if object.Kind == "ReplicaSet" {
		app := object.Metadata.Labels["app"]
		if o.sizes[app] == nil {
			o.sizes[app] = map[string]int{}
		}
		o.sizes[app][name] = object.Spec.Replicas
		name = app
	}
	f := o.cases[name]
	if f == nil || f.start.IsZero() || !f.complete.IsZero() {
		return
	}
	size := 0
	for _, each := range o.sizes[name] {
		size += each
	}
	if object.Kind == "ReplicaSet" {
		f.size = max(f.size, size)
		return
	}
	s := object.Status
	// Until a ReplicaSet has deleted its pods, there are more pods than the sizes allow, which the test may observe on a busy
	// node.
	f.podsMax, f.availableMin = max(f.podsMax, min(s.Replicas, size)), min(f.availableMin, s.AvailableReplicas)
	// The first two generations belong to the earlier versions.
	if object.Metadata.Generation > 2 && s.ObservedGeneration >= object.Metadata.Generation &&
		s.UpdatedReplicas == f.replicas && s.Replicas == f.replicas && s.AvailableReplicas == f.replicas {
		f.complete = now
	}
}

// follow adds the objects of a kind that a watch of kubectl prints, until the test ends.
func (o *observer) follow(t *testing.T, c *cluster, kind string) {
	watch := exec.Command(filepath.Join(c.bin, "kubectl"), "get", kind, "-n", "default", "--watch", "-o", "json")
	watch.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"))
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	t.Cleanup(func() {
		_ = watch.Process.Kill()
		if err := <-done; err != nil {
			t.Errorf("the watch of %s: %v", kind, err)
		}
		_ = watch.Wait() // killed
	})
	go func() {
		objects := json.NewDecoder(out)
		for {
			var object observed
			if err := objects.Decode(&object); err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) {
					err = nil
				}
				done <- err
				return
			}
			o.add(object, time.Now())
		}
	}()
}

type forecastAnswer struct {
	Effect     string `json:"effect"`
	StartTimes struct {
		Count int `json:"count"`
	} `json:"startTimes"`
	Limits struct {
		PodsMax int `json:"podsMax"`
	} `json:"limits"`
	Expected struct {
		Outcome      string                             `json:"outcome"`
		Duration     struct{ Low, Median, High string } `json:"duration"`
		PodsMax      struct{ High int }                 `json:"podsMax"`
		AvailableMin struct{ Low int }                  `json:"availableMin"`
	} `json:"expected"`
}

func seconds(t *testing.T, text string) float64 {
	t.Helper()
	parsed, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Seconds()
}

// TestForecast compares forecasts with rollouts of real containers, whose readiness takes random times.
func TestForecast(t *testing.T) {
	dir := t.TempDir()
	app := filepath.Join(dir, "app")
	if out, err := exec.Command("env", "CGO_ENABLED=0", "go", "build", "-ldflags=-s -w", "-o", app, "./app").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := start(t, "app="+app)
	t.Setenv("KUBECTL", filepath.Join(c.bin, "kubectl"))
	o := &observer{cases: map[string]*forecastCase{}, sizes: map[string]map[string]int{}}
	o.follow(t, c, "deployments")
	o.follow(t, c, "replicasets")

	var results struct {
		sync.Mutex
		errors []float64
		inside int
	}
	random := rand.New(rand.NewPCG(32, 0))
	var cases []*forecastCase
	for i := range forecastRollouts {
		f := &forecastCase{name: fmt.Sprintf("f%02d", i), replicas: 6 + random.IntN(5), surge: 1 + random.IntN(3), unused: random.IntN(3),
			after: time.Duration(1+random.IntN(4)) * time.Second, spread: time.Duration(1+random.IntN(6)) * time.Second, minReady: random.IntN(3)}
		f.availableMin = f.replicas
		cases = append(cases, f)
		o.cases[f.name] = f
	}
	one := func(t *testing.T, f *forecastCase) {
		// Roll out two versions first: the containers of a new Deployment start all at once, which takes longer than in a rollout.
		for version := range 2 {
			c.apply(t, f.manifest(version))
			c.kubectl(t, "rollout", "status", "deployment/"+f.name, "--timeout=3m")
		}
		changed := filepath.Join(dir, f.name+".yaml")
		if err := os.WriteFile(changed, []byte(f.manifest(2)), 0o644); err != nil {
			t.Fatal(err)
		}
		var answer forecastAnswer
		text := c.run(t, env(t, "ROLLPLAN_BIN"), "forecast", "deployment/"+f.name, "-n", "default", "-f", changed, "-o", "json")
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		o.mu.Lock()
		f.start = time.Now()
		o.mu.Unlock()
		c.kubectl(t, "apply", "-f", changed)
		await(t, f.name, func() error {
			o.mu.Lock()
			defer o.mu.Unlock()
			if f.complete.IsZero() {
				return errors.New("not complete")
			}
			return nil
		})
		c.kubectl(t, "delete", "deployment", f.name)
		e := answer.Expected
		measured := f.complete.Sub(f.start).Seconds()
		low, median, high := seconds(t, e.Duration.Low), seconds(t, e.Duration.Median), seconds(t, e.Duration.High)
		t.Logf("%s: %d replicas, surge %d, unavailable %d, ready after %s + up to %s: measured %.1f s, forecast %.1f s (%.1f–%.1f) from %d start times",
			f.name, f.replicas, f.surge, f.unused, f.after, f.spread, measured, median, low, high, answer.StartTimes.Count)
		if answer.Effect != "CHANGE_EFFECT_STARTS_ROLLOUT" || e.Outcome != "OUTCOME_COMPLETES" {
			t.Errorf("%s: %s, %s", f.name, answer.Effect, e.Outcome)
		}
		if f.size > answer.Limits.PodsMax || f.podsMax > e.PodsMax.High || f.availableMin < e.AvailableMin.Low {
			t.Errorf("%s: sizes %d (at most %d), pods %d (at most %d), available %d (at least %d)", f.name,
				f.size, answer.Limits.PodsMax, f.podsMax, e.PodsMax.High, f.availableMin, e.AvailableMin.Low)
		}
		results.Lock()
		defer results.Unlock()
		results.errors = append(results.errors, max(measured/median, median/measured)-1)
		if low <= measured && measured <= high {
			results.inside++
		}
	}
	t.Run("Rollouts", func(t *testing.T) {
		slots := make(chan struct{}, forecastParallel)
		for _, f := range cases {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				one(t, f)
			})
		}
	})
	if len(results.errors) < forecastRollouts {
		t.Fatalf("%d of %d rollouts were compared", len(results.errors), forecastRollouts)
	}
	slices.Sort(results.errors)
	middle, worst := results.errors[forecastRollouts/2], results.errors[forecastRollouts-1]
	t.Logf("error of the duration: median %.0f %%, highest %.0f %%; %d of %d durations are in the 90 %% interval", 100*middle, 100*worst, results.inside, forecastRollouts)
	if middle > forecastErrorMax {
		t.Errorf("the median error exceeds %.0f %%", 100*forecastErrorMax)
	}
}
