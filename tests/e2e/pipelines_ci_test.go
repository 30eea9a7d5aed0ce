package e2e

import (
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// input is a reference to an input, as GitHub and GitLab write it.
var input = regexp.MustCompile(`\$\{\{ inputs\.([a-z-]+) \}\}|\$\[\[ inputs\.([a-z-]+) \]\]`)

// inputs are the values of the inputs, quoted for a shell.
var inputs = map[string]string{
	"manifest": `"$1"`, "namespace": `"$2"`, "deployment": `"$3"`, "timeout": `"$TIMEOUT"`, "fail-on": "image-pull=0s", "image": "unused",
}

// TestPipelineTemplates runs the GitHub Action and the GitLab component as their runners would.
func TestPipelineTemplates(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	p := newPipelines(ctx, t, cp)
	p.environment = append(p.environment, "FAIL_ON=")
	for _, template := range []struct {
		name       string
		program    func(t *testing.T, root, directory string) string
		annotation string
	}{
		{"github", githubProgram, "::error title=Deployment github/web%3A "},
		{"gitlab", gitlabProgram, "section_start:"},
	} {
		t.Run(template.name, func(t *testing.T) {
			directory := t.TempDir()
			script := filepath.Join(directory, "deploy.sh")
			if err := os.WriteFile(script, []byte(template.program(t, p.root, directory)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := cp.CreateNamespace(ctx, template.name); err != nil {
				t.Fatal(err)
			}
			p.run(ctx, t, []string{"bash", script}, template.name, "1.0", 0, "")
			out := p.run(ctx, t, []string{"bash", script}, template.name, "404", 1, "cannot be pulled")
			for _, want := range []string{"rolling back", template.annotation} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
			p.image(ctx, t, template.name, "1.0")
			checkReports(t, template.name, directory)
		})
	}
}

// checkReports checks the reports of the failed run.
func checkReports(t *testing.T, name, directory string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(directory, "rollplan.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var junit struct {
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Type string `xml:"type,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &junit); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	failed := junit.Suites[0].Cases[0]
	if junit.Failures != 1 || failed.Name != "Deployment "+name+"/web" || failed.Failure == nil || failed.Failure.Type != "IMAGE_PULL" {
		t.Errorf("JUnit report:\n%s", text)
	}
	if name != "github" {
		return
	}
	// Each run appends to the same file.
	summary, err := os.ReadFile(filepath.Join(directory, "summary.md"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(summary), "### rollplan wait: 1 of 1 complete") != 1 || strings.Count(string(summary), "### rollplan wait: 0 of 1 complete") != 1 {
		t.Errorf("summary:\n%s", summary)
	}
}

// action is a composite action of GitHub.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Steps []struct {
			Env map[string]string
			Run string
		}
	}
}

// githubProgram is a script that runs the steps of the Action.
func githubProgram(t *testing.T, root, directory string) string {
	var action action
	decode(t, filepath.Join(root, "packaging/github/action.yml"), 0, &action)
	defaults := map[string]string{}
	for name, input := range action.Inputs {
		defaults[name] = input.Default
	}
	temp := filepath.Join(directory, "temp")
	defaults["version"], defaults["releases"] = "0.0.1", "file://"+releases(t, directory, filepath.Join(temp, "used"))
	defaults["junit"] = filepath.Join(directory, "rollplan.xml")
	program := fmt.Sprintf("export GITHUB_ACTIONS=true GITHUB_ACTION_PATH=%q GITHUB_STEP_SUMMARY=%q RUNNER_TEMP=%q GITHUB_PATH=%q\n",
		filepath.Join(root, "packaging/github"), filepath.Join(directory, "summary.md"), temp, filepath.Join(directory, "path"))
	program += `mkdir -p "$RUNNER_TEMP"; : >"$GITHUB_PATH"` + "\n"
	for _, step := range action.Runs.Steps {
		// `shell: bash` of a workflow.
		program += exports(t, step.Env, defaults) + "set -eo pipefail\n" + step.Run + "\n"
		program += `while read -r line; do PATH=$line:$PATH; done <"$GITHUB_PATH"` + "\n"
	}
	return program + `test -e "$RUNNER_TEMP/used"` + "\n"
}

// releases makes a directory with a release 0.0.1. Its program creates the file `used`, and is otherwise the
// program under test.
func releases(t *testing.T, directory, used string) string {
	t.Helper()
	release := filepath.Join(directory, "releases/v0.0.1")
	script := fmt.Sprintf(`mkdir -p %[1]q && cd %[1]q && printf '#!/bin/sh\n: >%%s\nexec %%s "$@"\n' %[2]q %[3]q >rollplan && chmod +x rollplan &&
tar -czf rollplan-0.0.1-linux-amd64.tar.gz rollplan && sha256sum *.tar.gz >SHA256SUMS`, release, used, rollplan(t))
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Dir(release)
}

// gitlabProgram is a script that runs the job of the component.
func gitlabProgram(t *testing.T, root, directory string) string {
	var header struct {
		Spec struct {
			Inputs map[string]struct{ Default string }
		}
	}
	file := filepath.Join(root, "packaging/gitlab/templates/rollout.yml")
	decode(t, file, 0, &header)
	defaults := map[string]string{}
	for name, input := range header.Spec.Inputs {
		defaults[name] = input.Default
	}
	program := fmt.Sprintf("export GITLAB_CI=true\ncd %q\n", directory) + jobProgram(t, file, defaults)
	script, err := os.ReadFile(filepath.Join(root, "examples/pipelines/deploy.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(program, "<<'SCRIPT'\n"+string(script)+"SCRIPT\n") {
		t.Fatal("packaging/gitlab/templates/rollout.yml does not have examples/pipelines/deploy.sh as it is")
	}
	return program
}

// jobProgram is a script that runs the only job of a component.
func jobProgram(t *testing.T, file string, defaults map[string]string) string {
	t.Helper()
	var jobs map[string]struct {
		Variables map[string]string
		Script    []string
	}
	decode(t, file, 1, &jobs)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	program := "set -eo pipefail\n"
	for _, job := range jobs {
		program += exports(t, job.Variables, defaults) + strings.Join(job.Script, "\n") + "\n"
	}
	return program
}

// decode reads one document of a YAML file.
func decode(t *testing.T, file string, document int, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[document]), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// exports returns shell commands that set the variables to the inputs that they refer to.
func exports(t *testing.T, variables, defaults map[string]string) string {
	t.Helper()
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		value := variables[name]
		if match := input.FindStringSubmatch(value); match != nil {
			name := match[1] + match[2]
			fallback, known := defaults[name]
			if !known {
				t.Fatalf("unknown input %s", name)
			}
			if value = inputs[name]; value == "" {
				value = fmt.Sprintf("%q", fallback)
			}
		}
		fmt.Fprintf(&lines, "export %s=%s\n", name, value)
	}
	return lines.String()
}
