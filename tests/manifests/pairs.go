package manifests

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is a manifest.
type object map[string]any

// at returns a map in an object, and creates it.
func (o object) at(path ...string) object {
	for _, key := range path {
		switch inner := o[key].(type) {
		case object:
			o = inner
		case map[string]any:
			o = inner
		default:
			created := object{}
			o[key] = created
			o = created
		}
	}
	return o
}

// copied returns a deep copy.
func copied(o object) object {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var copy object
	if err := json.Unmarshal(text, &copy); err != nil {
		panic(err)
	}
	return copy
}

// pairs generates pairs of manifests.
type pairs struct{ *rand.Rand }

func (p pairs) is(percent int) bool { return p.Intn(100) < percent }

func (p pairs) pick(of ...string) string { return of[p.Intn(len(of))] }

// Names and keys are few, so that references often match.
func (p pairs) configMap() string { return p.pick("app", "app", "features", "tls") }
func (p pairs) secret() string    { return p.pick("db", "db", "tls", "registry") }
func (p pairs) key() string       { return p.pick("HOST", "HOST", "PORT", "app.conf", "ca.crt") }
func (p pairs) value() string     { return p.pick("a", "b", "", "one\ntwo\n", "8080", "true") }

// optional sometimes makes a reference optional.
func (p pairs) optional(reference object) object {
	if p.is(25) {
		reference["optional"] = p.is(80)
	}
	return reference
}

func (p pairs) namespace() string { return p.pick("", "shop", "shop", "shop", "default") }

// configuration returns a ConfigMap or Secret.
func (p pairs) configuration() object {
	o := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": p.configMap()}}
	isSecret := p.is(45)
	if isSecret {
		o["kind"] = "Secret"
		o.at("metadata")["name"] = p.secret()
	}
	if namespace := p.namespace(); namespace != "" {
		o.at("metadata")["namespace"] = namespace
	}
	for range p.Intn(4) {
		p.set(o, p.key(), p.value())
	}
	return o
}

// set sets a key in one of the fields for data.
func (p pairs) set(o object, key, value string) {
	for _, field := range []string{"data", "stringData", "binaryData"} {
		delete(o.at(field), key)
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(value))
	isSecret := o["kind"] == "Secret"
	switch {
	case isSecret && p.is(40):
		o.at("stringData")[key] = value
	case isSecret && p.is(20) && len(encoded) > 4:
		// As `base64 -w 4` prints it.
		o.at("data")[key] = encoded[:4] + "\n" + encoded[4:] + "\n"
	case isSecret:
		o.at("data")[key] = encoded
	case key == "ca.crt":
		o.at("binaryData")[key] = encoded
	default:
		o.at("data")[key] = value
	}
	for _, field := range []string{"data", "stringData", "binaryData"} {
		if len(o.at(field)) == 0 {
			delete(o, field)
		}
	}
}

func (p pairs) container(name string, volumes []string) object {
	c := object{"name": name, "image": p.pick("web:1", "web:2")}
	var env, envFrom, mounts []any
	for i := range p.Intn(3) {
		variable := object{"name": fmt.Sprint("V", i)}
		switch p.Intn(4) {
		case 0:
			variable["value"] = p.value()
		case 1:
			variable.at("valueFrom")["secretKeyRef"] = p.optional(object{"name": p.secret(), "key": p.key()})
		default:
			variable.at("valueFrom")["configMapKeyRef"] = p.optional(object{"name": p.configMap(), "key": p.key()})
		}
		env = append(env, variable)
	}
	if p.is(35) {
		source := object{}
		if p.is(50) {
			source["configMapRef"] = p.optional(object{"name": p.configMap()})
		} else {
			source["secretRef"] = p.optional(object{"name": p.secret()})
		}
		if p.is(20) {
			source["prefix"] = "APP_"
		}
		envFrom = append(envFrom, source)
	}
	for _, volume := range volumes {
		for range p.Intn(3) {
			mount := object{"name": volume, "mountPath": fmt.Sprint("/mnt/", len(mounts))}
			switch p.Intn(6) {
			case 0, 1:
				mount["subPath"] = p.pick(p.key(), "./"+p.key(), ".", "dir", "dir/"+p.key(), "dir/app.conf/more", "none", p.key()+"/")
			case 2:
				mount["subPathExpr"] = "$(V0)"
			}
			mounts = append(mounts, mount)
		}
	}
	for field, list := range map[string][]any{"env": env, "envFrom": envFrom, "volumeMounts": mounts} {
		if len(list) > 0 {
			c[field] = list
		}
	}
	if p.is(30) {
		c.at("resources", "requests")["cpu"] = p.pick("1", "250m")
	}
	return c
}

// items sometimes returns a selection of keys, with their paths.
func (p pairs) items(source object) object {
	if p.is(60) {
		return source
	}
	var items []any
	for _, path := range []string{"HOST", "dir/app.conf", "dir/ca.crt", "./deep//HOST"}[:1+p.Intn(4)] {
		items = append(items, object{"key": p.key(), "path": path})
	}
	source["items"] = items
	return source
}

