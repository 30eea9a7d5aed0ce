package rollplan

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// codec decodes responses and watch events of the API server into [Object], [ObjectList] and Status. The serializers of
// client-go would parse each event five times, and keep it as nested maps.
type codec struct{}

// ObjectList is a list of objects.
type ObjectList struct {
	metav1.TypeMeta
	metav1.ListMeta
	// Items are the objects.
	Items []*Object
}

// DeepCopyObject implements [runtime.Object].
func (l *ObjectList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = nil
	for _, item := range l.Items {
		copied.Items = append(copied.Items, item.DeepCopyObject().(*Object))
	}
	return &copied
}

// negotiated is the codec as a client of the API server uses it.
var negotiated = runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{
	MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
	Serializer:       codec{},
	StreamSerializer: &runtime.StreamSerializerInfo{Serializer: codec{}, Framer: lines{}, EncodesAsText: true},
})

func (codec) Identifier() runtime.Identifier { return "rollplan" }

// Encode implements [runtime.Encoder]. It is never used, because the planner writes the JSON of all bodies.
func (codec) Encode(runtime.Object, io.Writer) error { return errors.New("objects cannot be encoded") }

// Decode implements [runtime.Decoder].
func (codec) Decode(text []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok {
		found := gjson.GetManyBytes(text, "type", "object")
		event.Type, event.Object.Raw = found[0].String(), []byte(found[1].Raw)
		return event, nil, nil
	}
	kind := schema.FromAPIVersionAndKind(gjson.GetBytes(text, "apiVersion").String(), gjson.GetBytes(text, "kind").String())
	switch {
	case kind.Kind == "Status":
		status := &metav1.Status{}
		return status, &kind, json.Unmarshal(text, status)
	case strings.HasSuffix(kind.Kind, "List"):
		list, err := parseList(text, kind)
		return list, &kind, err
	default:
		object, err := ParseObject(text, kind)
		return object, &kind, err
	}
}

func parseList(text []byte, kind schema.GroupVersionKind) (*ObjectList, error) {
	found := gjson.GetManyBytes(text, "metadata", "items")
	list := &ObjectList{}
	list.SetGroupVersionKind(kind)
	if found[0].Exists() {
		if err := json.Unmarshal([]byte(found[0].Raw), &list.ListMeta); err != nil {
			return nil, err
		}
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	var err error
	found[1].ForEach(func(_, item gjson.Result) bool {
		var object *Object
		if object, err = ParseObject([]byte(item.Raw), kind); err == nil {
			list.Items = append(list.Items, object)
		}
		return err == nil
	})
	return list, err
}

// lines splits a watch into events: the API server sends each one as a line of JSON.
type lines struct{}

func (lines) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &lineReader{Closer: r, reader: bufio.NewReaderSize(r, 32<<10)}
}

func (lines) NewFrameWriter(w io.Writer) io.Writer { return w }

// lineReader returns one line per call, or a part of it with [io.ErrShortBuffer] if the buffer is too small.
type lineReader struct {
	io.Closer
	reader *bufio.Reader
	// rest is the data that has been read but not returned, and err the error of that read.
	rest []byte
	err  error
}

func (l *lineReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(l.rest) == 0 {
			l.rest, l.err = l.reader.ReadSlice('\n')
			if l.err == io.EOF && n+len(l.rest) > 0 {
				l.err = io.ErrUnexpectedEOF // the event is incomplete
			}
			if l.err != nil && l.err != bufio.ErrBufferFull {
				return 0, l.err
			}
		}
		copied := copy(p[n:], l.rest)
		n, l.rest = n+copied, l.rest[copied:]
		if len(l.rest) == 0 && l.err == nil {
			return n, nil
		}
	}
	return n, io.ErrShortBuffer
}
