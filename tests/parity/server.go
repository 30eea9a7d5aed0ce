package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsconv "k8s.io/kubernetes/pkg/apis/apps/v1"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	deploymentregistry "k8s.io/kubernetes/pkg/registry/apps/deployment"
	replicasetregistry "k8s.io/kubernetes/pkg/registry/apps/replicaset"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// Server is a fake API server for one pass. It has Deployments and ReplicaSets with their status subresources, and uses
// the real create and update strategies of the API server (generation, status reset, defaults, validation). It implements
// the behavior of the storage itself: resourceVersion is enforced, a write without changes keeps it, deletions have
// preconditions, and finalizers delay them.
//
// Each side of the comparison has a Server of its own.
type Server struct {
	now         metav1.Time
	deployments map[string]*appsv1.Deployment
	sets        map[string]*appsv1.ReplicaSet
	rv          int64
	created     int
	refuse      Refuse
	fault       *Fault
	fired       bool // the fault has occurred

	ownerChecked bool // the Deployment was read before an adoption
	writes       []Write
	refused      []string
	attempts     []*appsv1.ReplicaSet // all ReplicaSets in create calls, including rejected ones: messages may contain their names
}

// Refuse is the way in which the server rejects the creation or deletion of ReplicaSets.
type Refuse string

const (
	RefuseNothing     Refuse = ""
	RefuseQuota       Refuse = "quota"
	RefuseInvalid     Refuse = "invalid"
	RefuseTerminating Refuse = "terminating"
	RefuseDelete      Refuse = "delete" // a webhook rejects deletions
	MissingDelete     Refuse = "gone"   // another client was faster: 404
)

// Write is a write that changed an object.
type Write struct {
	Op          string // create, update, delete
	Kind        string
	Subresource string
	Namespace   string
	Name        string
	Claim       bool               `json:",omitempty"` // an adoption or a release, which changes ownerReferences
	Deployment  *appsv1.Deployment `json:",omitempty"`
	Set         *appsv1.ReplicaSet `json:",omitempty"`
}

