package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// recording holds every change of the objects of one kind, in the order in which they were stored. Invariants that must
// hold at all times cannot be checked afterwards. The changes are read from etcd, because watches of the API server are
// lost when it is killed: clients then list again and miss the changes in between.
type recording[T any] struct {
	mu     sync.Mutex
	events []change[T]
}

// change is one version of an object.
type change[T any] struct {
	name   string
	object *T // nil if the object was deleted
}

func watchPods(ctx context.Context, t *testing.T, s *System, namespace string) *recording[corev1.Pod] {
	t.Helper()
	return record[corev1.Pod](ctx, t, s, "/registry/pods/"+namespace+"/")
}

func watchReplicaSets(ctx context.Context, t *testing.T, s *System, namespace string) *recording[appsv1.ReplicaSet] {
	t.Helper()
	return record[appsv1.ReplicaSet](ctx, t, s, "/registry/replicasets/"+namespace+"/")
}

func record[T any](ctx context.Context, t *testing.T, s *System, prefix string) *recording[T] {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Etcd()}, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	r := &recording[T]{}
	add := func(name string, value []byte) {
		var typed *T
		if value != nil {
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
			var ok bool
			if typed, ok = any(object).(*T); err != nil || !ok {
				t.Errorf("decode %s from etcd: %T: %v", name, object, err)
				return
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, change[T]{name, typed})
	}
	stored, err := etcd.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range stored.Kvs {
		add(string(kv.Key), kv.Value)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for response := range etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(stored.Header.Revision+1)) {
			if err := response.Err(); err != nil && ctx.Err() == nil {
				t.Errorf("watch %s: %v", prefix, err)
			}
			for _, event := range response.Events {
				add(string(event.Kv.Key), event.Kv.Value)
			}
		}
	})
	t.Cleanup(func() {
		_ = etcd.Close() // this ends the watch
		running.Wait()
	})
	return r
}

// mark returns the current position of the recording.
func (r *recording[T]) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// check replays the changes and fails the test if the condition does not hold after each of them.
func (r *recording[T]) check(t *testing.T, what string, holds func(map[string]*T) bool) {
	t.Helper()
	r.checkBetween(t, 0, r.mark(), what, holds)
}

// checkBetween is like check, but only for the changes between two marks.
func (r *recording[T]) checkBetween(t *testing.T, mark, end int, what string, holds func(map[string]*T) bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if end == mark {
		t.Errorf("%s: nothing was recorded", what)
	}
	objects := map[string]*T{}
	for i, event := range r.events[:end] {
		if event.object == nil {
			delete(objects, event.name)
		} else {
			objects[event.name] = event.object
		}
		if i >= mark && !holds(objects) {
			t.Errorf("%s: violated after change %d of %d, of %s; objects are %v", what, i, len(r.events), event.name, slices.Sorted(maps.Keys(objects)))
			return
		}
	}
}

// isAvailable reports whether a pod is available. Without minReadySeconds, it is as soon as it is ready.
func isAvailable(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// runCommand returns the exit code of a command and its stdout and stderr.
func runCommand(t *testing.T, cmd *exec.Cmd) (int, string, string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errOut, 10*time.Second
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err))
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}
