package rollplan

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

func TestConversionMatchesProtobufJSONMapping(t *testing.T) {
	for _, test := range []struct {
		what, text string
		object     client.Object
		message    proto.Message
	}{
		{what: "Deployment", message: &rollplanv1.Deployment{}, text: `{"apiVersion":"apps/v1","kind":"Deployment",
			"metadata":{"name":"web","uid":"u","resourceVersion":"1","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"kubectl"}],"labels":{"a":"b"}},
			"spec":{"replicas":3,"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},
				"template":{"metadata":{"creationTimestamp":null},"spec":{"future":{"list":[1,-2.5,"x",true,null,[],{}]},"containers":[{"name":"main","resources":{"limits":{"cpu":9007199254740993}}}]}}},
			"status":{"observedGeneration":3,"conditions":[{"type":"Available","status":"True","lastUpdateTime":"2026-01-01T00:00:01Z"}]}}`},
		{what: "ReplicaSet", message: &rollplanv1.ReplicaSet{}, text: `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","uid":"u"},
			"spec":{"replicas":0,"template":{"spec":{"containers":null}}},"status":{"replicas":2}}`},
		{what: "null template", message: &rollplanv1.ReplicaSet{}, text: `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1"},"spec":{"replicas":1,"template":null}}`},
		{what: "missing spec", message: &rollplanv1.ReplicaSet{}, text: `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":null}`},
		{what: "typed pod", message: &rollplanv1.Pod{}, object: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web-1-a", UID: "p", CreationTimestamp: metav1.Unix(1, 0)},
			Spec:       corev1.PodSpec{NodeName: "node"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", RestartCount: 2, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}},
		}, text: `{"metadata":{"name":"web-1-a","uid":"p","creationTimestamp":"1970-01-01T00:00:01Z"},"spec":{"nodeName":"node"},"status":{"phase":"Running","podIP":"10.0.0.1",
			"containerStatuses":[{"name":"main","restartCount":2,"lastState":{},"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`},
	} {
		t.Run(test.what, func(t *testing.T) {
			want := test.message.ProtoReflect().New().Interface()
			if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(test.text), want); err != nil {
				t.Fatal(err)
			}
			object := test.object
			if object == nil {
				object = parse(test.text)
			}
			original := object.DeepCopyObject()
			if err := fill(test.message, object); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(test.message, want) {
				t.Errorf("the message is\n%v, want\n%v", test.message, want)
			}
			if o, ok := object.(*unstructured.Unstructured); ok && !equality.Semantic.DeepEqual(o.Object, original.(*unstructured.Unstructured).Object) {
				t.Error("conversion has modified the object, which belongs to the cache")
			}
		})
	}
}
