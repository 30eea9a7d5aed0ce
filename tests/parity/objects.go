package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"unicode/utf16"
)

// objectsPlanner asks a planner for every plan twice: with typed fields, and with the same objects as Kubernetes JSON. Both
// answers must have the same bytes, whatever the order of objects and keys, white space and escapes.
type objectsPlanner struct{ Planner }

func (p *objectsPlanner) Plan(request []byte) ([]byte, error) {
	typed, err := p.Planner.Plan(request)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(typed, []byte(`{"error":`)) {
		return typed, nil // the paths of the fields differ
	}
	asObjects, err := objectsRequest(request)
	if err != nil {
		return nil, err
	}
	untyped, err := p.Planner.Plan(asObjects)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(typed, untyped) {
		text, err := json.Marshal(fmt.Sprintf("objects_json has another answer: %s instead of %s", untyped, typed))
		if err != nil {
			return nil, err
		}
		return append(append([]byte(`{"error":`), text...), "}\n"...), nil
	}
	return typed, nil
}

// objectsRequest moves the objects of a request into objects_json. The same request always gets the same texts, so that a
// failure can be shrunk and replayed.
func objectsRequest(request []byte) ([]byte, error) {
	seed := fnv.New64a()
	seed.Write(request)
	r := rand.New(rand.NewPCG(seed.Sum64(), 0))
	var generic map[string]any
	dec := json.NewDecoder(bytes.NewReader(request))
	dec.UseNumber()
	if err := dec.Decode(&generic); err != nil {
		return nil, err
	}
	snapshot := object(generic, "snapshot")
	deployment := object(snapshot, "deployment")
	setKind(deployment, "apps/v1", "Deployment")
	target := map[string]any{"name": object(deployment, "metadata")["name"]}
	if deployment["kind"] != "Deployment" {
		target["apiVersion"], target["kind"] = deployment["apiVersion"], deployment["kind"]
	}
	objects := []any{deployment}
	for _, list := range []struct{ field, apiVersion, kind string }{
		{"replicaSets", "apps/v1", "ReplicaSet"}, {"pods", "v1", "Pod"},
	} {
		items, _ := snapshot[list.field].([]any)
		for _, item := range items {
			setKind(item.(map[string]any), list.apiVersion, list.kind)
			objects = append(objects, item)
		}
		delete(snapshot, list.field)
	}
	delete(snapshot, "deployment")
	snapshot["target"] = target
	r.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	var texts [][]byte
	for len(objects) > 0 {
		n := 1 + r.IntN(len(objects))
		list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects[:n]}
		if r.IntN(4) == 0 { // a List in a List
			list = map[string]any{"kind": "List", "items": []any{list}}
		}
		p := printer{r: r}
		p.print(list)
		texts = append(texts, p.text.Bytes())
		objects = objects[n:]
	}
	snapshot["objectsJson"] = texts
	return json.Marshal(generic)
}

func setKind(o map[string]any, apiVersion, kind string) {
	if o["kind"] == nil || o["kind"] == "" {
		o["apiVersion"], o["kind"] = apiVersion, kind
	}
}

// printer writes JSON with keys in any order, with any white space, and with strings escaped or not.
type printer struct {
	r    *rand.Rand
	text bytes.Buffer
}

func (p *printer) print(value any) {
	p.space()
	switch v := value.(type) {
	case map[string]any:
		keys := sortedKeys(v)
		p.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		p.text.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				p.text.WriteByte(',')
			}
			p.print(k)
			p.text.WriteByte(':')
			p.print(v[k])
		}
		p.text.WriteByte('}')
	case []any:
		p.text.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				p.text.WriteByte(',')
			}
			p.print(item)
		}
		p.text.WriteByte(']')
	case string:
		p.string(v)
	default: // numbers as they came, booleans and null
		data, err := json.Marshal(v)
		must(err)
		p.text.Write(data)
	}
	p.space()
}

func (p *printer) space() {
	if p.r.IntN(4) == 0 {
		p.text.WriteString([]string{" ", "\n", "\t", "\r\n  "}[p.r.IntN(4)])
	}
}

func (p *printer) string(s string) {
	if p.r.IntN(4) > 0 {
		data, err := json.Marshal(s)
		must(err)
		p.text.Write(data)
		return
	}
	p.text.WriteByte('"')
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&p.text, `\u%04x`, unit)
	}
	p.text.WriteByte('"')
}