var (
	deploymentGR  = schema.GroupResource{Group: "apps", Resource: "deployments"}
	replicaSetGR  = schema.GroupResource{Group: "apps", Resource: "replicasets"}
	deploymentGVK = appsv1.SchemeGroupVersion.WithKind("Deployment")
	replicaSetGVK = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

func key(namespace, name string) string { return namespace + "/" + name }

// NewServer returns a server with copies of the objects in the snapshot.
func NewServer(w *World) *Server {
	s := &Server{
		now:         metav1.NewTime(w.Now).Rfc3339Copy(),
		deployments: map[string]*appsv1.Deployment{},
		sets:        map[string]*appsv1.ReplicaSet{},
		rv:          1_000_000,
		refuse:      w.Refuse,
		fault:       w.Fault,
	}
	s.deployments[key(w.Deployment.Namespace, w.Deployment.Name)] = w.Deployment.DeepCopy()
	s.seen(w.Deployment.ResourceVersion)
	for _, rs := range w.ReplicaSets {
		s.seen(rs.ResourceVersion)
		s.sets[key(rs.Namespace, rs.Name)] = rs.DeepCopy()
	}
	if w.Newer != nil {
		w.Newer.do(s)
	}
	return s
}

// seen keeps the counter above every resourceVersion in the snapshot, so that none is used twice.
func (s *Server) seen(resourceVersion string) {
	if n, err := strconv.ParseInt(resourceVersion, 10, 64); err == nil && n > s.rv {
		s.rv = n
	}
}

func (s *Server) refusal(op, kind, name string, err error) error {
	s.refused = append(s.refused, fmt.Sprintf("%s %s %s: %v", op, kind, name, err))
	return err
}

// --- Deployments

// GetDeployment is a GET, with which upstream checks before an adoption that the Deployment still exists.
func (s *Server) GetDeployment(namespace, name string) (*appsv1.Deployment, error) {
	s.ownerChecked = true
	if err := s.fails(OnCheck, deploymentGR, name); err != nil {
		return nil, s.refusal("get", "Deployment", name, err)
	}
	d, ok := s.deployments[key(namespace, name)]
	if !ok {
		return nil, apierrors.NewNotFound(deploymentGR, name)
	}
	return d.DeepCopy(), nil
}

// UpdateDeployment is a PUT of the Deployment or its status.
func (s *Server) UpdateDeployment(in *appsv1.Deployment, subresource string) (*appsv1.Deployment, error) {
	out, err := s.updateDeployment(in, subresource)
	if err != nil {
		return nil, s.refusal("update", "Deployment/"+subresource, in.Name, err)
	}
	return out, nil
}

func (s *Server) updateDeployment(in *appsv1.Deployment, subresource string) (*appsv1.Deployment, error) {
	old, ok := s.deployments[key(in.Namespace, in.Name)]
	if !ok {
		return nil, apierrors.NewNotFound(deploymentGR, in.Name)
	}
	if in.ResourceVersion != "" && in.ResourceVersion != old.ResourceVersion {
		return nil, apierrors.NewConflict(deploymentGR, in.Name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	newInternal, err := internalDeployment(in)
	if err != nil {
		return nil, err
	}
	oldInternal, err := internalDeployment(old)
	if err != nil {
		return nil, err
	}
	var strategy rest.RESTUpdateStrategy = deploymentregistry.Strategy
	if subresource == "status" {
		strategy = deploymentregistry.StatusStrategy
	}
	ctx := requestContext(in.Namespace, "deployments", subresource)
	if err := rest.BeforeUpdate(strategy, ctx, newInternal, oldInternal); err != nil {
		return nil, err
	}
	out, err := externalDeployment(newInternal, in)
	if err != nil {
		return nil, err
	}
	out.ResourceVersion = old.ResourceVersion
	if sameBytes(out, old) {
		return old.DeepCopy(), nil
	}
	on := OnOwner
	if subresource == "status" {
		on = OnStatus
	}
	refused := s.fails(on, deploymentGR, in.Name)
	if refused != nil && !s.fault.Lost {
		return nil, refused
	}
	s.rv++
	out.ResourceVersion = strconv.FormatInt(s.rv, 10)
	s.deployments[key(in.Namespace, in.Name)] = out
	s.writes = append(s.writes, Write{Op: "update", Kind: "Deployment", Subresource: subresource, Namespace: in.Namespace, Name: in.Name, Deployment: out.DeepCopy()})
	return out.DeepCopy(), refused
}

// PatchDeployment is a PATCH of the Deployment or its status.
func (s *Server) PatchDeployment(namespace, name, subresource string, pt types.PatchType, patch []byte) (*appsv1.Deployment, error) {
	old, ok := s.deployments[key(namespace, name)]
	if !ok {
		return nil, s.refusal("patch", "Deployment/"+subresource, name, apierrors.NewNotFound(deploymentGR, name))
	}
	patched := &appsv1.Deployment{}
	if err := applyPatch(old, patched, deploymentGVK, name, pt, patch); err != nil {
		return nil, s.refusal("patch", "Deployment/"+subresource, name, err)
	}
	legacyscheme.Scheme.Default(patched)
	if subresource == "" && sameBytes(patched, old) { // our check of the owner before an adoption
		if err := s.fails(OnCheck, deploymentGR, name); err != nil {
			return nil, s.refusal("patch", "Deployment/", name, err)
		}
	}
	return s.UpdateDeployment(patched, subresource)
}

// --- ReplicaSets

func (s *Server) CreateReplicaSet(in *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	s.attempts = append(s.attempts, in.DeepCopy())
	out, err := s.createReplicaSet(in)
	if err != nil {
		return nil, s.refusal("create", "ReplicaSet", in.Name, err)
	}
	return out, nil
}

func (s *Server) createReplicaSet(in *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	in = in.DeepCopy()
	legacyscheme.Scheme.Default(in)
	internal := &apps.ReplicaSet{}
	if err := legacyscheme.Scheme.Convert(in, internal, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.created++
	internal.CreationTimestamp = s.now
	internal.UID = types.UID(fmt.Sprintf("00000000-0000-0000-0000-created%05d", s.created))
	ctx := requestContext(in.Namespace, "replicasets", "")
	if err := rest.BeforeCreate(replicasetregistry.Strategy, ctx, internal); err != nil {
		return nil, err
	}
	// Admission (quota, terminating namespace) comes before the storage checks the name.
	switch s.refuse {
	case RefuseQuota:
		return nil, apierrors.NewForbidden(replicaSetGR, in.Name, fmt.Errorf("exceeded quota: sets, requested: count/replicasets.apps=1, used: count/replicasets.apps=3, limited: count/replicasets.apps=3"))
	case RefuseInvalid:
		return nil, apierrors.NewInvalid(replicaSetGVK.GroupKind(), in.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "template", "spec"), "x", "rejected by a webhook")})
	case RefuseTerminating:
		err := apierrors.NewForbidden(replicaSetGR, in.Name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", in.Namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", in.Namespace), Field: "metadata.namespace"})
		return nil, err
	}
	if _, taken := s.sets[key(in.Namespace, in.Name)]; taken {
		return nil, apierrors.NewAlreadyExists(replicaSetGR, in.Name)
	}
	refused := s.fails(OnCreate, replicaSetGR, "")
	if refused != nil && !s.fault.Lost {
		return nil, refused
	}
	out := &appsv1.ReplicaSet{}
	if err := legacyscheme.Scheme.Convert(internal, out, nil); err != nil {
		return nil, err
	}
	s.rv++
	out.ResourceVersion = strconv.FormatInt(s.rv, 10)
	out = throughProtobufRS(out)
	s.sets[key(in.Namespace, in.Name)] = out
	s.writes = append(s.writes, Write{Op: "create", Kind: "ReplicaSet", Namespace: in.Namespace, Name: in.Name, Set: out.DeepCopy()})
	return out.DeepCopy(), refused
}

