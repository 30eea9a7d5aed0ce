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

// recording is every change of one kind of object, in the order in which they were stored: what must never happen cannot
// be seen afterwards. It is read from etcd, since an API server that was killed forgets its watches: clients list anew
// then, and see objects of different times beside each other.
type recording[T any] struct {
	mu     sync.Mutex
	events []change[T]
}

// change is one event of a watch.
type change[T any] struct {
	name   string
	object *T // nil when it was deleted
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
				t.Errorf("read %s from etcd: %T: %v", name, object, err)
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
				t.Errorf("watch of %s: %v", prefix, err)
			}
			for _, event := range response.Events {
				add(string(event.Kv.Key), event.Kv.Value)
			}
		}
	})
	t.Cleanup(func() {
		_ = etcd.Close() // ends the watch
		running.Wait()
	})
	return r
}

// mark is where the recording is now.
func (r *recording[T]) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// check replays the changes and holds the objects against the condition after each one.
func (r *recording[T]) check(t *testing.T, what string, holds func(map[string]*T) bool) {
	t.Helper()
	r.checkBetween(t, 0, r.mark(), what, holds)
}

// checkBetween is check from one mark to another.
func (r *recording[T]) checkBetween(t *testing.T, mark, end int, what string, holds func(map[string]*T) bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if end == mark {
		t.Errorf("%s: nothing has changed", what)
	}
	objects := map[string]*T{}
	for i, event := range r.events[:end] {
		if event.object == nil {
			delete(objects, event.name)
		} else {
			objects[event.name] = event.object
		}
		if i >= mark && !holds(objects) {
			t.Errorf("%s: not so after change %d of %d, of %s, when there were %v", what, i, len(r.events), event.name, slices.Sorted(maps.Keys(objects)))
			return
		}
	}
}

// isAvailable says whether a pod serves. Those of minReadySeconds 0 do as soon as they are ready.
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

// runCommand returns how a command ends and what it prints.
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
