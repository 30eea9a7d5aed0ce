package manifests

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

var pairCount = flag.Int("pairs", 1000, "number of generated pairs of manifests, and of uses")

const program = "../../target/debug/rollplan"

// rollplan runs the command line, and decodes its answer.
func rollplan(t *testing.T, answer any, args ...string) {
	t.Helper()
	cmd := exec.Command(program, append(args, "-o=json", "--now=2026-01-01T00:00:00Z")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	// A rollout that will not complete has an answer, too.
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v %v\n%s", args, err, stderr.Bytes())
	}
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatal(err)
	}
}

// scene is a generated pair of manifests in files, with options.
type scene struct {
	pairs
	options
	old, new         *reading
	oldFile, newFile string
}

func newScene(t *testing.T, index int) *scene {
	t.Helper()
	p := pairs{rand.New(rand.NewSource(*seed*1_000_003 + int64(index)))}
	s := &scene{pairs: p, options: options{p.is(50), p.is(20), p.is(25)}}
	before, after := p.pair()
	directory := t.TempDir()
	write := func(name string, objects []object) (string, *reading) {
		text := []byte(p.text(objects))
		file := filepath.Join(directory, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := read(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return file, found
	}
	s.oldFile, s.old = write("old.yaml", before)
	s.newFile, s.new = write("new.yaml", after)
	s.old.other, s.new.other = s.new, s.old
	return s
}

// fail reports a difference, with the files.
func (s *scene) fail(t *testing.T, index int, difference string) {
	t.Helper()
	old, _ := os.ReadFile(s.oldFile)
	new, _ := os.ReadFile(s.newFile)
	t.Errorf("pair %d, %v: %s", index, s.args(), difference)
	if directory := os.Getenv("KEEP"); directory != "" {
		for name, text := range map[string][]byte{"old": old, "new": new} {
			_ = os.WriteFile(filepath.Join(directory, fmt.Sprintf("%d-%s.yaml", index, name)), text, 0o600)
		}
	}
}

func TestChangesAreThoseOfAnIndependentReading(t *testing.T) {
	results := map[string]int{}
	for i := range *pairCount {
		s := newScene(t, i)
		var answer struct {
			Workloads []struct {
				identity
				Result  string
				Missing []string
			}
			Configurations []struct {
				identity
				Change string
				Users  []identity
			}
		}
		rollplan(t, &answer, append([]string{"restarts", "-f", s.newFile, "--since", s.oldFile}, s.args()...)...)
		expected := changes(s.old, s.new, s.options)
		found := map[identity]bool{}
		for _, it := range answer.Workloads {
			results[it.Result]++
			found[it.identity] = true
			want, isExpected := expected[it.identity]
			if !isExpected || want.result != it.Result || want.missing && len(it.Missing) == 0 {
				s.fail(t, i, fmt.Sprintf("%v: %s, missing %v, expected %+v", it.identity, it.Result, it.Missing, want))
			}
		}
		for id, want := range expected {
			if !found[id] {
				s.fail(t, i, fmt.Sprintf("%v is not listed, expected %+v", id, want))
			}
		}
		// The changed configurations, and who reads what has changed.
		for _, it := range answer.Configurations {
			results[it.Change]++
			if want := changeOf(s.old.configs[it.identity], s.new.configs[it.identity]); want != it.Change {
				s.fail(t, i, fmt.Sprintf("%v: %s, expected %s", it.identity, it.Change, want))
			}
			for id, w := range s.new.workloads {
				if isReader := s.reads(id, w, it.identity); isReader != slices.Contains(it.Users, id) {
					s.fail(t, i, fmt.Sprintf("%v of %v: %v, expected %v", id, it.identity, !isReader, isReader))
				}
			}
		}
		for id := range s.new.configs {
			isListed := slices.ContainsFunc(answer.Configurations, func(it struct {
				identity
				Change string
				Users  []identity
			}) bool {
				return it.identity == id
			})
			if want := changeOf(s.old.configs[id], s.new.configs[id]); want != "" && !isListed {
				s.fail(t, i, fmt.Sprintf("%v is not listed, expected %s", id, want))
			}
		}
	}
	t.Log(results)
	for _, result := range []string{"REPLACED", "RESTARTED", "NOT_RESTARTED", "ADDED", "REMOVED", "CHANGED"} {
		if results[result] == 0 {
			t.Errorf("no pair of manifests has the result %s", result)
		}
	}
}

// changeOf is how a configuration has changed.
func changeOf(old, new *config) string {
	switch {
	case old == nil && new == nil:
		return ""
	case old == nil:
		return "ADDED"
	case new == nil:
		return "REMOVED"
	case equalTexts(old.data, new.data) && equalTexts(old.binary, new.binary):
		return ""
	}
	return "CHANGED"
}

// reads tells whether a workload reads what has changed in a configuration.
func (s *scene) reads(id identity, w *workload, c identity) bool {
	if id.Namespace != c.Namespace {
		return false
	}
	before, after := s.old.uses(id, w), s.new.uses(id, w)
	// Reloader compares the whole data.
	isReloaded := s.reloader && s.old.configs[c] != nil && s.new.configs[c] != nil && w.why != "no pods"
	if isReloaded && s.reacts(id, w, c.Kind, c.Name, usages(after, c.Kind, c.Name)) {
		return true
	}
	of := identity{Kind: c.Kind, Name: c.Name}
	isRead := func(it string) bool { return it != asNothing }
	return differs(before, after, of, isRead)
}

// usages returns the ways in which a configuration is used.
func usages(uses []use, kind, name string) []string {
	var found []string
	for _, it := range uses {
		if it.kind == kind && it.name == name {
			found = append(found, it.usage)
		}
	}
	return found
}

func TestUsesAreThoseOfAnIndependentReading(t *testing.T) {
	results := map[string]int{}
	for i := range *pairCount {
		s := newScene(t, i)
		kind, name := "ConfigMap", s.configMap()
		if s.is(50) {
			kind, name = "Secret", s.secret()
		}
		var answer struct {
			Users []struct {
				identity
				Restarts bool
				Reasons  []string
			}
		}
		rollplan(t, &answer, append([]string{"uses", kind + "/" + name, "-f", s.newFile}, s.args()...)...)
		users := s.new.users(kind, name)
		for id := range users {
			w := s.new.workloads[id]
			found := usages(s.new.uses(id, w), kind, name)
			// A volume that is not mounted, or of which no file is mounted, is not a use, except for Reloader.
			isUse := func(it string) bool { return it != asNothing }
			if !slices.ContainsFunc(found, isUse) && !(s.reloader && s.reacts(id, w, kind, name, found)) {
				delete(users, id)
			}
		}
		for id, w := range s.new.workloads {
			if s.reloader && s.reacts(id, w, kind, name, nil) {
				users[id] = true
			}
		}
		for _, it := range answer.Users {
			if it.Namespace == "" {
				it.Namespace = "default"
			}
			if !users[it.identity] {
				s.fail(t, i, fmt.Sprintf("%s/%s: %v is not a user", kind, name, it.identity))
				continue
			}
			delete(users, it.identity)
			w := s.new.workloads[it.identity]
			found := usages(s.new.uses(it.identity, w), kind, name)
			want := s.replaces(w) && s.reacts(it.identity, w, kind, name, found)
			if it.Restarts != want || it.Restarts == (len(it.Reasons) > 0) {
				s.fail(t, i, fmt.Sprintf("%s/%s: %v: restarts %v (%v), expected %v", kind, name, it.identity, it.Restarts, it.Reasons, want))
			}
			results[fmt.Sprint(want)]++
		}
		for id := range users {
			s.fail(t, i, fmt.Sprintf("%s/%s: %v is not listed", kind, name, id))
		}
	}
	t.Log(results)
	if results["true"] == 0 || results["false"] == 0 {
		t.Error("the manifests are too similar")
	}
}
