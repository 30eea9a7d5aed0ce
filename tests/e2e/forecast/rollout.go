package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"rollplan.dev/rollplan/tests/e2e/adapter"
	"rollplan.dev/rollplan/tests/e2e/workloads"
)

const (
	// name is the name of the Deployment, which is alone in its namespace.
	name = "web"
	// hangTimeout limits each rollout that is expected to complete.
	hangTimeout = 20 * time.Minute
	// quietTime is how long no pod has changed before a rollout is changed.
	quietTime = time.Second
	// nodes is the number of nodes that all cases share.
	nodes = 6
)

// record is what was observed of a case.
type record struct {
	Case     testCase    `json:"case"`
	Segments []segment   `json:"segments"`
	Sets     []setChange `json:"sets"`
	Pods     []podChange `json:"pods"`
}

// segment is the part of a rollout that one forecast is about.
type segment struct {
	Request json.RawMessage `json:"request"`
	Start   milliseconds    `json:"start"`
	End     milliseconds    `json:"end"`
	// Complete is false if the rollout was not complete at the end.
	Complete bool `json:"complete"`
	// Writes is the number of writes of ReplicaSets.
	Writes int `json:"writes"`
}

// harness runs cases.
type harness struct {
	*adapter.System
	workloads.Fleet
	// hold is how long a rollout that may never complete is observed.
	hold time.Duration
}

// owners are the Deployments of a case.
func (h *harness) owners(c testCase) (schema.GroupVersionResource, string) {
	if c.Adapter {
		return plannedDeployments, "PlannedDeployment"
	}
	return workloads.Deployments, "Deployment"
}

// run runs one case.
func (h *harness) run(ctx context.Context, c testCase) (record, error) {
	r := record{Case: c}
	log := &namespaceLog{}
	h.Add(c.Name, log, newKubelets(h.Typed, c, h.Failed))
	if err := h.prepare(ctx, c); err != nil {
		return r, fmt.Errorf("prepare: %w", err)
	}
	if _, ok := log.await(ctx, hangTimeout, isComplete(1)); !ok {
		return r, errors.Join(errors.New("the first rollout has not completed"), ctx.Err())
	}
	if c.Start.Shape == correlatedAgain {
		resource, _ := h.owners(c)
		owners := h.Dynamic.Resource(resource).Namespace(c.Name)
		updated, err := owners.Patch(ctx, name, types.JSONPatchType, []byte(c.imagePatch("1-again")), metav1.PatchOptions{})
		if err != nil {
			return r, err
		}
		if _, ok := log.await(ctx, hangTimeout, isComplete(updated.GetGeneration())); !ok {
			return r, errors.Join(errors.New("the rollout before has not completed"), ctx.Err())
		}
	}
	// The last writes of the controllers.
	time.Sleep(2 * time.Second)

	log.mu.Lock()
	before := log.Sets[0].Name
	log.mu.Unlock()
	isQuiet := func() bool { return log.quiet() >= quietTime }
	change := func(patch string) (milliseconds, int64, error) {
		resource, _ := h.owners(c)
		owners := h.Dynamic.Resource(resource).Namespace(c.Name)
		changed, err := owners.Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return 0, 0, err
		}
		var request json.RawMessage
		// If something changes meanwhile, the request does not show one state.
		for isOneState := false; !isOneState; isOneState = isQuiet() {
			if err := h.wait(ctx, isQuiet); err != nil {
				return 0, 0, err
			}
			if request, err = h.request(ctx, c, changed); err != nil {
				return 0, 0, err
			}
		}
		start := now()
		made, err := owners.Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return 0, 0, err
		}
		r.Segments = append(r.Segments, segment{Request: request, Start: start})
		return start, made.GetGeneration(), nil
	}
	_, generation, err := change(c.imagePatch("2"))
	if err != nil {
		return r, err
	}
	if c.Kind == scaledRollout {
		// In the middle, and not while many pods become ready: the snapshot would not show one state.
		isInTheMiddle := func() bool { return log.readyPods(before) >= max(1, c.Replicas/3) && isQuiet() }
		if err := h.wait(ctx, isInTheMiddle); err != nil {
			return r, err
		}
		var at milliseconds
		at, generation, err = change(fmt.Sprintf(`[{"op": "replace", "path": "/spec/replicas", "value": %d}]`, c.ScaleTo))
		if err != nil {
			return r, err
		}
		r.Segments[0].End = at
	}
	timeout := hangTimeout
	if c.isSlow() {
		timeout = h.hold
	}
	last := &r.Segments[len(r.Segments)-1]
	last.End, last.Complete = log.await(ctx, timeout, isComplete(generation))
	// The last events of pods.
	time.Sleep(time.Second)
	log.mu.Lock()
	r.Sets, r.Pods = log.Sets, log.Pods
	log.mu.Unlock()
	// The objects of ended cases would slow down the others.
	return r, h.Typed.CoreV1().Namespaces().Delete(ctx, c.Name, metav1.DeleteOptions{})
}