func (p pairs) volume(name string) object {
	v := object{"name": name}
	switch p.Intn(8) {
	case 0, 1, 2:
		v["configMap"] = p.optional(p.items(object{"name": p.configMap()}))
	case 3, 4:
		v["secret"] = p.optional(p.items(object{"secretName": p.secret()}))
	case 5:
		v.at("projected")["sources"] = []any{
			object{"configMap": p.optional(p.items(object{"name": p.configMap()}))},
			object{"secret": p.optional(p.items(object{"name": p.secret()}))},
		}
	case 6:
		v["csi"] = object{"driver": "csi.example.com", "nodePublishSecretRef": object{"name": p.secret()}}
	default:
		v["emptyDir"] = object{}
	}
	return v
}

func (p pairs) template(isJob bool) object {
	t := object{"metadata": object{"labels": object{"app": "web"}}}
	spec := t.at("spec")
	var names []string
	var volumes []any
	for i := range p.Intn(4) {
		name := fmt.Sprint("vol", i)
		names = append(names, name)
		volumes = append(volumes, p.volume(name))
	}
	if len(volumes) > 0 {
		spec["volumes"] = volumes
	}
	spec["containers"] = []any{p.container("main", names)}
	if p.is(20) {
		spec["containers"] = []any{p.container("main", names), p.container("proxy", names)}
	}
	if p.is(20) {
		spec["initContainers"] = []any{p.container("init", names)}
	}
	if p.is(15) {
		spec["imagePullSecrets"] = []any{object{"name": p.secret()}}
	}
	if isJob {
		spec["restartPolicy"] = "Never"
	}
	return t
}

// template returns the pod template of a workload.
func template(o object) object {
	if o["kind"] == "CronJob" {
		return o.at("spec", "jobTemplate", "spec", "template")
	}
	return o.at("spec", "template")
}

func (p pairs) workload(name string) object {
	kind := p.pick("Deployment", "Deployment", "Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet")
	o := object{"apiVersion": "apps/v1", "kind": kind, "metadata": object{"name": name}}
	if namespace := p.namespace(); namespace != "" {
		o.at("metadata")["namespace"] = namespace
	}
	spec := o.at("spec")
	t := p.template(kind == "Job" || kind == "CronJob")
	switch kind {
	case "Job":
		o["apiVersion"] = "batch/v1"
	case "CronJob":
		o["apiVersion"] = "batch/v1"
		spec["schedule"] = "0 * * * *"
		spec.at("jobTemplate", "spec")["template"] = t
		t = nil
	default:
		spec.at("selector", "matchLabels")["app"] = "web"
	}
	if t != nil {
		spec["template"] = t
	}
	p.strategy(o)
	annotations := object{}
	if p.is(60) {
		annotations["rollplan.dev/restart"] = p.pick("enabled", "enabled", "enabled", "disabled")
	}
	if p.is(10) {
		annotations["rollplan.dev/restart-on"] = p.pick("env", "all")
	}
	if p.is(10) {
		annotations["rollplan.dev/restart-ignore"] = "configmap/" + p.configMap() + ", secret/" + p.secret()
	}
	if p.is(50) {
		annotations["reloader.stakater.com/auto"] = "true"
	}
	if p.is(10) {
		annotations["configmap.reloader.stakater.com/reload"] = p.configMap()
	}
	if len(annotations) > 0 {
		o.at("metadata")["annotations"] = annotations
	}
	return o
}

// strategy sets fields that decide whether pods are replaced.
func (p pairs) strategy(o object) {
	kind, spec := o["kind"], o.at("spec")
	if p.is(40) && (kind == "Deployment" || kind == "StatefulSet") {
		spec["replicas"] = p.Intn(4)
	}
	if p.is(15) && kind == "Deployment" {
		spec["paused"] = p.is(70)
	}
	if p.is(25) && kind == "StatefulSet" {
		spec.at("updateStrategy", "rollingUpdate")["partition"] = p.Intn(4)
	}
	if p.is(20) && (kind == "StatefulSet" || kind == "DaemonSet") {
		spec["updateStrategy"] = object{"type": "OnDelete"}
	}
}

// bystander returns an object that is neither a workload with a controller of Kubernetes nor a configuration.
func (p pairs) bystander(name string) object {
	if p.is(50) {
		return object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": name, "namespace": "shop"},
			"spec": object{"ports": []any{object{"port": 80}}}}
	}
	t := p.template(false)
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "namespace": "shop"}, "spec": t["spec"]}
}

// pair returns manifests before and after a change.
func (p pairs) pair() (old, new []object) {
	known := map[string]bool{}
	add := func(o object) {
		id := fmt.Sprint(idOf(o))
		if !known[id] {
			known[id] = true
			old = append(old, o)
		}
	}
	for range 3 + p.Intn(4) {
		add(p.configuration())
	}
	for i := range 1 + p.Intn(4) {
		add(p.workload(fmt.Sprint("w", i)))
	}
	if p.is(30) {
		add(p.bystander("b"))
	}
	for _, o := range old {
		new = append(new, copied(o))
	}
	for range 1 + p.Intn(4) {
		old, new = p.change(old, new)
	}
	p.Shuffle(len(old), func(i, j int) { old[i], old[j] = old[j], old[i] })
	p.Shuffle(len(new), func(i, j int) { new[i], new[j] = new[j], new[i] })
	return old, new
}

