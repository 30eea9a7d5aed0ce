// Command parity compares the planner with the Deployment controller of Kubernetes v1.37.2. Both get the same snapshots
// and must make the same writes. See docs/contributors/parity.md.
//
//	go run ./parity -n 20000 -seed 7        # from tests/
//	go run ./parity -replay /tmp/case.json  # one snapshot that was saved after a failure
package main

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unitSize is the number of snapshots in one unit: either random worlds or the steps of one simulation. Each unit has a
// seed of its own.
const unitSize = 20

// baseTime is `now` of all snapshots. It is far from the current time, so that timestamps of the run can be recognized.
var baseTime = time.Date(2025, 6, 15, 12, 0, 0, 0, time.UTC)

// clockOf returns `now` of a unit. In odd units it includes half a second, to test the precision of deadlines.
func clockOf(unit int) time.Time { return baseTime.Add(time.Duration(unit%2) * 500 * time.Millisecond) }

type config struct {
	n, workers, maxReports, unit int
	seed                         uint64
	planner, replay, out         string
	settled, faults              bool
	custom, rollouts, shuffle    bool
	start                        func() (Planner, error) // nil: only run upstream
}

func main() {
	var c config
	flag.IntVar(&c.n, "n", 20000, "number of snapshots")
	flag.Uint64Var(&c.seed, "seed", 0, "seed of the generator; 0 chooses a random seed")
	flag.IntVar(&c.unit, "unit", -1, "compare only this unit of the seed")
	flag.StringVar(&c.planner, "planner", envOr("ROLLPLAN_PARITY_PLANNER", defaultPlanner), "command of the planner, which reads one JSON request and writes one JSON response per line; `none` only runs upstream")
	flag.StringVar(&c.replay, "replay", "", "compare only the snapshot in this request `file`")
	flag.StringVar(&c.out, "out", filepath.Join(os.TempDir(), "rollplan-parity"), "directory for the requests of failures")
	flag.BoolVar(&c.settled, "settled", false, "compare HORIZON_SETTLED with upstream, repeated until it makes no more writes")
	flag.BoolVar(&c.faults, "refusals", false, "make the server reject one call, or have newer objects than the snapshot (faults.go)")
	flag.BoolVar(&c.custom, "custom", false, "use a custom resource as the owner on our side (custom.go)")
	flag.BoolVar(&c.rollouts, "rollouts", false, "compare n whole rollouts instead of single passes (rollouts.go)")
	flag.BoolVar(&c.shuffle, "shuffle", false, "also ask for every plan with the objects in another order and layout, which must have the same answer (shuffle.go)")
	// A worker waits while its planner process works, so use twice as many workers as cores.
	flag.IntVar(&c.workers, "workers", 2*runtime.NumCPU(), "number of concurrent workers; the snapshots of a seed do not depend on it")
	flag.IntVar(&c.maxReports, "reports", 5, "maximum number of differences, each of another kind, to shrink and print")
	coverage := flag.Bool("coverage", false, "afterwards, measure the coverage of the upstream code with at most 20,000 of these snapshots (parity/coverage)")
	profile := flag.String("profile", "", "write a CPU profile to this `file`")
	flag.Parse()
	if os.Getenv("GOGC") == "" { // most allocations are short-lived
		debug.SetGCPercent(400)
	}
	if c.planner != "none" {
		c.start = func() (Planner, error) {
			p, err := startPlanner(c.planner)
			if err == nil && c.shuffle {
				p = &shufflingPlanner{p}
			}
			return p, err
		}
	}
	if c.replay != "" {
		os.Exit(replay(&c))
	}
	if c.seed == 0 {
		var b [4]byte
		_, _ = crand.Read(b[:])
		c.seed = uint64(binary.LittleEndian.Uint32(b[:])) + 1
	}
	if c.rollouts {
		failed, err := rollouts(&c)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(min(failed, 1))
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		must(err)
		must(pprof.StartCPUProfile(f))
	}
	s, err := run(&c)
	pprof.StopCPUProfile()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	s.print(&c)
	if *coverage {
		cmd := exec.Command("go", "run", "./parity/coverage", "-n", strconv.Itoa(min(c.n, 20000)), "-seed", strconv.FormatUint(c.seed, 10))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	if s.failed > 0 {
		os.Exit(1)
	}
}

func envOr(name, defaultValue string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return defaultValue
}

// stats are the counters of a run. mu guards them.
type stats struct {
	mu             sync.Mutex
	passed, failed int
	exempted       map[string]int
	stricter       map[string]int // compared with a rule of faults.go
	refused        int
	writes         map[string]int // of upstream, by kind
	silent         int
	ended          map[string]int // errors that ended passes of upstream
	kinds          map[string]int // failures by kind
	reports        []string
	began          time.Time
}

func (s *stats) print(c *config) {
	duration := time.Since(s.began)
	total := s.passed + s.failed
	for _, e := range s.exempted {
		total += e
	}
	for _, r := range s.reports {
		fmt.Println(r)
	}
	fmt.Printf("seed %d: %d snapshots in %s (%.0f/s); %d passes made no writes, %d failed with an error\n",
		c.seed, total, duration.Round(time.Millisecond), float64(total)/duration.Seconds(), s.silent, s.refused)
	for _, k := range sortedKeys(s.writes) {
		fmt.Printf("  %6d upstream: %s\n", s.writes[k], k)
	}
	for _, k := range sortedKeys(s.ended) {
		fmt.Printf("  %6d ended at: %s\n", s.ended[k], k)
	}
	for _, e := range exemptions {
		if n := s.exempted[e.Name]; n > 0 {
			fmt.Printf("  %6d differ on purpose: %s (%s)\n", n, e.Name, e.Reason)
		}
	}
	for _, e := range stricter {
		if n := s.stricter[e.Name]; n > 0 {
			fmt.Printf("  %6d compared with another rule: %s (%s)\n", n, e.Name, e.Reason)
		}
	}
	type kind struct {
		name string
		n    int
	}
	var kinds []kind
	for k, n := range s.kinds {
		kinds = append(kinds, kind{k, n})
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].n > kinds[j].n })
	for _, k := range kinds {
		fmt.Printf("  %6d differ in: %s\n", k.n, k.name)
	}
	fmt.Printf("Kubernetes %s, seed %d: %d snapshots, %d passed, %d differ on purpose, %d failed, in %s\n", upstreamVersion, c.seed, total, s.passed, total-s.passed-s.failed, s.failed, duration.Round(time.Second))
}

