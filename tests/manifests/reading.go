package manifests

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
)

// identity is what identifies an object.
type identity struct{ Namespace, Kind, Name string }

func idOf(o object) identity {
	text := func(value any) string {
		text, _ := value.(string)
		return text
	}
	namespace := text(o.at("metadata")["namespace"])
	if namespace == "" {
		namespace = "default"
	}
	return identity{namespace, text(o["kind"]), text(o.at("metadata")["name"])}
}

func sortStrings(texts []string) { slices.Sort(texts) }

// reading is what an independent reader finds in manifests: it decodes them with the types and defaults of Kubernetes, and
// computes what the kubelet would give to each container.
type reading struct {
	workloads map[identity]*workload
	configs   map[identity]*config
	// other are the manifests on the other side of a change: a configuration that exists on neither side is unknown, and may exist.
	other *reading
}

type workload struct {
	annotations map[string]string
	template    corev1.PodTemplateSpec
	// why is the reason for which a new template does not replace the pods. Empty if it does.
	why string
}

type config struct {
	data, binary map[string]string
}

// read reads a file as kubectl and the API server do.
func read(text []byte) (*reading, error) {
	r := &reading{workloads: map[identity]*workload{}, configs: map[identity]*config{}}
	texts, err := documents(text)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		var list struct {
			Kind  string
			Items []runtime.RawExtension
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, err
		}
		if list.Kind != "List" {
			list.Items = []runtime.RawExtension{{Raw: []byte(text)}}
		}
		for _, item := range list.Items {
			decoded, err := decode(item.Raw)
			if runtime.IsNotRegisteredError(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			r.add(decoded)
		}
	}
	return r, nil
}

// decode decodes an object with the types and defaults of Kubernetes.
func decode(text []byte) (runtime.Object, error) {
	decoded, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err == nil {
		legacyscheme.Scheme.Default(decoded)
	}
	return decoded, err
}

func (r *reading) add(decoded runtime.Object) {
	w := &workload{}
	var id identity
	in := func(namespace, kind, name string) {
		if namespace == "" {
			namespace = "default"
		}
		id = identity{namespace, kind, name}
	}
	switch o := decoded.(type) {
	case *corev1.ConfigMap:
		in(o.Namespace, "ConfigMap", o.Name)
		r.configs[id] = &config{o.Data, texts(o.BinaryData)}
		return
	case *corev1.Secret:
		in(o.Namespace, "Secret", o.Name)
		data := texts(o.Data)
		for key, value := range o.StringData {
			data[key] = value
		}
		r.configs[id] = &config{data, nil}
		return
	case *appsv1.Deployment:
		in(o.Namespace, "Deployment", o.Name)
		w.annotations, w.template = o.Annotations, o.Spec.Template
		if *o.Spec.Replicas == 0 {
			w.why = "no pods"
		} else if o.Spec.Paused {
			w.why = "paused"
		}
	case *appsv1.StatefulSet:
		in(o.Namespace, "StatefulSet", o.Name)
		w.annotations, w.template = o.Annotations, o.Spec.Template
		strategy := o.Spec.UpdateStrategy
		partition := int32(0)
		if rolling := strategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
			partition = *rolling.Partition
		}
		if strategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			w.why = "on delete"
		} else if *o.Spec.Replicas == 0 || partition >= *o.Spec.Replicas {
			w.why = "no pods"
		}
	case *appsv1.DaemonSet:
		in(o.Namespace, "DaemonSet", o.Name)
		w.annotations, w.template = o.Annotations, o.Spec.Template
		if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			w.why = "on delete"
		}
	case *batchv1.CronJob:
		in(o.Namespace, "CronJob", o.Name)
		w.annotations, w.template, w.why = o.Annotations, o.Spec.JobTemplate.Spec.Template, "next job"
	case *batchv1.Job:
		in(o.Namespace, "Job", o.Name)
		w.annotations, w.template, w.why = o.Annotations, o.Spec.Template, "job"
	case *appsv1.ReplicaSet:
		in(o.Namespace, "ReplicaSet", o.Name)
		w.annotations, w.template, w.why = o.Annotations, o.Spec.Template, "other kind"
	case *corev1.Pod:
		in(o.Namespace, "Pod", o.Name)
		w.annotations, w.template, w.why = o.Annotations, corev1.PodTemplateSpec{Spec: o.Spec}, "other kind"
	default:
		return
	}
	r.workloads[id] = w
}

