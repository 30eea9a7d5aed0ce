package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"
)

// workloadHistory is a StatefulSet or a DaemonSet with the ControllerRevisions of its namespace, and the target revision of a
// rollback.
type workloadHistory struct {
	kind       string
	object     runtime.Object
	revisions  []*appsv1.ControllerRevision
	toRevision int64
}

func newWorkloadHistory(g *rand.Rand) workloadHistory {
	h := workloadHistory{kind: []string{"StatefulSet", "DaemonSet"}[g.IntN(2)]}
	h.object = h.newObject(newTemplate(g))
	if g.IntN(2) == 0 {
		h.toRevision = g.Int64N(9)
	}
	for number := range g.IntN(7) {
		h.revisions = append(h.revisions, h.newRevision(g, number))
	}
	return h
}

// newObject returns an object of the kind, which has the same name and UID each time.
func (h workloadHistory) newObject(template corev1.PodTemplateSpec) runtime.Object {
	types := metav1.TypeMeta{APIVersion: "apps/v1", Kind: h.kind}
	meta := metav1.ObjectMeta{
		Name: "web", Namespace: "shop", UID: "web-uid", ResourceVersion: "100", Generation: 9,
		Annotations: map[string]string{"example.com/team": "a"},
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	if h.kind == "DaemonSet" {
		return &appsv1.DaemonSet{
			TypeMeta: types, ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
		}
	}
	replicas := int32(3)
	return &appsv1.StatefulSet{
		TypeMeta: types, ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector, Template: template, ServiceName: "web"},
	}
}

// newRevision returns a ControllerRevision as the controllers of Kubernetes write it.
func (h workloadHistory) newRevision(g *rand.Rand, number int) *appsv1.ControllerRevision {
	hash := fmt.Sprintf("h%d", number)
	revision := &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-" + hash, Namespace: "shop", UID: types.UID("revision-" + hash), ResourceVersion: strconv.Itoa(number + 1),
			Labels:            map[string]string{"app": "web", "controller-revision-hash": hash},
			Annotations:       map[string]string{"example.com/note": hash},
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, g.IntN(4), 0, 0, 0, time.UTC)),
		},
		Revision: int64(number + 1),
		Data:     runtime.RawExtension{Raw: templatePatch(h.newObject(newTemplate(g)))},
	}
	if g.IntN(12) == 0 {
		revision.Revision = g.Int64N(5)
	}
	if g.IntN(3) == 0 {
		revision.Annotations["kubernetes.io/change-cause"] = "kubectl set image web=" + hash
	}
	controls := true
	reference := metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: h.kind, Name: "web", UID: "web-uid", Controller: &controls,
	}
	switch g.IntN(12) {
	case 0: // no owner
	case 1:
		reference.UID = "another"
		revision.OwnerReferences = []metav1.OwnerReference{reference}
	case 2: // no longer selected
		revision.Labels["app"] = "other"
		revision.OwnerReferences = []metav1.OwnerReference{reference}
	default:
		revision.OwnerReferences = []metav1.OwnerReference{reference}
	}
	return revision
}

// templatePatch returns the strategic merge patch that restores the template of an object.
func templatePatch(object runtime.Object) []byte {
	var raw struct {
		Spec struct{ Template map[string]any }
	}
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &raw)
	}
	raw.Spec.Template["$patch"] = "replace"
	patch, failed := json.Marshal(map[string]any{"spec": map[string]any{"template": raw.Spec.Template}})
	if err = errors.Join(err, failed); err != nil {
		panic(err)
	}
	return patch
}

func (h workloadHistory) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: "apps", Kind: h.kind}
}

// clientset returns a fake API server with the object and its namespace, and a pointer to the patched object.
func (h workloadHistory) clientset() (*fake.Clientset, *runtime.Object) {
	var patched runtime.Object
	client := &fake.Clientset{}
	resource := strings.ToLower(h.kind) + "s"
	client.AddReactor("get", resource, func(testing.Action) (bool, runtime.Object, error) {
		return true, h.object.DeepCopyObject(), nil
	})
	client.AddReactor("list", "controllerrevisions", func(testing.Action) (bool, runtime.Object, error) {
		// The generated fake client applies the selector.
		list := &appsv1.ControllerRevisionList{}
		for _, revision := range h.revisions {
			list.Items = append(list.Items, *revision.DeepCopy())
		}
		return true, list, nil
	})
	client.AddReactor("patch", resource, func(action testing.Action) (bool, runtime.Object, error) {
		object, err := h.patch(action.(testing.PatchAction).GetPatch())
		patched = object
		return true, object, err
	})
	return client, &patched
}

// patch applies a strategic merge patch as the API server does.
func (h workloadHistory) patch(body []byte) (runtime.Object, error) {
	before, err := json.Marshal(h.object)
	if err != nil {
		return nil, err
	}
	object := h.newObject(corev1.PodTemplateSpec{})
	after, err := strategicpatch.StrategicMergePatch(before, body, object)
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(after, object)
}

// kubectlUndo runs `kubectl rollout undo`.
func (h workloadHistory) kubectlUndo() undone {
	client, patched := h.clientset()
	rollbacker, err := polymorphichelpers.RollbackerFor(h.groupKind(), client)
	if err != nil {
		return undone{err: err}
	}
	result, err := rollbacker.Rollback(h.object, nil, h.toRevision, cmdutil.DryRunNone)
	return undone{object: *patched, skipped: strings.HasPrefix(result, "skipped rollback"), err: err}
}

// kubectlHistory returns the table of `kubectl rollout history`.
func (h workloadHistory) kubectlHistory() ([]row, error) {
	client, _ := h.clientset()
	viewer, err := polymorphichelpers.HistoryViewerFor(h.groupKind(), client)
	if err != nil {
		return nil, err
	}
	return viewed(viewer, "shop", "web")
}

func (h workloadHistory) snapshot() (map[string]any, error) {
	items := []any{h.object}
	for _, revision := range h.revisions {
		items = append(items, revision)
	}
	snapshot, err := listed(items)
	snapshot["target"] = map[string]any{"apiVersion": "apps/v1", "kind": h.kind}
	return snapshot, err
}
