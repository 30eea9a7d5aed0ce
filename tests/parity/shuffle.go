package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"unicode/utf16"
)

// shufflingPlanner requests every plan twice: with the objects as kubectl prints them, and with random variants of the order
// of objects and keys, the nesting of Lists, white space and escapes. Both answers must have the same bytes.
type shufflingPlanner struct{ Planner }

func (p *shufflingPlanner) Plan(request []byte) ([]byte, error) {
	plain, err := p.Planner.Plan(request)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(plain, []byte(`{"error":`)) {
		return plain, nil // the paths of the fields differ
	}
	shuffled, err := shuffle(request)
	if err != nil {
		return nil, err
	}
	answer, err := p.Planner.Plan(shuffled)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(plain, answer) {
		text := js(fmt.Sprintf("the shuffled request has another answer: %s instead of %s", answer, plain))
		return []byte(`{"error":` + text + "}\n"), nil
	}
	return plain, nil
}

// shuffle rewrites the objects of a request. The result depends only on the request, so that a failure can be shrunk and
// replayed.
func shuffle(request []byte) ([]byte, error) {
	seed := fnv.New64a()
	seed.Write(request)
	r := rand.New(rand.NewPCG(seed.Sum64(), 0))
	shuffled := &Request{}
	if err := json.Unmarshal(request, shuffled); err != nil {
		return nil, err
	}
	var objects []any
	for _, text := range shuffled.Snapshot.Objects {
		o, err := generic(text)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	r.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	shuffled.Snapshot.Objects = nil
	for len(objects) > 0 {
		n := 1 + r.IntN(len(objects))
		list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects[:n]}
		if r.IntN(4) == 0 { // a List in a List
			list = map[string]any{"kind": "List", "items": []any{list}}
		}
		p := printer{r: r}
		p.print(list)
		shuffled.Snapshot.Objects = append(shuffled.Snapshot.Objects, p.text.String())
		objects = objects[n:]
	}
	return json.Marshal(shuffled)
}

// printer writes JSON with random order of keys, white space and escapes.
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
	default: // unchanged numbers, booleans and null
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