func texts(of map[string][]byte) map[string]string {
	texts := map[string]string{}
	for key, value := range of {
		texts[key] = string(value)
	}
	return texts
}

// use is one use of a configuration by a container, or by the pod.
type use struct {
	kind, name, usage string
	// content is what is read, or empty if the configuration does not exist.
	content string
	// missing is why a pod cannot start: the missing key, or "." for the configuration.
	missing string
}

const (
	asEnv     = "env"
	asEnvFrom = "envFrom"
	asSubPath = "subPath"
	asVolume  = "volume"
	asNothing = "nothing"
	asAccess  = "access"
)

// uses computes what the pods of a workload read (kubelet_pods.go: makeEnvironmentVariables, makeMounts; volume/configmap,
// secret and projected: MakePayload).
func (r *reading) uses(id identity, w *workload) []use {
	var found []use
	spec := &w.template.Spec
	add := func(kind, name, usage string, optional *bool, read func(*config) (any, string)) {
		if name == "" {
			return
		}
		u := use{kind: kind, name: name, usage: usage}
		isOptional := optional != nil && *optional
		c := r.configs[identity{id.Namespace, kind, name}]
		isKnown := c != nil || r.other.configs[identity{id.Namespace, kind, name}] != nil
		switch {
		case c == nil && isKnown && !isOptional:
			u.missing = "."
		case c != nil:
			content, missing := read(c)
			if !isOptional {
				u.missing = missing
			}
			text, err := json.Marshal(content)
			if err != nil {
				panic(err)
			}
			u.content = string(text)
		}
		found = append(found, u)
	}
	variable := func(key string) func(*config) (any, string) {
		return func(c *config) (any, string) {
			value, isSet := c.data[key]
			if !isSet {
				return nil, key
			}
			return value, ""
		}
	}
	variables := func(c *config) (any, string) { return c.data, "" }
	podutil.VisitContainers(spec, podutil.AllContainers, func(c *corev1.Container, _ podutil.ContainerType) bool {
		for _, env := range c.Env {
			if env.ValueFrom == nil {
				continue
			}
			if ref := env.ValueFrom.ConfigMapKeyRef; ref != nil {
				add("ConfigMap", ref.Name, asEnv, ref.Optional, variable(ref.Key))
			}
			if ref := env.ValueFrom.SecretKeyRef; ref != nil {
				add("Secret", ref.Name, asEnv, ref.Optional, variable(ref.Key))
			}
		}
		for _, from := range c.EnvFrom {
			if ref := from.ConfigMapRef; ref != nil {
				add("ConfigMap", ref.Name, asEnvFrom, ref.Optional, variables)
			}
			if ref := from.SecretRef; ref != nil {
				add("Secret", ref.Name, asEnvFrom, ref.Optional, variables)
			}
		}
		for _, mount := range c.VolumeMounts {
			for _, volume := range spec.Volumes {
				if volume.Name == mount.Name {
					mounted(volume, mount, add)
				}
			}
		}
		return true
	})
	everything := func(c *config) (any, string) { return []any{c.data, c.binary}, "" }
	optional := true
	for _, ref := range spec.ImagePullSecrets {
		add("Secret", ref.Name, asAccess, &optional, everything)
	}
	for _, volume := range spec.Volumes {
		if volume.CSI != nil && volume.CSI.NodePublishSecretRef != nil {
			add("Secret", volume.CSI.NodePublishSecretRef.Name, asAccess, &optional, everything)
		}
	}
	return found
}

type adder func(kind, name, usage string, optional *bool, read func(*config) (any, string))

