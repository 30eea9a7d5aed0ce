package rollplan

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// seen parses a version of an object, and passes it to the history.
func seen(t *testing.T, transform func(*Object), kind, version, fields string) *Object {
	t.Helper()
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":%q,`+
		`"creationTimestamp":"2026-01-01T00:00:00Z"%s`, kind, version, fields)
	o, err := ParseObject([]byte(text), Pod)
	if err != nil {
		t.Fatal(err)
	}
	transform(o)
	return o
}

func TestHistoryKeepsTheLastVersionOfAPodWithoutANode(t *testing.T) {
	t.Parallel()
	h := newHistory()
	for _, c := range []struct{ version, spec, want string }{
		{"5", `{}`, "5"},
		{"6", `{}`, "6"},
		{"8", `{"nodeName":"n"}`, "6"},
	} {
		pod := seen(t, h.pod, "Pod", c.version, `},"spec":`+c.spec+`}`)
		if found := annotation(pod, unscheduledVersion); found != c.want {
			t.Errorf("version %s: %q, want %q", c.version, found, c.want)
		}
		h.pod(pod) // again
		if found := annotation(pod, unscheduledVersion); found != c.want {
			t.Errorf("version %s: %q after it was trimmed again", c.version, found)
		}
	}
	h.forget(seen(t, func(*Object) {}, "Pod", "9", `}}`))
	pod := seen(t, h.pod, "Pod", "9", `},"spec":{"nodeName":"n"}}`)
	if found := annotation(pod, unscheduledVersion); found != "" {
		t.Errorf("a pod that was first seen on a node has version %q", found)
	}
}

func TestHistoryDistinguishesChangesOfDataFromOthers(t *testing.T) {
	t.Parallel()
	h := newHistory()
	write := func(version, data string, second int) *Object {
		return seen(t, h.configuration(Checksums{}), "ConfigMap", version, fmt.Sprintf(`,"managedFields":[{"manager":"m",`+
			`"time":"2026-01-01T00:00:%02dZ","fieldsV1":{"f:data":{"f:a":{}},"f:metadata":{"f:labels":{"f:l":{}}}}}]},"data":%s}`, second, data))
	}
	before := time.Now()
	for _, c := range []struct {
		version, data string
		second        int
		want          string
	}{
		{"5", `{"a":"1","b":"1"}`, 1, "00:00:01 true 5"},
		{"6", `{"a":"1","b":"1"}`, 2, "00:00:01 true 5"}, // another label
		{"7", `{"a":"2","b":"1"}`, 3, "00:00:03 false 7"},
		{"8", `{"a":"2","b":"1"}`, 4, "00:00:03 false 7"},
		{"8", `{"a":"2","b":"1"}`, 4, "00:00:03 false 7"}, // listed again
	} {
		summary := write(c.version, c.data, c.second).Configuration
		found := fmt.Sprint(summary.GetChangedAt().AsTime().Format(time.TimeOnly), " ", summary.GetChangeUncertain(), " ", summary.GetResourceVersion())
		if found != c.want {
			t.Errorf("version %s: %s, want %s", c.version, found, c.want)
		}
	}
	// No manager owns a removed key.
	removed := write("9", `{"a":"2"}`, 4).Configuration
	if at := removed.GetChangedAt().AsTime(); at.Before(before) || removed.GetChangeUncertain() || removed.GetResourceVersion() != 9 {
		t.Errorf("the removal of a key changed the data at %s: %v", at, removed)
	}
}

func TestOnlyWritesOfDataAreCertain(t *testing.T) {
	t.Parallel()
	const metadata = `"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}}}`
	for fields, isUncertain := range map[string]bool{
		`{"f:data":{}}`:                  false,
		`{"f:data":{},"f:type":{}}`:      false,
		`{"f:data":{},` + metadata + `}`: false,
		`{"f:data":{},"f:metadata":{}}`:  true,
		`{"f:data":{},"f:immutable":{}}`: true,
		`{"f:metadata":{"f:labels":{}}}`: true,
		strings.Replace(`{"f:data":{},`+metadata+`}`, `".":{}`, `".":{},"f:a":{}`, 1): true,
	} {
		o := seen(t, Checksums{}.summarize, "Secret", "1", `,"managedFields":[{"time":"2026-01-01T00:00:01Z","fieldsV1":`+fields+`}]}}`)
		if found := o.Configuration.GetChangeUncertain(); found != isUncertain {
			t.Errorf("%s: %t", fields, found)
		}
	}
}
