// Command conformance is the driver of tests/conformance for the client library: on command, it runs one sync of one
// Deployment. tests/conformance/README.md describes its commands.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"rollplan.dev/rollplan/adapters/go/planner"
	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// command is a line of standard input.
type command struct {
	Command string `json:"command"`
	API     string `json:"api"`
	Planner string `json:"planner"`
	Owner   struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
	} `json:"owner"`
	Options          json.RawMessage `json:"options"`
	StatusIntervalMs int64           `json:"statusIntervalMs"`
	MinIntervalMs    int64           `json:"minIntervalMs"`
	PlannerTimeoutMs int64           `json:"plannerTimeoutMs"`
	Cache            []string        `json:"cache"`
	Request          json.RawMessage `json:"request"`
	Syncs            int             `json:"syncs"`
}

// reply is a line of standard output.
type reply struct {
	Outcome        string  `json:"outcome,omitempty"`
	RequeueAfterMs int64   `json:"requeueAfterMs,omitempty"`
	NotBeforeMs    int64   `json:"notBeforeMs,omitempty"`
	Events         []event `json:"events,omitempty"`
	Error          string  `json:"error,omitempty"`
}

type event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var current *driver
	var syncs sync.WaitGroup
	defer syncs.Wait()
	encoder := json.NewEncoder(out)
	cancel := func() {}
	defer func() { cancel() }()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		switch c.Command {
		case "cancel":
			cancel()
			continue
		case "start":
			syncs.Wait()
			started, err := start(c)
			if err != nil {
				return err
			}
			current = started
			if err := encoder.Encode(reply{}); err != nil {
				return err
			}
		case "sync":
			syncs.Wait()
			ctx, stop := context.WithCancel(context.Background())
			cancel = stop
			// In the background, because it may be canceled.
			syncs.Go(func() {
				if err := encoder.Encode(current.sync(ctx, c.Cache)); err != nil {
					fmt.Fprintln(os.Stderr, "conformance:", err)
				}
			})
		case "canary":
			syncs.Wait()
			if err := encoder.Encode(current.canary(context.Background(), c.Cache, c.Request)); err != nil {
				return err
			}
		case "repeat":
			syncs.Wait()
			if err := encoder.Encode(current.repeat(c.Syncs)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown command %q", c.Command)
		}
	}
	return lines.Err()
}

// driver is an adapter of one Deployment.
type driver struct {
	rollouts *rollplan.Rollouts
	key      types.NamespacedName
	events   events
	// texts are the objects of the last sync.
	texts []string
}

func start(c command) (*driver, error) {
	options := &rollplanv1.PlanOptions{}
	if len(c.Options) > 0 {
		if err := protojson.Unmarshal(c.Options, options); err != nil {
			return nil, err
		}
	}
	timeout := planner.DefaultTimeout
	if c.PlannerTimeoutMs > 0 {
		timeout = millis(c.PlannerTimeoutMs)
	}
	service, err := planner.NewClient(strings.TrimPrefix(c.Planner, "http://"), timeout, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	api, err := rollplan.NewAPI(&rest.Config{Host: c.API, QPS: -1}, &http.Client{Transport: &http.Transport{}})
	if err != nil {
		return nil, err
	}
	d := &driver{key: types.NamespacedName{Namespace: c.Owner.Namespace, Name: c.Owner.Name}}
	d.rollouts = &rollplan.Rollouts{
		Kind: schema.FromAPIVersionAndKind(c.Owner.APIVersion, c.Owner.Kind), Planner: service, API: api, Recorder: &d.events, Options: options,
		StatusInterval: millis(c.StatusIntervalMs), MinInterval: millis(c.MinIntervalMs),
	}
	return d, nil
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// repeat decodes the objects of the last sync again, and syncs. Without its state, the library plans although nothing has
// changed.
func (d *driver) repeat(syncs int) reply {
	for range syncs {
		d.rollouts.Forget(d.key)
		if r := d.sync(context.Background(), d.texts); r.Outcome != "done" {
			return r
		}
	}
	return reply{}
}

// show replaces the objects that the watches show.
func (d *driver) show(texts []string) error {
	d.events.recorded, d.texts = nil, texts
	shown := cache{}
	for _, text := range texts {
		object, err := rollplan.ParseObject([]byte(text), schema.GroupVersionKind{})
		if err != nil {
			return err
		}
		shown = append(shown, object)
	}
	d.rollouts.Reader = shown
	return nil
}

// canary plans a canary and makes the calls of the plan.
func (d *driver) canary(ctx context.Context, texts []string, text json.RawMessage) reply {
	request := &rollplanv1.PlanCanaryRequest{}
	if err := errors.Join(d.show(texts), protojson.Unmarshal(text, request)); err != nil {
		return reply{Outcome: "failed", Error: err.Error()}
	}
	response, err := d.rollouts.PlanCanary(ctx, d.key, request)
	if err != nil {
		return reply{Outcome: "failed", Error: err.Error()}
	}
	r := reply{Outcome: "done", RequeueAfterMs: response.GetRequeueAfter().AsDuration().Milliseconds()}
	if err := d.rollouts.Apply(ctx, d.key, response.GetSteps()); err != nil {
		r.Outcome, r.Error = "again", err.Error()
	}
	r.Events = d.events.recorded
	return r
}

func (d *driver) sync(ctx context.Context, texts []string) reply {
	if err := d.show(texts); err != nil {
		return reply{Outcome: "failed", Error: err.Error()}
	}
	result, err := d.rollouts.Sync(ctx, d.key)
	r := reply{Events: d.events.recorded, RequeueAfterMs: result.RequeueAfter.Milliseconds()}
	if timers := result.Response.GetSync(); timers != nil {
		// Those of the response itself: the result has what is left of them.
		r.RequeueAfterMs, r.NotBeforeMs = timers.GetAtLatest().AsDuration().Milliseconds(), timers.GetNotBefore().AsDuration().Milliseconds()
	}
	switch {
	case ctx.Err() != nil:
		r.Outcome = "cancelled"
	case err != nil:
		r.Outcome = "failed"
	case result.Failed != nil:
		r.Outcome = "again"
	case result.Response == nil && !result.Unchanged:
		r.Outcome = "missing"
	default:
		r.Outcome = "done"
	}
	if err := errors.Join(err, result.Failed); err != nil {
		r.Error = err.Error()
	}
	return r
}

// cache holds the objects that the watches show.
type cache []*rollplan.Object

func (c cache) Get(_ context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*rollplan.Object, error) {
	for _, o := range c {
		if o.GVK() == kind && o.Namespace == key.Namespace && o.Name == key.Name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
}

func (c cache) ControlledBy(_ context.Context, kind schema.GroupVersionKind, namespace string, controllers ...types.UID) (found []*rollplan.Object, _ error) {
	for _, o := range c {
		uid := rollplan.NoController
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
			uid = owner.UID
		}
		if o.GVK() == kind && o.Namespace == namespace && slices.Contains(controllers, uid) {
			found = append(found, o)
		}
	}
	return found, nil
}

// events is a recorder of events.
type events struct{ recorded []event }

func (e *events) Event(_ runtime.Object, kind, reason, message string) {
	e.recorded = append(e.recorded, event{kind, reason, message})
}

func (e *events) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	e.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

func (e *events) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	e.Eventf(object, kind, reason, format, args...)
}
