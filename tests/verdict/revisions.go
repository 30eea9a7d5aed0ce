package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"
)

// undone is the outcome of a rollback: the changed object, or the reason why it was not changed.
type undone struct {
	object  runtime.Object
	skipped bool
	err     error
}

// word is the kind of outcome.
func (u undone) word() string {
	switch {
	case u.err == nil && u.skipped:
		return "skipped"
	case u.err == nil:
		return "rolled back"
	}
	text := u.err.Error()
	for _, class := range []struct{ word, pattern string }{
		{"paused", "paused"},
		{"no earlier revision", "no rollout history found|no last revision to roll back to|no earlier revision"},
		{"no such revision", "unable to find specified revision|has no revision"},
		{"no annotations", "missing path: /metadata/annotations|/metadata/annotations.*(missing|does not exist)"},
	} {
		if regexp.MustCompile(class.pattern).MatchString(text) {
			return class.word
		}
	}
	return text
}

var deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// clientset returns a fake API server with one Deployment and its namespace, and a pointer to the patched Deployment.
func clientset(h history) (*fake.Clientset, *runtime.Object) {
	var patched runtime.Object
	client := &fake.Clientset{}
	client.AddReactor("get", "deployments", func(testing.Action) (bool, runtime.Object, error) {
		return true, h.deployment.DeepCopy(), nil
	})
	client.AddReactor("list", "replicasets", func(action testing.Action) (bool, runtime.Object, error) {
		// The generated fake client applies the selector.
		list := &appsv1.ReplicaSetList{}
		for _, set := range h.sets {
			list.Items = append(list.Items, *set.DeepCopy())
		}
		return true, list, nil
	})
	client.AddReactor("patch", "deployments", func(action testing.Action) (bool, runtime.Object, error) {
		object, err := h.patch(action.(testing.PatchAction).GetPatch())
		patched = object
		return true, object, err
	})
	return client, &patched
}

// patch applies a JSON patch as the API server does.
func (h history) patch(body []byte) (runtime.Object, error) {
	before, err := json.Marshal(h.deployment)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, err
	}
	object := &appsv1.Deployment{}
	return object, json.Unmarshal(after, object)
}

// kubectlUndo runs `kubectl rollout undo`.
func kubectlUndo(h history) undone {
	client, patched := clientset(h)
	rollbacker, err := polymorphichelpers.RollbackerFor(deployments, client)
	if err != nil {
		return undone{err: err}
	}
	result, err := rollbacker.Rollback(h.deployment, nil, h.toRevision, cmdutil.DryRunNone)
	return undone{object: *patched, skipped: strings.HasPrefix(result, "skipped rollback"), err: err}
}

// rollbackTarget is an object that can be rolled back.
type rollbackTarget interface {
	snapshot() (map[string]any, error)
	patch(body []byte) (runtime.Object, error)
}

// undo runs `rollplan undo`, whose patch must have this type.
func (p *planner) undo(h rollbackTarget, toRevision int64, patchType types.PatchType) undone {
	snapshot, err := h.snapshot()
	if err != nil {
		return undone{err: err}
	}
	request := map[string]any{"snapshot": snapshot, "toRevision": toRevision}
	var response struct {
		Steps []struct {
			Call struct{ Verb, ContentType, BodyJSON string }
		}
	}
	if err := p.call("Rollback", request, &response); err != nil {
		return undone{err: err}
	}
	switch len(response.Steps) {
	case 0:
		return undone{skipped: true}
	case 1:
	default:
		return undone{err: fmt.Errorf("%d steps", len(response.Steps))}
	}
	call := response.Steps[0].Call
	if call.ContentType != string(patchType) {
		return undone{err: errors.New("another type of patch: " + call.ContentType)}
	}
	object, err := h.patch([]byte(call.BodyJSON))
	return undone{object: object, err: err}
}

func (h history) snapshot() (map[string]any, error) {
	items := []any{h.deployment}
	for _, set := range h.sets {
		items = append(items, set)
	}
	return listed(items)
}

// listed returns a snapshot with all of these objects.
func listed(items []any) (map[string]any, error) {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	return map[string]any{
		"now": "2026-02-01T00:00:00Z", "objects": []string{string(text)}, "replicaSetsComplete": true, "podsComplete": true,
	}, err
}

// row is a row of a history: a revision and its change cause.
type row struct {
	revision int64
	cause    string
	// name is that of the ReplicaSet or ControllerRevision, which only rollplan prints.
	name string
}

// kubectlHistory returns the table of `kubectl rollout history`.
func kubectlHistory(h history) ([]row, error) {
	client, _ := clientset(h)
	viewer, err := polymorphichelpers.HistoryViewerFor(deployments, client)
	if err != nil {
		return nil, err
	}
	return viewed(viewer, h.deployment.Namespace, h.deployment.Name)
}

// viewed returns the table that kubectl prints about an object.
func viewed(viewer polymorphichelpers.HistoryViewer, namespace, name string) ([]row, error) {
	text, err := viewer.ViewHistory(namespace, name, 0)
	if err != nil || text == "No rollout history found." {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if head := strings.Fields(lines[0]); !slices.Equal(head, []string{"REVISION", "CHANGE-CAUSE"}) {
		return nil, fmt.Errorf("another table: %q", lines[0])
	}
	var rows []row
	for _, line := range lines[1:] {
		revision, cause, _ := strings.Cut(line, " ")
		number, err := strconv.ParseInt(revision, 10, 64)
		if err != nil {
			return nil, err
		}
		cause = strings.TrimSpace(cause)
		if cause == "<none>" {
			cause = ""
		}
		rows = append(rows, row{revision: number, cause: cause})
	}
	return rows, nil
}

// history returns the table of `rollplan history`.
func (p *planner) history(h rollbackTarget) ([]row, error) {
	snapshot, err := h.snapshot()
	if err != nil {
		return nil, err
	}
	var response struct {
		Revisions []struct {
			Revision           int64
			ChangeCause        string
			ReplicaSet         string
			ControllerRevision string
		}
	}
	if err := p.call("ListRevisions", map[string]any{"snapshot": snapshot}, &response); err != nil {
		return nil, err
	}
	var rows []row
	for _, revision := range response.Revisions {
		rows = append(rows, row{revision.Revision, revision.ChangeCause, revision.ReplicaSet + revision.ControllerRevision})
	}
	return rows, nil
}