// worker has one upstream controller and one planner process.
type worker struct {
	up     *Upstream
	ours   *Ours // nil: only run upstream
	settle bool
	then   *World // world of the second plan, if that was compared too (custom.go)
	named  string // rule of faults.go that the last comparison used
}

func newWorker(c *config) (*worker, error) {
	w := &worker{up: NewUpstream(), settle: c.settled}
	if c.start != nil {
		p, err := c.start()
		if err != nil {
			return nil, fmt.Errorf("planner %q: %w", c.planner, err)
		}
		w.ours = &Ours{planner: p}
	}
	return w, nil
}

func (w *worker) close() {
	if w.ours != nil {
		w.ours.planner.Close()
	}
}

// compare runs both sides on a world. It passes the unmodified result of upstream to seen before normalization.
func (w *worker) compare(world *World, seen func(*Result)) ([]Difference, *Result, *Result, error) {
	up := w.up.Pass(world, NewServer(world))
	if seen != nil {
		seen(up)
	}
	if w.settle {
		return w.settled(world)
	}
	if w.ours == nil {
		return nil, up, nil, nil
	}
	var our *Result
	var err error
	var diffs []Difference
	switch {
	case world.Fault != nil || world.Newer != nil:
		diffs, our, w.named, err = w.compareWithFault(world, up)
	case world.Owner != nil:
		diffs, our, err = w.compareCustom(world, up)
	default:
		if our, err = w.ours.Pass(world, up); err == nil {
			diffs = Compare(world, up, our)
		}
	}
	var gone *plannerGone
	if errors.As(err, &gone) {
		return nil, up, nil, err
	}
	if err != nil {
		return []Difference{{What: "no plan", Upstream: writeLines(up.Writes), Ours: err.Error()}}, up, &Result{Err: err}, nil
	}
	return diffs, up, our, nil
}

