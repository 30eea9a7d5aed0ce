package rollplan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
)

// All fields other than managedFields must be unchanged. The planner needs those of a Deployment.
func TestObjectKeepsAllButManagedFields(t *testing.T) {
	const managed = `"managedFields":[{"manager":"a\"]}","fieldsV1":{"f:spec":{}}},{"manager":"b"}]`
	for _, metadata := range []string{
		`"name":"web",%s`, `%s,"name":"web"`, `"name":"web",%s,"uid":"u"`, ` "name" : "web" , %s , "uid" : "u" `, `"name":"web"`, "\n%s ,\n \"name\":\"web\"",
	} {
		text := `{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{` + strings.Replace(metadata, "%s", managed, 1) + `},
			"spec":{"replicas":9007199254740993,"template":{"future":{"managedFields":[1]}}}}`
		object, err := ParseObject([]byte(text), ReplicaSet)
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]any
		if err := errors.Join(unmarshalExactly(text, &want), unmarshalExactly(object.JSON, &got)); err != nil {
			t.Fatalf("%s: %v", object.JSON, err)
		}
		delete(want["metadata"].(map[string]any), "managedFields")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s became\n%s", text, object.JSON)
		}
	}
}

func unmarshalExactly(text string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func TestObjectHasItsMetadata(t *testing.T) {
	object, err := ParseObject([]byte(`{"metadata":{"name":"web-1","namespace":"shop","uid":"u","resourceVersion":"7","generation":3,
		"deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"a/b":"c\u0064"},"annotations":{"x":"y"},
		"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"o","controller":true}]},"spec":{"replicas":1}}`), ReplicaSet)
	if err != nil {
		t.Fatal(err)
	}
	if object.Name != "web-1" || object.Namespace != "shop" || object.UID != "u" || object.ResourceVersion != "7" || object.Generation != 3 ||
		object.DeletionTimestamp == nil || object.Labels["a/b"] != "cd" || controllerOf(object) != "o" || object.Kind != "ReplicaSet" {
		t.Errorf("object is %+v", object)
	}
	// Items of a list lack a kind, but the service needs it.
	if again, err := ParseObject([]byte(object.JSON), Pod); err != nil || again.Kind != "ReplicaSet" || again.APIVersion != "apps/v1" {
		t.Errorf("%s: %v", object.JSON, err)
	}
	for _, text := range []string{``, `{`, `[]`, `{"kind":"Pod"}`, `"metadata"`, `{"metadata":{"managedFields":[`, `{"metadata":{"managedFields":[1],`} {
		_, _ = ParseObject([]byte(text), Pod) // does not panic
	}
}

func TestPodsLoseTheirSpec(t *testing.T) {
	object, err := ParseObject([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"x":[{}]},"status":{"phase":"Running"}}`), Pod)
	if err != nil {
		t.Fatal(err)
	}
	object.withoutSpec()
	if got := object.JSON; got != `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{},"status":{"phase":"Running"}}` {
		t.Error(got)
	}
}

// A watch consists of lines of any length, which are received in parts of any size.
func TestWatchIsSplitIntoEvents(t *testing.T) {
	var text strings.Builder
	lengths := []int{1, 1000, 40_000, 100_000, 32<<10 - 67, 5}
	for _, length := range lengths {
		fmt.Fprintf(&text, `{"type":"ADDED","object":{"metadata":{"name":"%s"}}}`+"\n", strings.Repeat("x", length))
	}
	for what, reader := range map[string]io.Reader{
		"at once":      strings.NewReader(text.String()),
		"in halves":    iotest.HalfReader(strings.NewReader(text.String())),
		"one by one":   iotest.OneByteReader(strings.NewReader(text.String())),
		"with the end": iotest.DataErrReader(strings.NewReader(text.String())),
	} {
		decoder := streaming.NewDecoder(lines{}.NewFrameReader(io.NopCloser(reader)), codec{})
		for _, length := range lengths {
			var event metav1.WatchEvent
			if _, _, err := decoder.Decode(nil, &event); err != nil {
				t.Fatalf("%s: event of %d: %v", what, length, err)
			}
			object, err := ParseObject(event.Object.Raw, Pod)
			if err != nil || event.Type != "ADDED" || len(object.Name) != length {
				t.Errorf("%s: event of %d is %q, %v", what, length, event.Type, err)
			}
		}
		if _, _, err := decoder.Decode(nil, &metav1.WatchEvent{}); err != io.EOF {
			t.Errorf("%s: at the end: %v", what, err)
		}
	}
	// A truncated event is not an event.
	decoder := streaming.NewDecoder(lines{}.NewFrameReader(io.NopCloser(strings.NewReader(text.String()[:500]))), codec{})
	if _, _, err := decoder.Decode(nil, &metav1.WatchEvent{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := decoder.Decode(nil, &metav1.WatchEvent{}); err != io.ErrUnexpectedEOF {
		t.Errorf("a cut off event: %v", err)
	}
}

// BenchmarkParseObject decodes a ReplicaSet with a large template, like a watch.
func BenchmarkParseObject(b *testing.B) {
	var env []string
	for i := range 100 {
		env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"some value of about forty bytes, %d"}`, i, i))
	}
	text := []byte(`{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{"name":"web-1","namespace":"shop","uid":"u","managedFields":[{"fieldsV1":[` +
		strings.Join(env, ",") + `]}]},"spec":{"template":{"spec":{"containers":[{"env":[` + strings.Join(env, ",") + `]}]}}}}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ParseObject(text, ReplicaSet); err != nil {
			b.Fatal(err)
		}
	}
}