// mounted adds what a mount shows of a volume.
func mounted(volume corev1.Volume, mount corev1.VolumeMount, add adder) {
	subPath := path.Clean("/" + mount.SubPath)[1:]
	usage := asVolume
	if mount.SubPathExpr != "" || subPath != "" {
		usage = asSubPath
	}
	source := func(kind, name string, items []corev1.KeyToPath, optional *bool) {
		reads := usage
		if subPath != "" && items != nil && !slices.ContainsFunc(items, func(it corev1.KeyToPath) bool { return isIn(it.Path, subPath) }) ||
			items == nil && strings.Contains(subPath, "/") {
			reads = asNothing
		}
		add(kind, name, reads, optional, func(c *config) (any, string) {
			files, missing := payload(c, items)
			for file := range files {
				if !isIn(file, subPath) {
					delete(files, file)
				}
			}
			return files, missing
		})
	}
	if it := volume.ConfigMap; it != nil {
		source("ConfigMap", it.Name, it.Items, it.Optional)
	}
	if it := volume.Secret; it != nil {
		source("Secret", it.SecretName, it.Items, it.Optional)
	}
	if volume.Projected == nil {
		return
	}
	for _, it := range volume.Projected.Sources {
		if it := it.ConfigMap; it != nil {
			source("ConfigMap", it.Name, it.Items, it.Optional)
		}
		if it := it.Secret; it != nil {
			source("Secret", it.Name, it.Items, it.Optional)
		}
	}
}

// isIn tells whether a file is at a path, or below it.
func isIn(file, at string) bool {
	file = path.Clean(file)
	return at == "" || file == at || strings.HasPrefix(file, at+"/")
}

// payload returns the files of a volume, and the first missing key.
func payload(c *config, items []corev1.KeyToPath) (files map[string]string, missing string) {
	files = map[string]string{}
	get := func(key string) (string, bool) {
		if value, isSet := c.data[key]; isSet {
			return value, true
		}
		value, isSet := c.binary[key]
		return value, isSet
	}
	for key := range c.data {
		files[key] = c.data[key]
	}
	for key := range c.binary {
		files[key] = c.binary[key]
	}
	if len(items) == 0 {
		return files, ""
	}
	files = map[string]string{}
	for _, item := range items {
		value, isSet := get(item.Key)
		switch {
		case isSet:
			files[path.Clean(item.Path)] = value
		case missing == "" || item.Key < missing:
			missing = item.Key
		}
	}
	return files, missing
}

// options are those of the command line.
type options struct {
	allWorkloads, onlyEnv, reloader bool
}

func (o options) args() []string {
	var args []string
	if o.allWorkloads {
		args = append(args, "--all-workloads")
	}
	if o.onlyEnv {
		args = append(args, "--restart-on=env")
	}
	if o.reloader {
		args = append(args, "--profile=reloader")
	}
	return args
}

// reacts tells whether a workload is restarted if what it uses in one of these ways changes. selected is whether it can be
// restarted at all.
func (o options) reacts(id identity, w *workload, kind, name string, usages []string) bool {
	if w.why == "other kind" {
		return false
	}
	isRead := func(it string) bool { return it != asNothing && it != asAccess }
	if o.reloader {
		annotations := w.annotations
		if kind == "ConfigMap" && annotations["configmap.reloader.stakater.com/reload"] == name {
			return true
		}
		// A mount without files is a mount for Reloader.
		return annotations["reloader.stakater.com/auto"] == "true" &&
			slices.ContainsFunc(usages, func(it string) bool { return it != asAccess })
	}
	switch w.annotations["rollplan.dev/restart"] {
	case "enabled":
	case "":
		if !o.allWorkloads {
			return false
		}
	default:
		return false
	}
	for _, ignored := range strings.Split(w.annotations["rollplan.dev/restart-ignore"], ", ") {
		if ignored == strings.ToLower(kind)+"/"+name {
			return false
		}
	}
	onlyEnv := o.onlyEnv
	switch w.annotations["rollplan.dev/restart-on"] {
	case "env":
		onlyEnv = true
	case "all":
		onlyEnv = false
	}
	return slices.ContainsFunc(usages, func(it string) bool { return isRead(it) && !(onlyEnv && it == asVolume) })
}

// replaces tells whether a restart replaces pods.
func (o options) replaces(w *workload) bool {
	return w.why == "" || o.reloader && (w.why == "job" || w.why == "next job")
}

// expected is the result for a workload.
type expected struct {
	result  string
	missing bool
}

