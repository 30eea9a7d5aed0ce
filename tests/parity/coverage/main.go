// Command coverage reports which statements of the upstream controller the generated snapshots do not reach, and why.
//
//	go run ./parity/coverage -n 20000 -seed 7    # from tests/
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

const (
	controller = "k8s.io/kubernetes/pkg/controller/deployment"
	self       = "rollplan.dev/rollplan/tests/parity" // a binary only writes coverage data if its main package is covered too
)

func main() {
	n := flag.Int("n", 20000, "number of snapshots")
	seed := flag.Uint64("seed", 1, "seed of the generator")
	all := flag.Bool("all", false, "also print the explained blocks with their source")
	flag.Parse()
	if err := measure(*n, *seed, *all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdout, os.Stderr, append(os.Environ(), env...)
	return cmd.Run()
}

func measure(n int, seed uint64, all bool) error {
	dir, err := os.MkdirTemp("", "parity-coverage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, data, text := filepath.Join(dir, "parity"), filepath.Join(dir, "data"), filepath.Join(dir, "text")
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	if err := run(nil, "go", "build", "-p", "2", "-cover", "-covermode", "atomic", "-coverpkg", strings.Join([]string{controller, controller + "/util", self}, ","), "-o", binary, self); err != nil {
		return err
	}
	if err := run([]string{"GOCOVERDIR=" + data}, binary, "-planner", "none", "-n", strconv.Itoa(n), "-seed", strconv.FormatUint(seed, 10)); err != nil {
		return err
	}
	if err := run([]string{"GOCOVERDIR=" + data}, binary, "-planner", "none", "-refusals", "-n", strconv.Itoa(n), "-seed", strconv.FormatUint(seed, 10)); err != nil {
		return err
	}
	if err := run(nil, "go", "tool", "covdata", "textfmt", "-i", data, "-o", text); err != nil {
		return err
	}
	src, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return err
	}
	return report(text, strings.TrimSpace(string(src)), all)
}

// block is a line of a coverage profile, in the format file:from.col,to.col statements count.
type block struct {
	file       string
	from, to   int
	statements int
	count      int
}

func report(profile, src string, all bool) error {
	f, err := os.Open(profile)
	if err != nil {
		return err
	}
	defer f.Close()
	blocks := map[string]*block{}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		line := scan.Text()
		if strings.HasPrefix(line, "mode:") || strings.HasPrefix(line, self) {
			continue
		}
		b := &block{}
		where, rest, _ := strings.Cut(line, " ")
		file, span, _ := strings.Cut(where, ":")
		var c1, c2 int
		if _, err := fmt.Sscanf(span, "%d.%d,%d.%d", &b.from, &c1, &b.to, &c2); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		if _, err := fmt.Sscanf(rest, "%d %d", &b.statements, &b.count); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		b.file = strings.TrimPrefix(file, "k8s.io/kubernetes/")
		if old, ok := blocks[where]; ok {
			old.count += b.count
		} else {
			blocks[where] = b
		}
	}
	var list []*block
	for _, b := range blocks {
		list = append(list, b)
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].file != list[j].file {
			return list[i].file < list[j].file
		}
		return list[i].from < list[j].from
	})
	sources := map[string][]string{}
	inPath, covered, outside, explained, missing := 0, 0, 0, 0, 0
	why := map[string]int{}
	for _, b := range list {
		lines, ok := sources[b.file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(src, b.file))
			if err != nil {
				return err
			}
			lines = strings.Split(string(data), "\n")
			sources[b.file] = lines
		}
		fn := function(lines, b.from)
		if notSync[fn] {
			if b.count > 0 && fn != "NewDeploymentController" {
				return fmt.Errorf("%s: %s ran although it is listed as not in the sync path", b.file, fn)
			}
			outside += b.statements
			continue
		}
		inPath += b.statements
		if b.count > 0 {
			covered += b.statements
			continue
		}
		reason := explain(fn, lines, b)
		if reason != "" {
			explained += b.statements
			why[reason] += b.statements
			if !all {
				continue
			}
		} else {
			missing += b.statements
			reason = "NOT EXPLAINED"
		}
		fmt.Printf("%s:%d-%d in %s: %s\n", b.file, b.from, b.to, fn, reason)
		for i := b.from; i <= b.to && i <= b.from+12; i++ {
			fmt.Printf("    %4d %s\n", i, lines[i-1])
		}
	}
	for _, r := range sortedByCount(why) {
		fmt.Printf("%4d statements not reached: %s\n", why[r], r)
	}
	fmt.Printf("sync path: %d of %d statements reached, %d not reached and explained, %d not explained; %d statements are not in the sync path\n", covered, inPath, explained, missing, outside)
	if missing > 0 {
		os.Exit(1)
	}
	return nil
}

func sortedByCount(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return m[keys[i]] > m[keys[j]] || m[keys[i]] == m[keys[j]] && keys[i] < keys[j] })
	return keys
}

