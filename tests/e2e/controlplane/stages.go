package controlplane

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PodLife says how the pretended kubelet treats pods.
type PodLife int

const (
	// PodsRun makes pods ready at once and lets deleted ones go at once, as kwok's fast stages do.
	PodsRun PodLife = iota
	// PodsHoldNew leaves new pods in ContainerCreating.
	PodsHoldNew
	// PodsHold leaves new pods in ContainerCreating and deleted ones terminating.
	PodsHold
)

// imageMissing selects pods with an image that no registry has, by the tag that upstream's tests use for one.
const imageMissing = `.spec.containers.[] | select( .image | endswith(":404") ) | .name`

//go:embed pod-image-pull-backoff.yaml
var imagePullBackOff string

//go:embed pod-container-creating.yaml
var containerCreating string

// writeStages writes kwok's configuration: its own fast stages, changed only so that pods of a missing image do not run.
func writeStages(path, cache string, life PodLife) error {
	read := func(name string) (string, error) {
		text, err := os.ReadFile(filepath.Join(stagesDir(cache), name))
		return string(text), err
	}
	var stages []string
	names := []string{"node-initialize.yaml", "node-heartbeat-with-lease.yaml", "pod-complete.yaml"}
	if life != PodsHold {
		names = append(names, "pod-delete.yaml")
	}
	switch life {
	case PodsRun:
		ready, err := read("pod-ready.yaml")
		if err != nil {
			return err
		}
		const selector = "    matchExpressions:\n"
		if strings.Count(ready, selector) != 1 {
			return fmt.Errorf("kwok's pod-ready stage has another shape than we know:\n%s", ready)
		}
		stages = append(stages, strings.Replace(ready, selector,
			selector+fmt.Sprintf("    - key: '%s'\n      operator: 'DoesNotExist'\n", imageMissing), 1))
	case PodsHoldNew, PodsHold:
		stages = append(stages, strings.ReplaceAll(containerCreating, "IMAGE_MISSING", imageMissing))
	default:
		return fmt.Errorf("unknown pod life %d", life)
	}
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
