package controlplane

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PodBehavior is how the simulated kubelet treats pods.
type PodBehavior int

const (
	// PodsRun makes new pods ready and removes deleted pods immediately, as the fast stages of kwok do.
	PodsRun PodBehavior = iota
	// PodsHoldNew leaves new pods in ContainerCreating.
	PodsHoldNew
	// PodsReportLate makes new pods ready one to five seconds after their containers have started.
	PodsReportLate
	// PodsHold leaves new pods in ContainerCreating and deleted pods terminating.
	PodsHold
	// PodsIgnore leaves all pods but those with a missing image to the test: it makes them ready, and removes deleted ones.
	PodsIgnore
)

// imageMissing matches pods with the tag that the upstream tests use for an image that does not exist.
const imageMissing = `.spec.containers.[] | select( .image | endswith(":404") ) | .name`

//go:embed pod-image-pull-backoff.yaml
var imagePullBackOff string

//go:embed pod-container-creating.yaml
var containerCreating string

//go:embed pod-late-report.yaml
var lateReport string

// writeStages writes the configuration of kwok: its fast stages, but pods with a missing image do not start.
func writeStages(path, cache string, behavior PodBehavior) error {
	read := func(name string) (string, error) {
		text, err := os.ReadFile(filepath.Join(stagesDir(cache), name))
		return string(text), err
	}
	var stages []string
	names := []string{"node-initialize.yaml", "node-heartbeat-with-lease.yaml"}
	if behavior != PodsIgnore {
		names = append(names, "pod-complete.yaml")
	}
	if behavior != PodsIgnore && behavior != PodsHold {
		names = append(names, "pod-delete.yaml")
	}
	switch behavior {
	case PodsRun:
		ready, err := read("pod-ready.yaml")
		if err != nil {
			return err
		}
		const selector = "    matchExpressions:\n"
		if strings.Count(ready, selector) != 1 {
			return fmt.Errorf("unexpected format of the pod-ready stage of kwok:\n%s", ready)
		}
		stages = append(stages, strings.Replace(ready, selector,
			selector+fmt.Sprintf("    - key: '%s'\n      operator: 'DoesNotExist'\n", imageMissing), 1))
	case PodsHoldNew, PodsHold:
		stages = append(stages, strings.ReplaceAll(containerCreating, "IMAGE_MISSING", imageMissing))
	case PodsReportLate:
		stages = append(stages, strings.ReplaceAll(containerCreating, "IMAGE_MISSING", imageMissing),
			strings.ReplaceAll(lateReport, "IMAGE_MISSING", imageMissing))
	case PodsIgnore:
	default:
		return fmt.Errorf("unknown pod behavior %d", behavior)
	}
	// Without any stage for pods, kwok would use its own.
	stages = append(stages, strings.ReplaceAll(imagePullBackOff, "IMAGE_MISSING", imageMissing))
	for _, name := range names {
		text, err := read(name)
		if err != nil {
			return err
		}
		stages = append(stages, text)
	}
	return os.WriteFile(path, []byte(strings.Join(stages, "\n---\n")), 0o644)
}