// function returns the name of the top-level function that contains a line.
func function(lines []string, line int) string {
	for i := line - 1; i >= 0; i-- {
		if rest, ok := strings.CutPrefix(lines[i], "func "); ok {
			if strings.HasPrefix(rest, "(") {
				recv, after, _ := strings.Cut(rest[1:], ")")
				name, _, _ := strings.Cut(strings.TrimSpace(after), "(")
				fields := strings.Fields(recv)
				return strings.TrimPrefix(fields[len(fields)-1], "*") + "." + name
			}
			name, _, _ := strings.Cut(rest, "(")
			return name
		}
	}
	return "?"
}

// notSync are the functions that a sync of a Deployment does not call.
var notSync = func() map[string]bool {
	m := map[string]bool{}
	for _, fn := range strings.Fields(`
		NewDeploymentController DeploymentController.Run
		DeploymentController.addDeployment DeploymentController.updateDeployment DeploymentController.deleteDeployment
		DeploymentController.addReplicaSet DeploymentController.updateReplicaSet DeploymentController.deleteReplicaSet
		DeploymentController.deletePod DeploymentController.getDeploymentsForReplicaSet DeploymentController.getDeploymentForPod
		DeploymentController.resolveControllerRef DeploymentController.enqueue DeploymentController.worker
		DeploymentController.processNextWorkItem DeploymentController.handleErr
		MinAvailable RsListFromClient ListReplicaSets ListPods WaitForObservedDeployment GetDeploymentsForReplicaSet`) {
		m[fn] = true
	}
	return m
}()

// outOfReach lists blocks that no snapshot reaches: the function, a part of the source, and the reason.
var outOfReach = []struct{ fn, source, reason string }{
	{"DeploymentController.enqueueRateLimited", "couldn't get key", never},
	{"DeploymentController.enqueueAfter", "couldn't get key", never},
	{"DeploymentController.getReplicaSetsForDeployment", "return nil, err", "a list from the cache does not fail, and the GET before an adoption only fails if the server is unavailable"},
	{"DeploymentController.getReplicaSetsForDeployment", "invalid label selector", validation},
	{"DeploymentController.getReplicaSetsForDeployment", "is gone", newer},
	{"DeploymentController.getPodMapForDeployment", "return nil, err", never},
	{"DeploymentController.syncDeployment", "Failed to split", never},
	{"DeploymentController.syncDeployment", "Deployment has been deleted", "a snapshot always contains its Deployment"},
	{"DeploymentController.syncDeployment", "unexpected deployment strategy", validation},
	{"DeploymentController.syncDeployment", "return err", "errors of the cache; a failed claim (newer objects on the server); the first write to the Deployment in a pass, which only fails because of a fault or newer objects"},
	{"DeploymentController.syncStatusOnly", "return err", "the first write of the pass only fails because of a fault or newer objects"},
	{"DeploymentController.scaleDownOldReplicaSetsForRecreate", "continue", "called with active ReplicaSets only"},
	{"DeploymentController.cleanupUnhealthyReplicas", "continue", "called with active ReplicaSets only"},
	{"DeploymentController.scaleDownOldReplicaSetsForRollingUpdate", "invalid request", "the loop ends before the difference can become negative"},
	{"DeploymentController.rolloutRolling", "return err", "reconcileOldReplicaSets ignores its errors; the other returns of this form are reached"},
	{"setRollbackTo", "d.Annotations", "called with nil only"},
	{"DeploymentController.reconcileNewReplicaSet", "return false, err", validation},
	{"NewRSNewReplicas", "return 0, err", validation},
	{"NewRSNewReplicas", "isn't supported", validation},
	{"ResolveFenceposts", "return 0, 0, err", validation},
	{"DeploymentController.getNewReplicaSet", "return nil, rsErr", newer},
	{"DeploymentController.getNewReplicaSet", "return nil, err", validation + " (NewRSNewReplicas)"},
	{"Revision", "return 0, err", never},
	{"SetNewReplicaSetAnnotations", "newRS.Annotations = make", "copyDeploymentAnnotationsToReplicaSet has created the map"},
	{"SetNewReplicaSetAnnotations", "NewRevision not int", never},
	{"DeploymentTimedOut", "return false", "syncRolloutStatus has checked the deadline before"},
}

const (
	never      = "cannot fail for these objects"
	validation = "the validation of the API server rejects such an object"
	newer      = "only with newer objects on the server than in the snapshot (the cache of the controller lags)"
)

// explain returns the reason why no snapshot reaches a block of the sync path, if it is known.
func explain(fn string, lines []string, b *block) string {
	text := strings.Join(lines[b.from-1:b.to], "\n")
	for _, o := range outOfReach {
		if o.fn == fn && strings.Contains(text, o.source) {
			return o.reason
		}
	}
	return ""
}
