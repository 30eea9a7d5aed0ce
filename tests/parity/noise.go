package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// forPlanner returns the request for our planner: without the fields that are not part of the contract, and with noise.
func (w *World) forPlanner(horizon string, failures []StepAnswer) ([]byte, error) {
	r := w.Request(horizon)
	r.World = nil
	r.Snapshot.Answers = failures
	if w.Noise != 0 {
		n := &noise{rand.New(rand.NewPCG(w.Noise, 0))}
		for i, text := range r.Snapshot.Objects[:1+len(w.ReplicaSets)] { // those with a template
			o, err := generic(text)
			if err != nil {
				return nil, err
			}
			n.template(o["spec"].(map[string]any)["template"].(map[string]any))
			r.Snapshot.Objects[i] = js(o)
		}
	}
	return json.Marshal(r)
}

// generic decodes an object. Numbers keep their digits.
func generic(text string) (o map[string]any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	return o, dec.Decode(&o)
}

// noise changes the JSON of a template in ways that do not change its meaning: it adds zero values, empty lists and maps,
// and nulls where they equal an absent field in Go. The API server returns few of them, but other clients may send them.
type noise struct{ r *rand.Rand }

func (n *noise) template(t map[string]any) {
	n.fill(object(t, "metadata"), map[string]any{"annotations": map[string]any{}, "name": "", "generateName": "", "finalizers": []any{}, "creationTimestamp": nil, "ownerReferences": []any{}})
	spec := object(t, "spec")
	n.fill(spec, map[string]any{
		"nodeSelector": map[string]any{}, "volumes": []any{}, "tolerations": []any{}, "imagePullSecrets": []any{},
		"hostNetwork": false, "hostPID": false, "hostname": "", "nodeName": "", "initContainers": []any{},
		"hostAliases": []any{}, "readinessGates": []any{}, "topologySpreadConstraints": []any{}, "priorityClassName": "",
		"overhead": map[string]any{}, "affinity": nil, "automountServiceAccountToken": nil, "ephemeralContainers": nil,
	})
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			c := c.(map[string]any)
			n.fill(c, map[string]any{
				"env": []any{}, "envFrom": []any{}, "ports": []any{}, "volumeMounts": []any{}, "command": []any{}, "args": []any{},
				"workingDir": "", "stdin": false, "tty": false, "lifecycle": nil, "securityContext": nil, "resizePolicy": []any{},
			})
			if resources, ok := c["resources"].(map[string]any); ok {
				if len(resources) == 0 && n.r.IntN(2) == 0 {
					delete(c, "resources")
				} else {
					n.fill(resources, map[string]any{"limits": map[string]any{}, "requests": map[string]any{}, "claims": []any{}})
				}
			}
			env, _ := c["env"].([]any)
			for _, e := range env {
				n.fill(e.(map[string]any), map[string]any{"value": "", "valueFrom": nil})
			}
			ports, _ := c["ports"].([]any)
			for _, p := range ports {
				n.fill(p.(map[string]any), map[string]any{"name": "", "hostPort": 0, "hostIP": ""})
			}
		}
	}
}

// fill adds some of the given fields if they are absent, with null instead of some of the empty lists and maps.
func (n *noise) fill(m map[string]any, with map[string]any) {
	for _, k := range sortedKeys(with) {
		if _, there := m[k]; there || n.r.IntN(3) > 0 {
			continue
		}
		v := with[k]
		switch v.(type) {
		case map[string]any, []any:
			if n.r.IntN(3) == 0 {
				v = nil
			}
		}
		m[k] = v
	}
}

func object(m map[string]any, k string) map[string]any {
	o, ok := m[k].(map[string]any)
	if !ok {
		o = map[string]any{}
		m[k] = o
	}
	return o
}
