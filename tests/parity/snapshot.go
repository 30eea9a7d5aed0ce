package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controller"
)

// World is a snapshot of typed objects, and the behavior of the server.
type World struct {
	Now          time.Time
	Deployment   *appsv1.Deployment
	ReplicaSets  []*appsv1.ReplicaSet
	Pods         []*corev1.Pod
	PodsComplete bool
	Refuse       Refuse
	Fault        *Fault           // call that the server rejects
	Newer        *Change          // change on the server after the snapshot
	Owner        *metav1.TypeMeta // kind of the owner on our side; nil for an apps/v1 Deployment
	hash         string           // upstreamHash of hashed
	hashed       *appsv1.Deployment
	Noise        uint64 // seed of the noise in the JSON for our side; 0 for none
}

// Request is a PlanRolloutRequest in the protobuf JSON mapping. In files for replay, it also has the behavior of the
// server, which is never sent to the planner.
type Request struct {
	Snapshot RequestSnapshot `json:"snapshot"`
	Options  RequestOptions  `json:"options"`
	World    *WorldRules     `json:"world,omitempty"`
}

type RequestSnapshot struct {
	Now          string           `json:"now"`
	Objects      []string         `json:"objects"`
	SetsComplete bool             `json:"replicaSetsComplete,omitempty"`
	PodsComplete bool             `json:"podsComplete,omitempty"`
	Target       *metav1.TypeMeta `json:"target,omitempty"`
	Answers      []StepAnswer     `json:"answers,omitempty"`
}

type RequestOptions struct {
	Horizon     string `json:"horizon"`
	Terminating *bool  `json:"terminatingReplicas,omitempty"`
}

type WorldRules struct {
	Refuse Refuse  `json:"refuse,omitempty"`
	Fault  *Fault  `json:"fault,omitempty"`
	Newer  *Change `json:"newer,omitempty"`
	Noise  uint64  `json:"noise,omitempty"`
}

// StepAnswer is the message of the contract.
type StepAnswer struct {
	Call         *ApiCall `json:"call"`
	HTTPCode     int32    `json:"httpCode"`
	Body         []byte   `json:"body,omitempty"`
	ExistingJSON []byte   `json:"existingJson,omitempty"`
}