func run(c *config) (*stats, error) {
	s := &stats{exempted: map[string]int{}, stricter: map[string]int{}, kinds: map[string]int{}, writes: map[string]int{}, ended: map[string]int{}, began: time.Now()}
	workers := make([]*worker, c.workers)
	for i := range workers {
		w, err := newWorker(c)
		if err != nil {
			return nil, err
		}
		defer w.close()
		workers[i] = w
	}
	units := (c.n + unitSize - 1) / unitSize
	var first error
	for phase := 0; phase < 2; phase++ { // the upstream clock is global
		setUpstreamClock(clockOf(phase))
		next := make(chan int)
		var wg sync.WaitGroup
		for _, w := range workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for unit := range next {
					count := min(unitSize, c.n-unit*unitSize)
					if c.unit >= 0 {
						count = unitSize
					}
					if err := w.unit(c, s, unit, count); err != nil {
						s.mu.Lock()
						if first == nil {
							first = err
						}
						s.mu.Unlock()
						for range next { // drain
						}
						return
					}
				}
			}()
		}
		for unit := phase; unit < units; unit += 2 {
			if c.unit < 0 {
				next <- unit
			}
		}
		if c.unit >= 0 && c.unit%2 == phase {
			next <- c.unit
		}
		close(next)
		wg.Wait()
		if first != nil {
			return nil, first
		}
	}
	return s, nil
}

// unit compares the snapshots of one unit.
func (w *worker) unit(c *config, s *stats, unit, count int) error {
	g := newGenerator(c.seed, uint64(unit), clockOf(unit))
	faultGenerator := newGenerator(^c.seed, uint64(unit), clockOf(unit))
	var sim *simulation
	if unit/2%2 == 1 {
		sim = newSimulation(g)
	}
	for i := 0; i < count; i++ {
		var world *World
		var seen func(*Result)
		if sim != nil {
			world, seen = sim.w.AsStored(), sim.step
		} else {
			world = g.World().AsStored()
		}
		if c.faults {
			up := w.up.Pass(world, NewServer(world))
			if seen != nil {
				seen(up)
				seen = nil
			}
			if world = faultGenerator.addFault(world, up, up.OwnerChecked); world == nil {
				continue
			}
		}
		if c.custom {
			if ru := world.Deployment.Spec.Strategy.RollingUpdate; ru != nil && zero(ru.MaxSurge) && zero(ru.MaxUnavailable) {
				continue // the server rejects updates of this invalid spec, and the revision must be written
			}
			nameCondition(world, i)
			world.Owner = &metav1.TypeMeta{APIVersion: "apps.example.com/v1alpha1", Kind: "Rollout"}
		}
		w.named, w.then = "", nil
		diffs, up, _, err := w.compare(world, seen)
		if err != nil {
			return err
		}
		s.count(w, c, world, up, diffs, fmt.Sprintf("seed %d unit %d snapshot %d", c.seed, unit, i))
	}
	return nil
}

func (s *stats) count(w *worker, c *config, world *World, up *Result, diffs []Difference, where string) {
	s.mu.Lock()
	for _, x := range up.Writes {
		name := strings.TrimSuffix(x.Op+" "+x.Kind+"/"+x.Subresource, "/")
		if x.Claim {
			name = "adopt or release"
		}
		s.writes[name]++
	}
	for _, e := range up.Events {
		s.writes["event "+e.Reason]++
	}
	if len(up.Writes) == 0 {
		s.silent++
	}
	if len(up.Refused) > 0 {
		s.refused++
		s.ended[endOf(world, up)]++
	}
	if w.named != "" {
		s.stricter[w.named]++
	}
	if len(diffs) == 0 {
		s.passed++
		s.mu.Unlock()
		return
	}
	name := exempt(world, c.settled)
	if name == "" && w.then != nil {
		name = exempt(w.then, false)
	}
	if name != "" && !slices.ContainsFunc(diffs, func(d Difference) bool { return d.What == reversal }) {
		s.exempted[name]++
		s.mu.Unlock()
		return
	}
	s.failed++
	k := kindOf(world, diffs)
	s.kinds[k]++
	report := s.kinds[k] == 1 && len(s.reports) < c.maxReports
	if report {
		s.reports = append(s.reports, "")
	}
	slot := len(s.reports) - 1
	s.mu.Unlock()
	if report {
		text := w.report(c, world, k, where)
		s.mu.Lock()
		s.reports[slot] = text
		s.mu.Unlock()
	}
}

