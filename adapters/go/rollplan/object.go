package rollplan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// Object is a Kubernetes object of any kind. Only the metadata that identifies it is decoded. The service receives its JSON
// unchanged, so no field is lost or changed.
type Object struct {
	metav1.TypeMeta
	// ObjectMeta has no annotations, except those of a bookmark, and no managed fields.
	metav1.ObjectMeta
	// JSON is the object. Only a [Deployment] has its managed fields, because the planner detects the native Deployment controller
	// by them. In a cache of [NewRestartCache] it is trimmed to the input of restart
	// plans, and empty for configurations.
	JSON string
	// Configuration is the summary of a configuration in a cache of [NewRestartCache].
	Configuration *rollplanv1.Configuration
	// dataWrite is the time of the latest write of a configuration that may have changed its data, and lastWrite of any write, by
	// the clock of the API server.
	dataWrite, lastWrite time.Time
	// dataWriteUncertain is whether the write may have changed something else only.
	dataWriteUncertain bool
}

// DeepCopyObject implements [runtime.Object]. Objects are immutable, apart from their metadata.
func (o *Object) DeepCopyObject() runtime.Object {
	copied := *o
	o.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// GVK returns the kind of the object.
func (o *Object) GVK() schema.GroupVersionKind { return o.GroupVersionKind() }

// ParseObject decodes the metadata of an object. Items of a list lack a kind, and get the given one.
func ParseObject(text []byte, kind schema.GroupVersionKind) (*Object, error) {
	// gjson returns substrings. They must be cloned, or they would keep the whole text in memory.
	root := gjson.Parse(string(text))
	o := &Object{}
	var metadata gjson.Result
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.String() {
		case "apiVersion":
			o.APIVersion = strings.Clone(value.String())
		case "kind":
			o.Kind = strings.Clone(value.String())
		case "metadata":
			metadata = value
		}
		return true
	})
	if !metadata.IsObject() {
		return nil, errors.New("not a Kubernetes object: missing metadata")
	}
	if o.Kind != "" {
		kind = o.GVK()
	}
	managedFields := o.decodeMetadata(metadata, kind)
	o.JSON = root.Raw[:managedFields.start] + root.Raw[managedFields.end:]
	if o.Kind == "" {
		o.SetGroupVersionKind(kind)
		o.JSON = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s`, o.APIVersion, o.Kind, o.JSON[1:])
	}
	return o, nil
}

// span is a part of a text.
type span struct{ start, end int }

// decodeMetadata decodes the metadata, and returns the position of the managed fields in the text, including the comma after
// or before them.
func (o *Object) decodeMetadata(metadata gjson.Result, kind schema.GroupVersionKind) (managedFields span) {
	last := metadata.Index + 1 // behind the value before the managed fields
	metadata.ForEach(func(key, value gjson.Result) bool {
		switch key.String() {
		case "name":
			o.Name = strings.Clone(value.String())
		case "namespace":
			o.Namespace = strings.Clone(value.String())
		case "uid":
			o.UID = types.UID(strings.Clone(value.String()))
		case "resourceVersion":
			o.ResourceVersion = strings.Clone(value.String())
		case "generation":
			o.Generation = value.Int()
		case "deletionTimestamp":
			if at, err := time.Parse(time.RFC3339, value.String()); err == nil {
				o.DeletionTimestamp = &metav1.Time{Time: at}
			}
		case "labels":
			o.Labels = stringMap(value)
		case "annotations":
			if value.Get(gjson.Escape(metav1.InitialEventsAnnotationKey)).Exists() {
				o.Annotations = stringMap(value)
			}
		case "ownerReferences":
			_ = json.Unmarshal([]byte(value.Raw), &o.OwnerReferences) // from the API server, which has validated them
		case "managedFields":
			if kind != Deployment {
				o.readDataWrites(kind, value)
				managedFields = span{last, value.Index + len(value.Raw)}
				return true
			}
		}
		last = value.Index + len(value.Raw)
		return true
	})
	if managedFields.start == metadata.Index+1 && managedFields.end > 0 && last > managedFields.end {
		managedFields.end += strings.IndexByte(metadata.Raw[managedFields.end-metadata.Index:], ',') + 1
	}
	return managedFields
}

func stringMap(value gjson.Result) map[string]string {
	found := map[string]string{}
	value.ForEach(func(key, value gjson.Result) bool {
		found[strings.Clone(key.String())] = strings.Clone(value.String())
		return true
	})
	return found
}

// field returns the value of a field, by its path in gjson's syntax. It may be a part of the JSON, and keep all of it in memory.
func (o *Object) field(path string) gjson.Result { return gjson.Get(o.JSON, path) }

// withoutSpec drops the spec, the largest part of a pod, which the service does not need.
func (o *Object) withoutSpec() {
	if spec := o.field("spec"); spec.Index > 0 {
		o.JSON = o.JSON[:spec.Index] + "{}" + o.JSON[spec.Index+len(spec.Raw):]
	}
}

// Selects reports whether the selector of a Deployment matches an object. An empty selector matches nothing.
func Selects(owner, object *Object) bool {
	var labelSelector *metav1.LabelSelector
	if err := json.Unmarshal([]byte(owner.field("spec.selector").Raw), &labelSelector); err != nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(labelSelector)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(object.Labels))
}

// controllerOf returns the UID of the controller of an object, or [NoController].
func controllerOf(object *Object) types.UID {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return owner.UID
	}
	return NoController
}