// change makes one change in the new manifests.
func (p pairs) change(old, new []object) ([]object, []object) {
	if len(new) == 0 {
		return old, new
	}
	i := p.Intn(len(new))
	if p.is(4) { // added
		for j := range old {
			if idOf(old[j]) == idOf(new[i]) {
				return append(old[:j:j], old[j+1:]...), new
			}
		}
	}
	if p.is(5) { // removed
		return old, append(new[:i:i], new[i+1:]...)
	}
	o := new[i]
	switch o["kind"] {
	case "ConfigMap", "Secret":
		p.changeConfiguration(o)
	case "Service":
	case "Pod":
		p.changeTemplate(object{"spec": o["spec"]})
	default:
		switch {
		case p.is(15):
			p.strategy(o)
		case p.is(15):
			o.at("metadata", "labels")["team"] = "a"
		case p.is(15) && o["kind"] != "CronJob":
			// Defaults of the workload are not a change of its template.
			o.at("spec")["revisionHistoryLimit"] = 10
		default:
			p.changeTemplate(template(o))
		}
	}
	return old, new
}

func (p pairs) changeConfiguration(o object) {
	keys := []string{}
	for _, field := range []string{"data", "binaryData", "stringData"} {
		if values, isMap := o[field].(map[string]any); isMap {
			for key := range values {
				keys = append(keys, key)
			}
		}
	}
	sortStrings(keys)
	switch {
	case p.is(10):
		o.at("metadata", "labels")["team"] = "a"
	case p.is(15) && len(keys) > 0: // removed
		key := keys[p.Intn(len(keys))]
		for _, field := range []string{"data", "binaryData", "stringData"} {
			if values, isMap := o[field].(map[string]any); isMap {
				delete(values, key)
			}
		}
	case p.is(30) && len(keys) > 0: // the same value in another notation
		key := keys[p.Intn(len(keys))]
		p.set(o, key, valueOf(o, key))
	case len(keys) > 0 && p.is(70):
		p.set(o, keys[p.Intn(len(keys))], p.value())
	default:
		p.set(o, p.key(), p.value())
	}
}

// valueOf returns the value of a key in the manifest of a configuration.
func valueOf(o object, key string) string {
	for _, field := range []string{"stringData", "data", "binaryData"} {
		values, isMap := o[field].(map[string]any)
		text, isText := values[key].(string)
		if !isMap || !isText {
			continue
		}
		if field == "stringData" || field == "data" && o["kind"] == "ConfigMap" {
			return text
		}
		decoded, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
		if err != nil {
			panic(err)
		}
		return string(decoded)
	}
	return ""
}

func (p pairs) changeTemplate(t object) {
	spec := t.at("spec")
	containers := spec["containers"].([]any)
	c := object(containers[p.Intn(len(containers))].(map[string]any))
	if p.is(50) { // another notation of the same template
		switch p.Intn(8) {
		case 0:
			c["resources"] = object{}
			if p.is(50) {
				c["resources"] = nil
			}
		case 1:
			c.at("resources", "limits")["memory"] = "1Gi"
			c.at("resources", "limits")["memory"] = "1024Mi"
		case 2:
			spec["terminationGracePeriodSeconds"] = 30
			spec["dnsPolicy"] = "ClusterFirst"
		case 3:
			c["terminationMessagePath"] = "/dev/termination-log"
			c["terminationMessagePolicy"] = "File"
		case 4:
			c["imagePullPolicy"] = "IfNotPresent"
		case 5:
			spec["securityContext"] = object{}
			c["securityContext"] = nil
		case 6:
			c["args"] = []any{}
			spec["nodeSelector"] = object{}
			spec["hostNetwork"] = false
		default:
			if requests, isMap := c.at("resources")["requests"].(map[string]any); isMap && requests["cpu"] == "1" {
				requests["cpu"] = p.pick("1000m", "1.0", "1e0")
			}
			if len(c.at("resources")) == 0 {
				delete(c, "resources")
			}
		}
		return
	}
	switch p.Intn(5) {
	case 0:
		c["image"] = p.pick("web:1", "web:2", "web:3")
	case 1:
		t.at("metadata", "annotations")["checksum/config"] = p.pick("1", "2")
	case 2:
		env, _ := c["env"].([]any)
		c["env"] = append(env, object{"name": "MORE", "value": p.value()})
	case 3:
		spec["terminationGracePeriodSeconds"] = 30 + p.Intn(2)
	default:
		envFrom, _ := c["envFrom"].([]any)
		c["envFrom"] = append(envFrom, object{"configMapRef": object{"name": p.configMap()}})
	}
}

// text writes manifests as a file, in one of the notations.
func (p pairs) text(objects []object) string {
	if p.is(20) {
		text, err := json.MarshalIndent(object{"apiVersion": "v1", "kind": "List", "items": objects}, "", "  ")
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	var b strings.Builder
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			panic(err)
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.String()
}