// endOf describes the error that ended the pass of upstream, without object names.
func endOf(w *World, r *Result) string {
	last := r.Refused[len(r.Refused)-1]
	what, why, _ := strings.Cut(last, ": ")
	verb, rest, _ := strings.Cut(what, " ")
	resource, _, _ := strings.Cut(rest, " ")
	switch {
	case strings.Contains(why, "modified"):
		why = "409"
	case strings.Contains(why, "already exists"):
		why = "already exists"
	case strings.Contains(why, "quota"), strings.Contains(why, "webhook"), strings.Contains(why, "terminated"):
		why = "refused"
	case strings.Contains(why, "not found"):
		why = "404"
	case strings.Contains(why, "is invalid"):
		why = "422"
	case len(why) > 120:
		why = why[:120]
	}
	return verb + " " + strings.TrimSuffix(resource, "/") + ": " + why
}

// kindOf identifies a failure by its first difference and the first field in it. Shrinking must not change it.
func kindOf(w *World, diffs []Difference) string {
	if w.Fault != nil || w.Newer != nil {
		without := *w
		without.Fault, without.Newer = nil, nil
		what := ""
		if w.Fault != nil {
			what = fmt.Sprintf("rejects %s with %d, lost %v", w.Fault.On, w.Fault.Code, w.Fault.Lost)
		} else if w.Newer.Set != "" {
			what = "has a ReplicaSet " + string(w.Newer.How)
		} else {
			what = "has its Deployment " + string(w.Newer.How)
		}
		return kindOf(&without, diffs) + " (the server " + what + ")"
	}
	if w.Refuse != RefuseNothing {
		without := *w
		without.Refuse = RefuseNothing
		return kindOf(&without, diffs) + " (the server rejects: " + string(w.Refuse) + ")"
	}
	kind := diffs[0].What
	for _, prefix := range []string{"write ", "final ReplicaSet ", "settled ReplicaSet "} {
		if strings.HasPrefix(kind, prefix) {
			kind = strings.TrimSpace(prefix)
		}
	}
	if kind == "writes" || kind == "no plan" || strings.HasPrefix(kind, "the server") {
		return kind
	}
	var u, o any
	if json.Unmarshal([]byte(diffs[0].Upstream), &u) != nil || json.Unmarshal([]byte(diffs[0].Ours), &o) != nil {
		return kind
	}
	return strings.TrimSuffix(kind+" "+fieldOf(u, o), " ")
}

// fieldOf returns the path of the first value that differs.
func fieldOf(u, o any) string {
	switch x := u.(type) {
	case map[string]any:
		if y, ok := o.(map[string]any); ok {
			for _, k := range sortedKeys(merged(x, y)) {
				if !reflect.DeepEqual(x[k], y[k]) {
					return "." + k + fieldOf(x[k], y[k])
				}
			}
		}
	case []any:
		if y, ok := o.([]any); ok && len(x) == len(y) {
			for i := range x {
				if !reflect.DeepEqual(x[i], y[i]) {
					return "[]" + fieldOf(x[i], y[i])
				}
			}
		}
	}
	return ""
}

// report shrinks a failing world and describes it in full.
func (w *worker) report(c *config, world *World, kind, where string) string {
	small := shrink(world, func(try *World) bool {
		diffs, _, _, err := w.compare(try, nil)
		return err == nil && len(diffs) > 0 && kindOf(try, diffs) == kind && exempt(try, c.settled) == "" && (w.then == nil || exempt(w.then, false) == "")
	})
	var b strings.Builder
	fmt.Fprintf(&b, "=== %s: %s\n", where, kind)
	file, err := save(c.out, small)
	if err != nil {
		fmt.Fprintf(&b, "(not saved: %v)\n", err)
	} else {
		fmt.Fprintf(&b, "replay: go run ./parity -replay %s\n", file)
	}
	b.WriteString(describe(small))
	b.WriteString(w.transcript(small))
	return b.String()
}

// transcript runs a world and describes both sides and their differences.
func (w *worker) transcript(world *World) string {
	diffs, up, our, err := w.compare(world, nil)
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- upstream (error: %v)\n%s", up.Err, summarize(up))
	if our != nil {
		fmt.Fprintf(&b, "--- ours (error: %v)\n%s", our.Err, summarize(our))
		if our.Response != nil {
			for i, step := range our.Response.Steps {
				fmt.Fprintf(&b, "  step %d: %s\n", i, step.Summary)
				if step.Call != nil {
					fmt.Fprintf(&b, "    %s %s/%s %s %s\n    %s\n", step.Call.Verb, step.Call.Kind, step.Call.Subresource, step.Call.Name, step.Call.ContentType, truncate(step.Call.BodyJSON))
				}
			}
		}
	}
	for _, d := range diffs {
		b.WriteString(d.Explain())
	}
	return b.String()
}