// UpdateReplicaSet is a PUT of a ReplicaSet.
func (s *Server) UpdateReplicaSet(in *appsv1.ReplicaSet, subresource string) (*appsv1.ReplicaSet, error) {
	out, err := s.updateReplicaSet(in, subresource)
	if err != nil {
		return nil, s.refusal("update", "ReplicaSet/"+subresource, in.Name, err)
	}
	return out, nil
}

func (s *Server) updateReplicaSet(in *appsv1.ReplicaSet, subresource string) (*appsv1.ReplicaSet, error) {
	if subresource != "" {
		return nil, apierrors.NewBadRequest("a Deployment controller must not write ReplicaSet/" + subresource)
	}
	old, ok := s.sets[key(in.Namespace, in.Name)]
	if !ok {
		return nil, apierrors.NewNotFound(replicaSetGR, in.Name)
	}
	if in.ResourceVersion != "" && in.ResourceVersion != old.ResourceVersion {
		return nil, apierrors.NewConflict(replicaSetGR, in.Name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	newInternal, oldInternal := &apps.ReplicaSet{}, &apps.ReplicaSet{}
	if err := legacyscheme.Scheme.Convert(throughProtobufRS(in), newInternal, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := legacyscheme.Scheme.Convert(old.DeepCopy(), oldInternal, nil); err != nil {
		return nil, err
	}
	ctx := requestContext(in.Namespace, "replicasets", subresource)
	if err := rest.BeforeUpdate(replicasetregistry.Strategy, ctx, newInternal, oldInternal); err != nil {
		return nil, err
	}
	out := &appsv1.ReplicaSet{}
	if err := legacyscheme.Scheme.Convert(newInternal, out, nil); err != nil {
		return nil, err
	}
	out = throughProtobufRS(out)
	out.ResourceVersion = old.ResourceVersion
	if sameBytes(out, old) {
		return old.DeepCopy(), nil
	}
	claim := !apiequality.Semantic.DeepEqual(old.OwnerReferences, out.OwnerReferences)
	on := OnAnnotate
	if claim {
		on = OnClaim
	} else if *old.Spec.Replicas != *out.Spec.Replicas {
		on = OnScale
	}
	refused := s.fails(on, replicaSetGR, in.Name)
	if refused != nil && !s.fault.Lost {
		return nil, refused
	}
	s.rv++
	out.ResourceVersion = strconv.FormatInt(s.rv, 10)
	s.sets[key(in.Namespace, in.Name)] = out
	s.writes = append(s.writes, Write{Op: "update", Kind: "ReplicaSet", Namespace: in.Namespace, Name: in.Name, Claim: claim, Set: out.DeepCopy()})
	return out.DeepCopy(), refused
}

// PatchReplicaSet is a PATCH of a ReplicaSet.
func (s *Server) PatchReplicaSet(namespace, name, subresource string, pt types.PatchType, patch []byte) (*appsv1.ReplicaSet, error) {
	old, ok := s.sets[key(namespace, name)]
	if !ok {
		return nil, s.refusal("patch", "ReplicaSet/"+subresource, name, apierrors.NewNotFound(replicaSetGR, name))
	}
	patched := &appsv1.ReplicaSet{}
	if err := applyPatch(old, patched, replicaSetGVK, name, pt, patch); err != nil {
		return nil, s.refusal("patch", "ReplicaSet/"+subresource, name, err)
	}
	legacyscheme.Scheme.Default(patched)
	return s.UpdateReplicaSet(patched, subresource)
}

// DeleteReplicaSet is a DELETE. There is no garbage collector that deletes the pods.
func (s *Server) DeleteReplicaSet(namespace, name string, opts metav1.DeleteOptions) error {
	if s.refuse == RefuseDelete {
		return s.refusal("delete", "ReplicaSet", name, apierrors.NewForbidden(replicaSetGR, name, fmt.Errorf("rejected by a webhook")))
	}
	old, ok := s.sets[key(namespace, name)]
	if !ok || s.refuse == MissingDelete {
		return s.refusal("delete", "ReplicaSet", name, apierrors.NewNotFound(replicaSetGR, name))
	}
	if p := opts.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.UID || p.ResourceVersion != nil && *p.ResourceVersion != old.ResourceVersion {
			return s.refusal("delete", "ReplicaSet", name, apierrors.NewConflict(replicaSetGR, name, fmt.Errorf("precondition failed")))
		}
	}
	lost := s.fails(OnDelete, replicaSetGR, name)
	if lost != nil && !s.fault.Lost {
		return s.refusal("delete", "ReplicaSet", name, lost)
	}
	if len(old.Finalizers) > 0 {
		if old.DeletionTimestamp != nil {
			return nil
		}
		marked := old.DeepCopy()
		marked.DeletionTimestamp = s.now.DeepCopy()
		marked.DeletionGracePeriodSeconds = new(int64)
		marked.Generation++
		s.rv++
		marked.ResourceVersion = strconv.FormatInt(s.rv, 10)
		s.sets[key(namespace, name)] = marked
	} else {
		delete(s.sets, key(namespace, name))
	}
	s.writes = append(s.writes, Write{Op: "delete", Kind: "ReplicaSet", Namespace: namespace, Name: name, Set: old.DeepCopy()})
	if lost != nil {
		return s.refusal("delete", "ReplicaSet", name, lost)
	}
	return nil
}

// --- shared

// applyPatch applies a patch to the v1 JSON of an object, as the API server does.
func applyPatch(old runtime.Object, into runtime.Object, gvk schema.GroupVersionKind, name string, pt types.PatchType, patch []byte) error {
	oldJSON, err := json.Marshal(old)
	if err != nil {
		return err
	}
	var newJSON []byte
	switch pt {
	case types.JSONPatchType:
		ops, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return apierrors.NewBadRequest("json patch: " + err.Error())
		}
		newJSON, err = ops.Apply(oldJSON)
		if err != nil {
			// A failed test operation or a missing path is Invalid without causes.
			return apierrors.NewGenericServerResponse(422, "patch", schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, name, err.Error(), 0, false)
		}
	case types.MergePatchType:
		if newJSON, err = jsonpatch.MergePatch(oldJSON, patch); err != nil {
			return apierrors.NewBadRequest("merge patch: " + err.Error())
		}
	case types.StrategicMergePatchType:
		if newJSON, err = strategicpatch.StrategicMergePatch(oldJSON, patch, old); err != nil {
			return apierrors.NewBadRequest("strategic merge patch: " + err.Error())
		}
	default:
		return apierrors.NewGenericServerResponse(415, "patch", schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, name, "unsupported content type "+string(pt), 0, false)
	}
	// A real server warns about unknown fields. Here they are errors, because they are a bug of the planner.
	dec := json.NewDecoder(bytes.NewReader(newJSON))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return apierrors.NewBadRequest("patched object: " + err.Error())
	}
	switch o := into.(type) {
	case *appsv1.Deployment:
		o.TypeMeta = metav1.TypeMeta{}
	case *appsv1.ReplicaSet:
		o.TypeMeta = metav1.TypeMeta{}
	}
	return nil
}