// ApiCall is the message of the contract.
type ApiCall struct {
	Verb        string `json:"verb"`
	APIVersion  string `json:"apiVersion"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	Subresource string `json:"subresource,omitempty"`
	ContentType string `json:"contentType,omitempty"`
	BodyJSON    string `json:"bodyJson,omitempty"`
	Path        string `json:"path,omitempty"`
	Query       string `json:"query,omitempty"`
}

// PlanResponse contains the fields of a PlanRolloutResponse that are compared.
type PlanResponse struct {
	Steps        []PlanStep      `json:"steps"`
	Status       json.RawMessage `json:"status"`
	RequeueAfter string          `json:"requeueAfter"`
	Error        json.RawMessage `json:"error,omitempty"`
}

type PlanStep struct {
	Summary       string   `json:"summary"`
	Call          *ApiCall `json:"call"`
	Events        []Event  `json:"events"`
	OnFailure     string   `json:"onFailure"`
	DoneHTTPCodes []int32  `json:"doneHttpCodes"`

	CreateReplicaSet       json.RawMessage `json:"createReplicaSet,omitempty"`
	ScaleReplicaSet        json.RawMessage `json:"scaleReplicaSet,omitempty"`
	UpdateReplicaSet       json.RawMessage `json:"updateReplicaSet,omitempty"`
	AdoptReplicaSet        json.RawMessage `json:"adoptReplicaSet,omitempty"`
	ReleaseReplicaSet      json.RawMessage `json:"releaseReplicaSet,omitempty"`
	DeleteReplicaSet       json.RawMessage `json:"deleteReplicaSet,omitempty"`
	UpdateDeployment       json.RawMessage `json:"updateDeployment,omitempty"`
	UpdateDeploymentStatus json.RawMessage `json:"updateDeploymentStatus,omitempty"`
	CheckOwner             json.RawMessage `json:"checkOwner,omitempty"`
}

// continuesAfter reports whether the plan continues after the call of this step has failed.
func (s *PlanStep) continuesAfter(err error) bool {
	var status apierrors.APIStatus
	return s.OnFailure == "ON_FAILURE_CONTINUE" ||
		s.OnFailure == "ON_FAILURE_DONE_IF" && errors.As(err, &status) && slices.Contains(s.DoneHTTPCodes, status.Status().Code)
}

var native = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}

// owner returns the kind of the owner on our side.
func (w *World) owner() metav1.TypeMeta {
	if w.Owner != nil {
		return *w.Owner
	}
	return native
}

// upstreamHash returns the hash in the name of the ReplicaSet that upstream would create. The result is cached, because
// it is expensive and used often.
func (w *World) upstreamHash() string {
	if w.hashed != w.Deployment {
		w.hash, w.hashed = controller.ComputeHash(&w.Deployment.Spec.Template, w.Deployment.Status.CollisionCount), w.Deployment
	}
	return w.hash
}

// Request returns the request for a world. The JSON of the objects is that of kubectl.
func (w *World) Request(horizon string) *Request {
	r := &Request{
		Snapshot: RequestSnapshot{Now: w.Now.UTC().Format(time.RFC3339Nano), PodsComplete: w.PodsComplete, SetsComplete: true, Target: w.Owner},
		Options:  RequestOptions{Horizon: horizon, Terminating: w.terminatingOption()},
	}
	d := *w.Deployment
	d.TypeMeta = w.owner()
	objects := []any{&d}
	for _, rs := range w.ReplicaSets {
		c := *rs
		c.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}
		objects = append(objects, &c)
	}
	for _, p := range w.Pods {
		c := *p
		c.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		objects = append(objects, &c)
	}
	for _, o := range objects {
		r.Snapshot.Objects = append(r.Snapshot.Objects, js(o))
	}
	if w.Refuse != RefuseNothing || w.Noise != 0 || w.Fault != nil || w.Newer != nil {
		r.World = &WorldRules{Refuse: w.Refuse, Noise: w.Noise, Fault: w.Fault, Newer: w.Newer}
	}
	return r
}

// WorldFromRequest decodes a request.
func WorldFromRequest(data []byte) (*World, *Request, error) {
	r := &Request{}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(r); err != nil {
		return nil, nil, err
	}
	now, err := time.Parse(time.RFC3339Nano, r.Snapshot.Now)
	if err != nil {
		return nil, nil, err
	}
	w := &World{Now: now, PodsComplete: r.Snapshot.PodsComplete, Owner: r.Snapshot.Target}
	for _, text := range r.Snapshot.Objects {
		if err := w.add([]byte(text)); err != nil {
			return nil, nil, err
		}
	}
	if w.Deployment == nil {
		return nil, nil, fmt.Errorf("missing deployment")
	}
	if r.World != nil {
		w.Refuse, w.Noise, w.Fault, w.Newer = r.World.Refuse, r.World.Noise, r.World.Fault, r.World.Newer
	}
	return w.AsStored(), r, nil
}

// add decodes an object.
func (w *World) add(text []byte) error {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(text, &kind); err != nil {
		return err
	}
	var o runtime.Object
	switch kind.Kind {
	case "ReplicaSet":
		rs := &appsv1.ReplicaSet{}
		w.ReplicaSets = append(w.ReplicaSets, rs)
		o = rs
	case "Pod":
		p := &corev1.Pod{}
		w.Pods = append(w.Pods, p)
		o = p
	default:
		w.Deployment = &appsv1.Deployment{}
		o = w.Deployment
	}
	if err := json.Unmarshal(text, o); err != nil {
		return err
	}
	legacyscheme.Scheme.Default(o)
	return nil
}

// AsStored encodes and decodes every object as protobuf, as an API server does. Quantities become canonical, empty maps
// and lists are removed, and times lose fractions of seconds.
func (w *World) AsStored() *World {
	out := *w
	out.Deployment, out.ReplicaSets, out.Pods = throughProtobufD(w.Deployment), nil, nil
	for _, rs := range w.ReplicaSets {
		out.ReplicaSets = append(out.ReplicaSets, throughProtobufRS(rs))
	}
	out.dropDisabled()
	for _, p := range w.Pods {
		out.Pods = append(out.Pods, throughProtobufPod(p))
	}
	return &out
}

// DeepCopy returns a deep copy of the world.
func (w *World) DeepCopy() *World {
	out := *w
	out.Deployment = w.Deployment.DeepCopy()
	out.ReplicaSets, out.Pods = nil, nil
	for _, rs := range w.ReplicaSets {
		out.ReplicaSets = append(out.ReplicaSets, rs.DeepCopy())
	}
	for _, p := range w.Pods {
		out.Pods = append(out.Pods, p.DeepCopy())
	}
	return &out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
