package rollplan

import (
	"encoding/json"
	"maps"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// conversion is the protobuf message of an object at one resourceVersion.
type conversion struct {
	version string // resourceVersion of the object
	message proto.Message
}

// convert returns the message of an object. It takes the message of the same version from previous if there is one, and
// stores the result in next.
func convert[T proto.Message](previous, next map[types.UID]conversion, object client.Object, message T) (T, error) {
	uid, version := object.GetUID(), object.GetResourceVersion()
	if known, ok := previous[uid]; ok && known.version == version {
		if same, ok := known.message.(T); ok {
			next[uid] = known
			return same, nil
		}
	}
	if err := fill(message, object); err != nil {
		return message, err
	}
	next[uid] = conversion{version: version, message: message}
	return message, nil
}

// fill decodes an object into its message by way of JSON, except for the template. The template makes up most of the
// object and can be converted directly.
func fill(message proto.Message, object client.Object) error {
	var content any = object
	var template map[string]any
	if o, ok := object.(*unstructured.Unstructured); ok {
		content, template = splitTemplate(o.Object)
	}
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, message); err != nil || template == nil {
		return err
	}
	converted, err := structpb.NewStruct(template)
	if err != nil {
		return err
	}
	switch m := message.(type) {
	case *rollplanv1.Deployment:
		m.Spec.Template = converted
	case *rollplanv1.ReplicaSet:
		m.Spec.Template = converted
	}
	return nil
}

// splitTemplate separates the template from the rest of an object and drops the managed fields, which the service does
// not read. It does not modify the object.
func splitTemplate(object map[string]any) (rest, template map[string]any) {
	rest = maps.Clone(object)
	if metadata, ok := rest["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		rest["metadata"] = metadata
	}
	if spec, ok := rest["spec"].(map[string]any); ok {
		if template, ok = spec["template"].(map[string]any); ok {
			spec = maps.Clone(spec)
			delete(spec, "template")
			rest["spec"] = spec
		}
	}
	return rest, template
}