// internalDeployment converts a Deployment to the internal type. The conversion moves the deprecated rollback annotation
// to a field and fails if the value is not a number. A real server never stores such a value; this one keeps it unchanged.
func internalDeployment(in *appsv1.Deployment) (*apps.Deployment, error) {
	in = throughProtobufD(in)
	if invalidRollbackTo(in) {
		delete(in.Annotations, appsv1.DeprecatedRollbackTo)
	}
	out := &apps.Deployment{}
	if err := appsconv.Convert_v1_Deployment_To_apps_Deployment(in, out, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

func externalDeployment(internal *apps.Deployment, written *appsv1.Deployment) (*appsv1.Deployment, error) {
	out := &appsv1.Deployment{}
	if err := appsconv.Convert_apps_Deployment_To_v1_Deployment(internal, out, nil); err != nil {
		return nil, err
	}
	out = throughProtobufD(out)
	if invalidRollbackTo(written) {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[appsv1.DeprecatedRollbackTo] = written.Annotations[appsv1.DeprecatedRollbackTo]
	}
	return out, nil
}

func invalidRollbackTo(d *appsv1.Deployment) bool {
	v := d.Annotations[appsv1.DeprecatedRollbackTo]
	if v == "" {
		return false
	}
	_, err := strconv.ParseInt(v, 10, 64)
	return err != nil
}

func throughProtobufD(in *appsv1.Deployment) *appsv1.Deployment {
	out := &appsv1.Deployment{}
	must(out.Unmarshal(mustBytes(in.Marshal())))
	return out
}

func throughProtobufRS(in *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	out := &appsv1.ReplicaSet{}
	must(out.Unmarshal(mustBytes(in.Marshal())))
	return out
}

func throughProtobufPod(in *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{}
	must(out.Unmarshal(mustBytes(in.Marshal())))
	return out
}

// sameBytes reports whether two objects have the same encoding, in which case the storage skips the write. Marshal sorts
// map keys.
func sameBytes(a, b interface{ Marshal() ([]byte, error) }) bool {
	return bytes.Equal(mustBytes(a.Marshal()), mustBytes(b.Marshal()))
}

func mustBytes(b []byte, err error) []byte {
	must(err)
	return b
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// requestContext is the context of a request to apps/v1. Since 1.37, the validation of objects reads the resource from it.
func requestContext(namespace, resource, subresource string) context.Context {
	return genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(context.Background(), namespace), &genericapirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: "apps", APIVersion: "v1", Namespace: namespace, Resource: resource, Subresource: subresource,
	})
}
