package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestForecastDifferencesAreThoseOfAnIndependentReading compares the fields that a forecast lists as changed with the
// differences of what the API server would store.
func TestForecastDifferencesAreThoseOfAnIndependentReading(t *testing.T) {
	results := map[string]int{}
	for i := range *pairCount {
		p := pairs{rand.New(rand.NewSource(*seed*1_000_003 + int64(i)))}
		old, new := p.deployments()
		live, want := stored(t, old), stored(t, new)
		hasLastApplied := p.is(50)
		if hasLastApplied {
			text, err := json.Marshal(old)
			if err != nil {
				t.Fatal(err)
			}
			live.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(text)}
		}
		if p.is(30) { // by an autoscaler
			*live.Spec.Replicas = int32(1 + p.Intn(9))
		}
		_, setsReplicas := new.at("spec")["replicas"]
		_, didSetReplicas := old.at("spec")["replicas"]
		if !setsReplicas && !(hasLastApplied && didSetReplicas) {
			want.Spec.Replicas = live.Spec.Replicas
		}

		directory := t.TempDir()
		write := func(name string, content any) string {
			text, err := json.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(directory, name)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		s := &scene{oldFile: write("live.json", live), newFile: write("new.json", new)}
		type change struct{ Path string }
		var answer struct {
			Effect                       string
			SpecChanges, TemplateChanges []change
		}
		rollplan(t, &answer, "forecast", "--snapshot", s.oldFile, "-f", s.newFile, "--samples=1", "--start-time=1s", "--termination-time=1s")
		found := map[string][]string{}
		for where, changes := range map[string][]change{"spec": answer.SpecChanges, "template": answer.TemplateChanges} {
			for _, it := range changes {
				found[where] = append(found[where], it.Path)
			}
		}
		expected := map[string][]string{}
		before, after := shown(t, live.Spec), shown(t, want.Spec)
		for where, paths := range map[string][]string{
			"template": differences("", before["template"], after["template"]),
			"spec":     differences("", before["spec"], after["spec"]),
		} {
			if len(paths) > 0 {
				expected[where] = paths
				results[where] += len(paths)
			}
		}
		if !reflect.DeepEqual(found, expected) {
			s.fail(t, i, fmt.Sprintf("the changes are %v, expected %v", found, expected))
		}
		if len(expected) == 0 {
			results["none"]++
			if answer.Effect != "CHANGE_EFFECT_NO_CHANGE" {
				s.fail(t, i, "the effect is "+answer.Effect)
			}
		}
	}
	t.Log(results)
	for _, result := range []string{"template", "spec", "none"} {
		if results[result] == 0 {
			t.Errorf("no pair has such differences: %s", result)
		}
	}
}

// deployments returns manifests of a Deployment before and after changes.
func (p pairs) deployments() (old, new object) {
	for old = p.workload("web"); old["kind"] != "Deployment"; {
		old = p.workload("web")
	}
	new = copied(old)
	for range 1 + p.Intn(4) {
		spec := new.at("spec")
		switch p.Intn(12) {
		case 0:
			spec["replicas"] = 1 + p.Intn(4)
		case 1:
			delete(spec, "replicas")
		case 2:
			spec["minReadySeconds"] = p.Intn(2)
		case 3:
			spec["progressDeadlineSeconds"] = 600 + p.Intn(2)
		case 4:
			spec["revisionHistoryLimit"] = 10 + p.Intn(2)
		case 5:
			spec["paused"] = p.is(50)
		case 6:
			spec["strategy"] = object{"rollingUpdate": object{"maxSurge": p.pick("25%", "50%")}}
		case 7:
			spec["strategy"] = object{"type": "Recreate"}
		default:
			p.changeTemplate(template(new))
			// kubectl does not merge variables with the same name.
			for _, c := range template(new).at("spec")["containers"].([]any) {
				container := object(c.(map[string]any))
				if env, has := container["env"].([]any); has {
					container["env"] = withoutDuplicates(env)
				}
			}
		}
	}
	return old, new
}

func withoutDuplicates(variables []any) (kept []any) {
	name := func(variable any) any {
		if o, is := variable.(object); is {
			return o["name"]
		}
		return variable.(map[string]any)["name"]
	}
	for _, it := range variables {
		if !slices.ContainsFunc(kept, func(other any) bool { return name(other) == name(it) }) {
			kept = append(kept, it)
		}
	}
	return kept
}

// stored is a Deployment as the API server stores it.
func stored(t *testing.T, manifest object) *appsv1.Deployment {
	t.Helper()
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	deployment := decoded.(*appsv1.Deployment)
	deployment.UID, deployment.ResourceVersion, deployment.Generation = "6f1c0c4e-1d5a-4f0c-8a8e-6f8f3f6f0a11", "1", 1
	if deployment.Namespace == "" {
		deployment.Namespace = "default"
	}
	return deployment
}

// shown are the template and the other fields of a spec. Empty resources are none, amounts have one notation, and the limits of a
// rollout are fields of their own.
func shown(t *testing.T, spec appsv1.DeploymentSpec) object {
	t.Helper()
	var all object
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	all.at("strategy", "rollingUpdate")
	template := all.at("template")
	delete(all, "template")
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := template.at("spec")[list].([]any)
		for _, it := range containers {
			container := object(it.(map[string]any))
			resources := container.at("resources")
			if len(resources) == 0 {
				delete(container, "resources")
			}
			for kind := range resources {
				for name, amount := range resources.at(kind) {
					quantity := resource.MustParse(amount.(string))
					resources.at(kind)[name] = quantity.AsDec().String()
				}
			}
		}
	}
	return copied(object{"template": template, "spec": all})
}

// differences are the paths of the smallest parts that differ. Items of lists are found by their names.
func differences(path string, before, after any) (paths []string) {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	compare := func(before, after map[string]any, pathOf func(string) string) {
		keys := map[string]bool{}
		for _, of := range []map[string]any{before, after} {
			for key := range of {
				keys[key] = true
			}
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			paths = append(paths, differences(pathOf(key), before[key], after[key])...)
		}
	}
	if before, isMap := before.(map[string]any); isMap {
		if after, isMap := after.(map[string]any); isMap {
			compare(before, after, func(key string) string { return strings.TrimPrefix(path+"."+key, ".") })
			return paths
		}
	}
	named, areNamed := byName(before)
	if others, areNamedToo := byName(after); areNamed && areNamedToo {
		compare(named, others, func(name string) string { return fmt.Sprintf("%s[name=%s]", path, name) })
	}
	if len(paths) == 0 {
		paths = []string{path}
	}
	return paths
}

// byName returns the items of a list by their names, if each has one of its own.
func byName(value any) (map[string]any, bool) {
	items, isList := value.([]any)
	named := map[string]any{}
	for _, item := range items {
		object, _ := item.(map[string]any)
		if name, hasName := object["name"].(string); hasName {
			named[name] = item
		}
	}
	return named, isList && len(named) == len(items)
}