// imagePatch is a JSON patch that changes the image.
func (c testCase) imagePatch(tag string) string {
	return fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "registry.example/%s:%s"}]`, c.Name, tag)
}

// wait polls until a condition is met.
func (h *harness) wait(ctx context.Context, isMet func() bool) error {
	for !isMet() {
		time.Sleep(20 * time.Millisecond)
		if err := errors.Join(h.Err(), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// prepare creates the Deployment of a case, with its namespace, its quota and its node.
func (h *harness) prepare(ctx context.Context, c testCase) error {
	if _, err := h.Typed.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := h.AwaitNamespace(ctx, c.Name); err != nil {
		return err
	}
	if c.QuotaLeft != nil {
		hard := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(c.Replicas+*c.QuotaLeft), resource.DecimalSI)}
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
		if _, err := h.Typed.CoreV1().ResourceQuotas(c.Name).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	pod := corev1.PodSpec{
		Containers:                    []corev1.Container{{Name: "main", Image: "registry.example/" + c.Name + ":1"}},
		TerminationGracePeriodSeconds: new(int64(3)),
	}
	if c.NodeLeft != nil {
		if err := workloads.CreateNode(ctx, h.Typed, c.Name, int64(c.Replicas+*c.NodeLeft),
			corev1.Taint{Key: "forecast", Value: c.Name, Effect: corev1.TaintEffectNoSchedule}); err != nil {
			return err
		}
		pod.NodeSelector = map[string]string{corev1.LabelHostname: c.Name}
		pod.Tolerations = []corev1.Toleration{{Key: "forecast", Operator: corev1.TolerationOpExists}}
	}
	surge, unavailable := intstr.Parse(c.MaxSurge), intstr.Parse(c.MaxUnavailable)
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(c.Replicas)), MinReadySeconds: int32(c.MinReady), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
	text, err := json.Marshal(deployment)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &object.Object); err != nil {
		return err
	}
	resource, kind := h.owners(c)
	object.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	unstructured.RemoveNestedField(object.Object, "status")
	_, err = h.Dynamic.Resource(resource).Namespace(c.Name).Create(ctx, object, metav1.CreateOptions{})
	return err
}

// request returns the request of a forecast of a change, from the current state.
func (h *harness) request(ctx context.Context, c testCase, changed *unstructured.Unstructured) (json.RawMessage, error) {
	resource, kind := h.owners(c)
	objects, err := workloads.List(ctx, h.Dynamic, c.Name, resource, workloads.ReplicaSets)
	if err != nil {
		return nil, err
	}
	pods, err := workloads.List(ctx, h.Dynamic, c.Name, workloads.Pods)
	if err != nil {
		return nil, err
	}
	text, err := workloads.AsText(changed)
	if err != nil {
		return nil, err
	}
	limits := map[string]any{}
	if c.QuotaLeft != nil {
		limits["podsInQuota"] = c.Replicas + *c.QuotaLeft - len(pods)
	}
	if c.NodeLeft != nil {
		limits["podsOnNodes"] = c.Replicas + *c.NodeLeft - len(pods)
	}
	return json.Marshal(map[string]any{
		"snapshot": map[string]any{
			"now": time.Now().UTC().Format(time.RFC3339Nano), "objects": append(objects, pods...), "replicaSetsComplete": true, "podsComplete": true,
			"target": map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "namespace": c.Name, "name": name, "resource": resource.Resource},
		},
		"changes": []any{map[string]any{"deployment": text}},
		"limits":  limits,
		"seed":    fmt.Sprint(c.Seed),
	})
}
