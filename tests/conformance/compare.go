package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// decode reads JSON and keeps the digits of its numbers.
func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return value, nil
}

// difference returns where two values differ, or "". Numbers are compared exactly, the order of keys does not matter, and
// null is the same as absent.
func difference(path string, want, have any) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(want)
		maps.Copy(keys, have)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if found := difference(path+"."+key, want[key], have[key]); found != "" {
				return found
			}
		}
		return ""
	case []any:
		have, ok := have.([]any)
		if !ok || len(want) != len(have) {
			break
		}
		for i := range want {
			if found := difference(fmt.Sprintf("%s[%d]", path, i), want[i], have[i]); found != "" {
				return found
			}
		}
		return ""
	case json.Number:
		number, ok := have.(json.Number)
		if ok && sameNumber(want.String(), number.String()) {
			return ""
		}
	default:
		switch have.(type) {
		case map[string]any, []any, json.Number:
		default:
			if want == have {
				return ""
			}
		}
	}
	return fmt.Sprintf("%s is %s, want %s", path, show(have), show(want))
}

func sameNumber(a, b string) bool {
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	return okX && okY && x.Cmp(y) == 0
}

func show(value any) string {
	if value == nil {
		return "absent"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if len(text) > 300 {
		return string(text[:300]) + "…"
	}
	return string(text)
}

// essential is an object without the parts that adapters may omit: of the managedFields, all except who has written the status of a
// Deployment and when and, in a pod, everything except its metadata and its phase.
func essential(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	managed, _ := metadata["managedFields"].([]any)
	delete(metadata, "managedFields")
	writers := []any{}
	for _, entry := range managed {
		if entry, ok := entry.(map[string]any); ok && object["kind"] == "Deployment" && entry["subresource"] == "status" {
			writers = append(writers, map[string]any{"manager": entry["manager"], "time": entry["time"]})
		}
	}
	if len(writers) > 0 {
		metadata["managedFields"] = writers
	}
	if object["kind"] != "Pod" {
		return object
	}
	kept := map[string]any{}
	for _, key := range []string{"name", "namespace", "uid", "labels", "ownerReferences", "deletionTimestamp"} {
		kept[key] = metadata[key]
	}
	status, _ := object["status"].(map[string]any)
	return map[string]any{"kind": "Pod", "metadata": kept, "status": map[string]any{"phase": status["phase"]}}
}

// byUID decodes the objects of a request.
func byUID(entries []string) (map[string]map[string]any, error) {
	found := map[string]map[string]any{}
	for i, entry := range entries {
		value, err := decode([]byte(entry))
		if err != nil {
			return nil, fmt.Errorf("snapshot.objects[%d]: %w", i, err)
		}
		object, _ := value.(map[string]any)
		metadata, _ := object["metadata"].(map[string]any)
		uid, _ := metadata["uid"].(string)
		if uid == "" || found[uid] != nil {
			return nil, fmt.Errorf("snapshot.objects[%d] has no UID, or occurs twice: %s", i, show(value))
		}
		found[uid] = object
	}
	return found, nil
}

// sameObjects compares the objects of a request with those of the transcript. The request must have the required objects, may
// have others of the cache, and must have each object unchanged.
func (t *transcript) sameObjects(required, cache, entries []string) error {
	have, err := byUID(entries)
	if err != nil {
		return err
	}
	for _, key := range cache {
		expected := t.object(key)
		uid := expected["metadata"].(map[string]any)["uid"].(string)
		sent, ok := have[uid]
		delete(have, uid)
		if !ok && slices.Contains(required, key) {
			return fmt.Errorf("the request lacks %s", key)
		}
		if !ok {
			continue
		}
		if found := difference("", essential(expected), essential(sent)); found != "" {
			return fmt.Errorf("%s differs: %s", key, found)
		}
	}
	for _, object := range have {
		metadata := object["metadata"].(map[string]any)
		return fmt.Errorf("the request has %s %s, which is not in the cache", object["kind"], metadata["name"])
	}
	return nil
}

// object returns a copy of an object of the transcript.
func (t *transcript) object(key string) map[string]any {
	value, err := decode(t.Objects[key])
	if err != nil {
		panic(fmt.Sprintf("%s: object %q: %v", t.Name, key, err))
	}
	return value.(map[string]any)
}