func truncate(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}

func summarize(r *Result) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(writeLines(r.Writes)), "\n") {
		if line != "" {
			b.WriteString("  wrote: " + line + "\n")
		}
	}
	for _, x := range r.Refused {
		b.WriteString("  rejected: " + x + "\n")
	}
	for _, e := range r.Events {
		fmt.Fprintf(&b, "  event: %s %s %s\n", e.Type, e.Reason, e.Message)
	}
	return b.String()
}

// describe describes a world in a few lines.
func describe(w *World) string {
	var b strings.Builder
	d := w.Deployment
	strategy := string(d.Spec.Strategy.Type)
	if ru := d.Spec.Strategy.RollingUpdate; ru != nil {
		strategy += fmt.Sprintf(" surge %s unavailable %s", ru.MaxSurge, ru.MaxUnavailable)
	}
	fmt.Fprintf(&b, "deployment: replicas %d, %s, paused %v, deadline %s, history %s, minReady %d, generation %d observed %d, deleting %v, annotations %v\n",
		*d.Spec.Replicas, strategy, d.Spec.Paused, orNil(d.Spec.ProgressDeadlineSeconds), orNil(d.Spec.RevisionHistoryLimit), d.Spec.MinReadySeconds,
		d.Generation, d.Status.ObservedGeneration, d.DeletionTimestamp != nil, d.Annotations)
	st := d.Status
	fmt.Fprintf(&b, "  status: replicas %d updated %d ready %d available %d unavailable %d terminating %s collisions %s\n",
		st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas, st.UnavailableReplicas, orNil(*terminatingOf(&st)), orNil(st.CollisionCount))
	for _, c := range st.Conditions {
		fmt.Fprintf(&b, "  condition %s=%s %s updated %s before now\n", c.Type, c.Status, c.Reason, w.Now.Sub(c.LastUpdateTime.Time))
	}
	for _, rs := range w.ReplicaSets {
		owner := "orphan"
		for _, ref := range rs.OwnerReferences {
			owner = fmt.Sprintf("owner %s controller %s", ref.Name, orNil(ref.Controller))
		}
		fmt.Fprintf(&b, "set %s: image %s, size %d, status %d ready %d available %d, generation %d observed %d, %s, labels %v, created %s before now, deleting %v, annotations %v\n",
			rs.Name, rs.Spec.Template.Spec.Containers[0].Image, *rs.Spec.Replicas, rs.Status.Replicas, rs.Status.ReadyReplicas, rs.Status.AvailableReplicas,
			rs.Generation, rs.Status.ObservedGeneration, owner, rs.Labels, w.Now.Sub(rs.CreationTimestamp.Time), rs.DeletionTimestamp != nil, truncate(fmt.Sprint(rs.Annotations)))
	}
	for _, p := range w.Pods {
		fmt.Fprintf(&b, "pod %s: %s, owners %v\n", p.Name, p.Status.Phase, p.OwnerReferences)
	}
	if w.Fault != nil || w.Newer != nil {
		fmt.Fprintf(&b, "the server: rejects %s, has %s\n", js(w.Fault), js(w.Newer))
	}
	if w.Refuse != "" {
		fmt.Fprintf(&b, "the server rejects: %s\n", w.Refuse)
	}
	return b.String()
}

func js(v any) string {
	b, err := json.Marshal(v)
	must(err)
	return string(b)
}

func orNil[T any](p *T) string {
	if p == nil {
		return "nil"
	}
	return fmt.Sprint(*p)
}

func save(dir string, w *World) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	data, err := json.MarshalIndent(w.Request("HORIZON_PASS"), "", "  ")
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "case-*.json")
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.Write(append(data, '\n'))
	return f.Name(), err
}

func replay(c *config) int {
	data, err := os.ReadFile(c.replay)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	world, _, err := WorldFromRequest(data)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	setUpstreamClock(world.Now)
	w, err := newWorker(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer w.close()
	fmt.Print(describe(world))
	fmt.Print(w.transcript(world))
	diffs, _, _, err := w.compare(world, nil)
	switch name := exempt(world, c.settled); {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 2
	case len(diffs) > 0 && name != "":
		fmt.Printf("differs on purpose: %s\n0 passed, 0 failed\n", name)
	case len(diffs) > 0:
		fmt.Println("0 passed, 1 failed")
		return 1
	default:
		fmt.Println("1 passed, 0 failed")
	}
	return 0
}
