package rollplan

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// fields is a JSON object.
type fields = map[string]any

// markers is the prefix of the environment variables with which Reloader marks restarts.
const markers = "STAKATER_"

// annotationsPlanned are the prefixes of annotations that restart plans use. Reloader's annotations have a name before the
// prefix.
var annotationsPlanned = []string{
	"rollplan.dev/", "com.xing.deployment-restart", "deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation",
}

func isPlanned(annotation string) bool {
	return strings.Contains(annotation, "reloader.stakater.com/") ||
		slices.ContainsFunc(annotationsPlanned, func(prefix string) bool { return strings.HasPrefix(annotation, prefix) })
}

// planned returns the annotations that restart plans use.
func planned(annotations gjson.Result) map[string]string {
	found := stringMap(annotations)
	for key := range found {
		if !isPlanned(key) {
			delete(found, key)
		}
	}
	return found
}

// trimWorkload drops everything that restart plans do not use: values of environment variables, commands, and the values of
// other annotations, for example of kubectl.kubernetes.io/last-applied-configuration. Jobs that may be recreated are kept
// whole.
func trimWorkload(o *Object, templatePath []string, isWhole bool) {
	all := o.fields()
	metadata := child(all, "metadata")
	blankAnnotations(metadata, isWhole)
	if !isWhole {
		spec := child(all, "spec")
		kept := pick(spec, "replicas", "paused", "updateStrategy")
		if template := child(all, templatePath...); template != nil {
			at := fields{"spec": kept}
			for _, field := range templatePath[:len(templatePath)-1] {
				if _, ok := at[field].(fields); !ok {
					at[field] = fields{}
				}
				at = child(at, field)
			}
			at[templatePath[len(templatePath)-1]] = trimTemplate(template)
		}
		all["spec"] = kept
		all["metadata"] = pick(metadata, "name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp", "annotations")
	}
	if status := child(all, "status"); status != nil {
		kept := pick(status, "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
			"desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "updateRevision")
		kept["conditions"] = pickEach(status["conditions"], "type", "status", "reason")
		all["status"] = kept
	}
	o.setFields(all, "apiVersion", "kind", "metadata", "spec", "status")
}

// trimTemplate keeps references to configurations, and the positions of Reloader's environment variables.
func trimTemplate(template fields) fields {
	metadata := pick(child(template, "metadata"), "annotations", "labels")
	blankAnnotations(metadata, false)
	spec := child(template, "spec")
	kept := pick(spec, "volumes", "imagePullSecrets")
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		containers := pickEach(spec[list], "name", "env", "envFrom", "volumeMounts")
		for _, container := range containers {
			env, _ := container.(fields)["env"].([]any)
			for _, variable := range env {
				if variable, ok := variable.(fields); ok && !strings.HasPrefix(text(variable["name"]), markers) {
					delete(variable, "value")
				}
			}
		}
		if len(containers) > 0 {
			kept[list] = containers
		}
	}
	trimmed := fields{"spec": kept}
	if template["metadata"] != nil {
		trimmed["metadata"] = metadata
	}
	return trimmed
}

// blankAnnotations empties the annotations that restart plans do not use, or only the one with a copy of the whole object.
// The keys stay, because the patch of an object without annotations is different.
func blankAnnotations(metadata fields, onlyCopies bool) {
	annotations := child(metadata, "annotations")
	for key := range annotations {
		if onlyCopies && key == "kubectl.kubernetes.io/last-applied-configuration" || !onlyCopies && !isPlanned(key) {
			annotations[key] = ""
		}
	}
}

// trimPod keeps the revision of a pod, and the start times of its containers. unscheduled is the last version at which the pod
// had no node, or 0.
func trimPod(o *Object, unscheduled uint64) {
	all := o.fields()
	metadata := pick(child(all, "metadata"), "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "ownerReferences")
	metadata["labels"] = pick(child(all, "metadata", "labels"), "controller-revision-hash", "pod-template-generation")
	if unscheduled > 0 {
		metadata["annotations"] = fields{unscheduledVersion: strconv.FormatUint(unscheduled, 10)}
	}
	status := child(all, "status")
	kept := pick(status, "phase")
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		containers := pickEach(status[list], "state")
		for _, container := range containers {
			state := child(container.(fields), "state")
			if waiting := child(state, "waiting"); waiting != nil {
				state["waiting"] = pick(waiting, "reason")
			}
			if terminated := child(state, "terminated"); terminated != nil {
				state["terminated"] = pick(terminated, "startedAt") // may have a message of the container
			}
		}
		kept[list] = containers
	}
	o.setFields(fields{"apiVersion": all["apiVersion"], "kind": all["kind"], "metadata": metadata, "status": kept},
		"apiVersion", "kind", "metadata", "status")
	o.Labels = nil
}

// trimReplicaSet keeps the revision of a ReplicaSet.
func trimReplicaSet(o *Object) {
	all := o.fields()
	metadata := pick(child(all, "metadata"), "name", "namespace", "uid", "creationTimestamp", "ownerReferences", "annotations")
	blankAnnotations(metadata, false)
	o.setFields(fields{"apiVersion": all["apiVersion"], "kind": all["kind"], "metadata": metadata,
		"status": pick(child(all, "status"), "replicas")}, "apiVersion", "kind", "metadata", "status")
	o.Labels = nil
}

// trimOther keeps the labels and annotations of a namespace, and the numbers of a PodDisruptionBudget.
func trimOther(o *Object) {
	all := o.fields()
	metadata := pick(child(all, "metadata"), "name", "namespace", "uid", "labels", "annotations")
	blankAnnotations(metadata, false)
	all["metadata"] = metadata
	all["spec"] = pick(child(all, "spec"), "selector")
	all["status"] = pick(child(all, "status"), "disruptionsAllowed")
	o.setFields(all, "apiVersion", "kind", "metadata", "spec", "status")
}

// templatePathOf returns the path of the pod template in a kind.
func templatePathOf(kind *rollplanv1.WorkloadKind) []string {
	switch {
	case kind.GetTemplatePath() != "":
		return strings.Split(kind.GetTemplatePath(), ".")
	case kind.GetKind() == "CronJob" && kind.GetApiVersion() == "batch/v1":
		return []string{"spec", "jobTemplate", "spec", "template"}
	default:
		return []string{"spec", "template"}
	}
}

// fields decodes an object. Numbers keep their text.
func (o *Object) fields() fields {
	decoder := json.NewDecoder(strings.NewReader(o.JSON))
	decoder.UseNumber()
	all := fields{}
	_ = decoder.Decode(&all) // from the API server, and its metadata has been decoded
	return all
}

// setFields replaces the JSON of an object by the given fields.
func (o *Object) setFields(all fields, keys ...string) {
	encoded, _ := json.Marshal(pick(all, keys...)) // what was decoded can be encoded
	o.JSON = string(encoded)
}

// child returns a field that is an object, or nil.
func child(parent fields, path ...string) fields {
	for _, field := range path {
		parent, _ = parent[field].(fields)
	}
	return parent
}

// pick returns some fields of an object.
func pick(from fields, keys ...string) fields {
	kept := fields{}
	for _, key := range keys {
		if value, ok := from[key]; ok {
			kept[key] = value
		}
	}
	return kept
}

// pickEach returns some fields of each object in a list.
func pickEach(list any, keys ...string) []any {
	items, _ := list.([]any)
	kept := make([]any, 0, len(items))
	for _, item := range items {
		item, _ := item.(fields)
		kept = append(kept, pick(item, keys...))
	}
	return kept
}

func text(value any) string {
	text, _ := value.(string)
	return text
}