// changes computes what a change does to the workloads. A workload that is not affected is absent.
func changes(old, new *reading, o options) map[identity]expected {
	results := map[identity]expected{}
	for id := range old.workloads {
		if new.workloads[id] == nil {
			results[id] = expected{result: "REMOVED"}
		}
	}
	for id, w := range new.workloads {
		uses := new.uses(id, w)
		missing := missingOf(uses)
		was := old.workloads[id]
		if was == nil {
			results[id] = expected{"ADDED", len(missing) > 0}
			continue
		}
		if !apiequality.Semantic.DeepEqual(was.template, w.template) {
			result := "REPLACED"
			if w.why != "" {
				result = "NOT_RESTARTED"
			}
			results[id] = expected{result, len(missing) > 0}
			continue
		}
		before := old.uses(id, w)
		wasMissing := missingOf(before)
		isListed, isRestarted, isNewlyMissing := false, false, false
		for c, key := range missing {
			isNewlyMissing = isNewlyMissing || wasMissing[c] != key
		}
		for c, usages := range usagesOf(uses, w, o) {
			isRead := func(it string) bool { return it != asNothing }
			changed := differs(before, uses, c, isRead) && wasMissing[c] == "" && missing[c] == ""
			isListed = isListed || changed
			oldConfig, newConfig := old.configs[identity{id.Namespace, c.Kind, c.Name}], new.configs[identity{id.Namespace, c.Kind, c.Name}]
			if o.reloader {
				exists := oldConfig != nil && newConfig != nil
				changed = exists && !(equalTexts(oldConfig.data, newConfig.data) && equalTexts(oldConfig.binary, newConfig.binary))
				isListed = isListed || changed && o.reacts(id, w, c.Kind, c.Name, usages)
			} else {
				// Only what counts.
				changed = changed && differs(before, uses, c, func(it string) bool { return o.reacts(id, w, c.Kind, c.Name, []string{it}) })
			}
			if changed && o.reacts(id, w, c.Kind, c.Name, usages) {
				isRestarted = true
			}
		}
		isRestarted = isRestarted && o.replaces(w) && (len(missing) == 0 || o.reloader)
		if isRestarted {
			results[id] = expected{"RESTARTED", len(missing) > 0}
		} else if isListed || isNewlyMissing {
			results[id] = expected{"NOT_RESTARTED", isNewlyMissing}
		}
	}
	return results
}

func equalTexts(a, b map[string]string) bool {
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// usagesOf returns the ways in which each configuration is used.
func usagesOf(uses []use, w *workload, o options) map[identity][]string {
	usages := map[identity][]string{}
	for _, it := range uses {
		c := identity{Kind: it.kind, Name: it.name}
		usages[c] = append(usages[c], it.usage)
	}
	if name := w.annotations["configmap.reloader.stakater.com/reload"]; o.reloader && name != "" {
		c := identity{Kind: "ConfigMap", Name: name}
		usages[c] = append(usages[c], asNothing)
	}
	return usages
}

// missingOf returns the configurations that prevent pods from starting, with the first missing key.
func missingOf(uses []use) map[identity]string {
	missing := map[identity]string{}
	for _, it := range uses {
		c := identity{Kind: it.kind, Name: it.name}
		if it.missing != "" && (missing[c] == "" || it.missing < missing[c]) {
			missing[c] = it.missing
		}
	}
	return missing
}

// differs tells whether one of these uses of a configuration reads other content, or whether it was created or deleted.
func differs(old, new []use, c identity, counts func(string) bool) bool {
	for i := range new {
		it := new[i]
		if it.kind == c.Kind && it.name == c.Name && counts(it.usage) && it.content != old[i].content {
			return true
		}
	}
	return false
}

// users returns the objects that name a configuration, as Kubernetes finds them.
func (r *reading) users(kind, name string) map[identity]bool {
	users := map[identity]bool{}
	for id, w := range r.workloads {
		pod := &corev1.Pod{Spec: w.template.Spec}
		visit := func(found string) bool {
			if found == name {
				users[id] = true
			}
			return true
		}
		if kind == "ConfigMap" {
			podutil.VisitPodConfigmapNames(pod, visit)
		} else {
			podutil.VisitPodSecretNames(pod, visit)
		}
	}
	return users
}
