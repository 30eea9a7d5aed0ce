package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
	"rollplan.dev/rollplan/tests/e2e/workloads"
)

const (
	name = "web"
	// hangTimeout limits each wait for something that must happen.
	hangTimeout = 2 * time.Minute
	// revision is the annotation that the Deployment controller writes.
	revision    = "deployment.kubernetes.io/revision"
	lastApplied = corev1.LastAppliedConfigAnnotation
)

// harness runs cases.
type harness struct {
	*controlplane.ControlPlane
	workloads.Fleet
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	service *workloads.Service
}

// newKubelets returns the kubelets of a case. Pods of the second image have its fault.
func newKubelets(client kubernetes.Interface, c testCase, failed func(error)) *workloads.Kubelets {
	random := rand.New(rand.NewPCG(c.Seed, 1))
	started := 0
	life := func(pod *corev1.Pod) []workloads.Change {
		start := c.StartMin + time.Duration(random.Int64N(int64(c.StartMax-c.StartMin)))
		ready := workloads.Change{After: start, State: workloads.Ready}
		fault := good
		if pod.Spec.Containers[0].Image == image("v2") {
			fault = c.Fault
			started++
		}
		switch fault {
		case stall:
			if started > c.Replicas/2+1 {
				return []workloads.Change{{After: start, State: workloads.Unready}}
			}
		case neverReady:
			return []workloads.Change{{After: start, State: workloads.Unready}}
		case noImage:
			return []workloads.Change{{After: start, State: workloads.ImageMissing}}
		case badImage:
			return []workloads.Change{{After: start, State: workloads.ImageInvalid}}
		case lostImage:
			if started > c.Replicas {
				return []workloads.Change{{After: start, State: workloads.ImageInvalid}}
			}
		case crashLoop:
			changes := []workloads.Change{ready}
			for restarts := range 3 {
				changes = append(changes, workloads.Change{After: 500 * time.Millisecond, State: workloads.CrashLoop, Restarts: 1 + restarts})
			}
			return changes
		case crashOnce:
			again := 300 + time.Duration(random.IntN(2000))
			return []workloads.Change{ready, {After: again * time.Millisecond, State: workloads.CrashLoop},
				{After: 500 * time.Millisecond, State: workloads.Ready, Restarts: 1}}
		}
		return []workloads.Change{ready}
	}
	death := func() time.Duration { return time.Duration(100+random.IntN(600)) * time.Millisecond }
	return workloads.NewKubelets(client, life, death, failed)
}

// outcome is how a case has ended.
type outcome struct {
	c       testCase
	verdict verdict
	// phase is the last one, and finalImage that of the Deployment.
	phase, finalImage string
	// problems are unexpected results other than violations.
	problems []string
	// refused counts the writes that the guard has refused, written those that were made, and lost the states that were removed
	// before there was a copy.
	refused, written, lost int
	patches, deaths        int
	late, raises           int
	took                   time.Duration
	log                    *namespaceLog
}

func (o *outcome) problem(format string, arguments ...any) {
	o.problems = append(o.problems, fmt.Sprintf(format, arguments...))
}

// highestAfterAbort returns the highest size of the new ReplicaSet after the last abort was complete.
func (o *outcome) highestAfterAbort() (high int32) {
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	isAborted := false
	for _, e := range o.log.events {
		if e.deployment != nil {
			isAborted = isAborted || strings.Contains(e.deployment.Annotations[annotation], `"phase":"aborted"`)
		}
		if isAborted && e.set != nil && e.set.Spec.Template.Spec.Containers[0].Image == image("v2") {
			high = max(high, *e.set.Spec.Replicas)
		}
	}
	return high
}

// readyAtAbort returns how many new pods were ready when the first abort was written.
func (o *outcome) readyAtAbort() (count int) {
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	ready := map[types.UID]bool{}
	for _, e := range o.log.events {
		if e.deployment != nil && stateOf(e.deployment).Phase == "aborting" {
			break
		}
		if e.pod != nil && e.pod.Spec.Containers[0].Image == image("v2") {
			ready[e.pod.UID] = !e.deleted && !readySince(e.pod).IsZero()
		}
	}
	for _, is := range ready {
		if is {
			count++
		}
	}
	return count
}

// scenario is a running case.
type scenario struct {
	*steering
	outcome *outcome
	// control is set without a canary: the new image is rolled out at once.
	control *control
	// written is how many further steps a control has written.
	written int
	// user is the Deployment as it must be at the end, besides template and revision, and templates are those of the user.
	user      *unstructured.Unstructured
	templates []any
}

// run runs a case, or the same rollout without a canary.
func (h *harness) run(ctx context.Context, t task) (*outcome, error) {
	start := time.Now()
	c, control, namespace := t.testCase, t.control, t.Name
	if control != nil {
		namespace += fmt.Sprintf("-control-%d", control.attempt)
		if len(control.held) > 0 {
			namespace += "-held"
			if !control.continues {
				c.Fault = neverReady
			}
		}
	}
	log := &namespaceLog{}
	h.Add(namespace, log, newKubelets(h.typed, c, h.Failed))
	s := &scenario{steering: &steering{h: h, c: c, namespace: namespace, log: log, since: start}, outcome: &outcome{c: c, log: log}, control: control}
	if err := s.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	steering, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer func() { stop(); group.Wait() }()
	if control == nil {
		for number := range c.Steerers {
			group.Go(func() {
				if err := s.steer(steering, number); err != nil {
					h.Failed(fmt.Errorf("%s: steerer: %w", c, err))
				}
			})
		}
	}
	o := s.outcome
	if err := s.play(ctx); err != nil {
		o.problem("%v (phase %s, %s, %s)", err, s.phase, s.message, s.refusal)
	}
	stop()
	group.Wait()
	o.phase, o.patches, o.deaths, o.late, o.took = s.phase, s.patches, s.deaths, s.steering.late, time.Since(start)
	o.raises = log.raises()
	var err error
	if o.verdict, err = log.judge(); err != nil {
		return nil, err
	}
	if c.check != nil && control == nil {
		if err := c.check(o); err != nil {
			o.problem("%v", err)
		}
	}
	// The objects of ended cases would slow down the others.
	return o, h.typed.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
}

// manifest is the manifest of the user with a tag of the image.
func (s *scenario) manifest(tag string) string {
	labels := map[string]string{"app": name}
	l := s.c.limits()
	spec := map[string]any{
		"replicas": s.c.Replicas, "selector": map[string]any{"matchLabels": labels},
		"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": l.surge, "maxUnavailable": l.unavailable}},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
			"terminationGracePeriodSeconds": 3,
			"containers":                    []any{map[string]any{"name": "main", "image": image(tag)}}}},
	}
	if s.c.MinReady > 0 {
		spec["minReadySeconds"] = s.c.MinReady
	}
	metadata := map[string]any{"name": name, "namespace": s.namespace}
	if s.c.Seed%2 == 0 {
		metadata["labels"], metadata["annotations"] = labels, map[string]string{"team": "shop"}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(text)
}

func (s *scenario) prepare(ctx context.Context) error {
	labels := map[string]string{"guard": fmt.Sprint(s.c.Guard)}
	if _, err := s.h.typed.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace, Labels: labels}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.await(ctx, "the service account", func() bool {
		_, err := s.h.typed.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	}); err != nil {
		return err
	}
	s.log.allow(s.c.limits())
	if _, err := s.h.KubectlInput(ctx, s.manifest("v1"), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := s.await(ctx, "the first rollout", s.isComplete); err != nil {
		return err
	}
	user, err := s.get(ctx)
	if err != nil {
		return err
	}
	s.user = user
	s.addTemplate(user)
	return nil
}

func (s *scenario) get(ctx context.Context) (*unstructured.Unstructured, error) {
	return s.h.dynamic.Resource(workloads.Deployments).Namespace(s.namespace).Get(ctx, name, metav1.GetOptions{})
}

// jsonPatch patches the Deployment as the user.
func (s *scenario) jsonPatch(ctx context.Context, options metav1.PatchOptions, operations ...map[string]any) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	return s.h.dynamic.Resource(workloads.Deployments).Namespace(s.namespace).Patch(ctx, name, types.JSONPatchType, body, options)
}

func (s *scenario) addTemplate(d *unstructured.Unstructured) {
	template, _, _ := unstructured.NestedMap(d.Object, "spec", "template")
	s.templates = append(s.templates, template)
}

// isComplete is true if the Deployment controller has completed the rollout.
func (s *scenario) isComplete() bool {
	d, _ := s.log.latest()
	if d == nil {
		return false
	}
	replicas := *d.Spec.Replicas
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == replicas && d.Status.Replicas == replicas && d.Status.AvailableReplicas == replicas
}

// await polls until something is reached.
func (s *scenario) await(ctx context.Context, what string, reached func() bool) error {
	for end := time.Now().Add(hangTimeout); time.Now().Before(end); sleep(ctx, 50*time.Millisecond) {
		if reached() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s has not been reached", what)
}

// play starts the canary, plays all steps, and waits for the end.
func (s *scenario) play(ctx context.Context) error {
	setImage := map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image("v2")}
	if s.control != nil {
		operations := []map[string]any{setImage}
		if held := s.control.held; len(held) > 0 {
			operations = append(operations, limitsOf(held[0]))
			if s.control.continues {
				operations = append(operations, timesOf(heldMinReady, math.MaxInt32)...)
			}
		}
		d, err := s.jsonPatch(ctx, metav1.PatchOptions{}, operations...)
		if err != nil {
			return err
		}
		s.addTemplate(d)
		if len(s.control.held) > 0 {
			if err := s.awaitPodsOfHold(ctx); err != nil {
				return err
			}
		}
	} else {
		changed, err := s.jsonPatch(ctx, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, setImage)
		if err != nil {
			return err
		}
		s.addTemplate(changed)
		text, err := workloads.AsText(changed)
		if err != nil {
			return err
		}
		if err := s.start(ctx, &command{Action: "CANARY_ACTION_START", Deployment: text}); err != nil {
			return err
		}
	}
	if err := s.steps(ctx, s.c.Hold); err != nil {
		return err
	}
	if err := s.awaitStep(ctx, s.c.EndStep); err != nil {
		return err
	}
	sleep(ctx, time.Second)
	if s.c.End != "" {
		if err := s.act(ctx, step{Action: s.c.End}); err != nil {
			return err
		}
	}
	if err := s.steps(ctx, s.c.Rollout); err != nil {
		return err
	}
	if err := s.finish(ctx); err != nil {
		return err
	}
	if phase, _, _ := s.learned(); s.c.Retry && phase == aborted && s.control == nil {
		if err := s.start(ctx, &command{Action: "CANARY_ACTION_RETRY"}); err != nil {
			return err
		}
		if phase, _, _ := s.learned(); phase == held {
			if err := s.act(ctx, step{Action: promote}); err != nil {
				return err
			}
		}
		if err := s.finish(ctx); err != nil {
			return err
		}
	}
	return s.compare(ctx)
}

func (s *scenario) awaitPodsOfHold(ctx context.Context) error {
	return s.await(ctx, "the pods of the hold", func() bool { return s.log.quiet() > time.Second })
}

// awaitStep waits until a step of the canary has begun, or the canary has ended. If the result is not known, for example because
// pods do not become ready, it does not wait long. In a control, it writes the limits of the next steps.
func (s *scenario) awaitStep(ctx context.Context, number int) error {
	if s.control == nil {
		limit := time.Duration(number) * 6 * time.Second
		if s.c.check != nil {
			limit = hangTimeout
		}
		for end := time.Now().Add(limit); time.Now().Before(end); sleep(ctx, 50*time.Millisecond) {
			d, _ := s.log.latest()
			if state := stateOf(d); state.Phase != "hold" || state.number() >= number {
				break
			}
		}
		return ctx.Err()
	}
	for ; s.written+1 < min(number, len(s.control.held)); s.written++ {
		if _, err := s.jsonPatch(ctx, metav1.PatchOptions{}, limitsOf(s.control.held[s.written+1])); err != nil {
			return err
		}
		if err := s.awaitPodsOfHold(ctx); err != nil {
			return err
		}
	}
	return nil
}

func limitsOf(held *appsv1.RollingUpdateDeployment) map[string]any {
	return map[string]any{"op": "replace", "path": "/spec/strategy/rollingUpdate", "value": held}
}

// timesOf writes minReadySeconds, and the deadline, which must be longer.
func timesOf(minReady, deadline int) []map[string]any {
	return []map[string]any{
		{"op": "add", "path": "/spec/minReadySeconds", "value": minReady},
		{"op": "add", "path": "/spec/progressDeadlineSeconds", "value": deadline},
	}
}

// start sends a command until a canary is held, or the command is refused.
func (s *scenario) start(ctx context.Context, c *command) error {
	s.learn("", "", "")
	s.order(c)
	err := s.await(ctx, "the hold", func() bool {
		phase, refusal, _ := s.learned()
		// These refusals mean that the caller must wait.
		if strings.Contains(refusal, "ROLLOUT_NOT_COMPLETE") || strings.Contains(refusal, "CANARY_ABORTING") {
			return false
		}
		return phase == held || phase == promoting || phase == aborting || phase == aborted && c.Deployment != "" || refusal != ""
	})
	// A canary that its policy has promoted meanwhile cannot be started again.
	if phase, refusal, _ := s.learned(); refusal != "" && c.Deployment != "" && !strings.Contains(refusal, "SAME_TEMPLATE") {
		err = fmt.Errorf("the start is refused in phase %q: %s", phase, refusal)
	}
	s.order(nil)
	return err
}

func (s *scenario) steps(ctx context.Context, steps []step) error {
	for _, each := range steps {
		if err := s.awaitStep(ctx, each.Step); err != nil {
			return err
		}
		// A random rollout may be too fast, or end before. A named one has a known result.
		limit := 8 * time.Second
		if s.c.check != nil && s.control == nil {
			limit = hangTimeout
		}
		for end := time.Now().Add(limit); time.Now().Before(end) && int(s.log.sizeOf(image("v2")))*100 < each.Percent*s.c.Replicas; {
			sleep(ctx, 20*time.Millisecond)
		}
		if err := s.await(ctx, "rest", func() bool { return s.log.quiet() >= each.Quiet }); err != nil {
			return err
		}
		sleep(ctx, each.After)
		if err := s.act(ctx, each); err != nil {
			return fmt.Errorf("%s: %w", each.Action, err)
		}
	}
	return nil
}

// finish waits until nothing is left to do. It aborts a hold that nothing else ends, and a rollout that does not complete.
func (s *scenario) finish(ctx context.Context) error {
	if s.control != nil {
		return s.finishControl(ctx)
	}
	idle := time.Now()
	return s.await(ctx, "the end", func() bool {
		phase, refusal, since := s.learned()
		d, _ := s.log.latest()
		since = min(since, time.Since(idle), s.log.quiet())
		switch {
		case strings.Contains(refusal, "STATE_LOST"), strings.Contains(refusal, "STATE_EDITED"):
			// The state was removed before the Deployment controller copied it, or `kubectl rollout undo` has restored the copy of an
			// edited one. The user follows the message.
			if err := s.applyAfterLoss(ctx); err != nil {
				s.h.Failed(err)
			}
			s.order(nil)
			idle = time.Now()
		case refusal != "" && s.current() != nil:
			// The command no longer applies, or the message names the one that does.
			next := (*command)(nil)
			switch {
			case strings.Contains(refusal, "canary promote --force"):
				next = &command{Action: "CANARY_ACTION_PROMOTE", Force: true}
			case strings.Contains(refusal, "canary release"):
				next = &command{Action: "CANARY_ACTION_RELEASE"}
			}
			s.order(next)
			idle = time.Now()
		case phase == rest && s.isComplete() && d.Labels[label] != "" && d.Annotations[annotation] == "":
			// The state was removed after an abort, and before the Deployment controller copied it.
			s.order(&command{Action: "CANARY_ACTION_RELEASE"})
		case (phase == rest || phase == aborted) && s.isComplete():
			s.order(nil)
			return since > 1500*time.Millisecond
		case (phase == rest || phase == aborted) && since > 6*time.Second && d.Spec.Template.Spec.Containers[0].Image != image("v1"):
			// A rollout without a canary does not complete, for example that of the rejected template: the user restores the first
			// image.
			if _, err := s.jsonPatch(ctx, metav1.PatchOptions{}, map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image("v1")}); err != nil {
				s.h.Failed(err)
			} else if d, err := s.get(ctx); err == nil {
				s.addTemplate(d)
			}
			idle = time.Now()
		case phase == held && since > 4*time.Second, phase == promoting && since > 6*time.Second:
			s.order(&command{Action: "CANARY_ACTION_ABORT"})
			idle = time.Now()
		}
		return false
	})
}

// applyAfterLoss applies the manifest with all fields of a hold, and removes the label.
func (s *scenario) applyAfterLoss(ctx context.Context) error {
	fields := `"spec":{"progressDeadlineSeconds":600,`
	if s.c.MinReady == 0 {
		fields += `"minReadySeconds":0,`
	}
	manifest := strings.Replace(s.manifest("v1"), `"spec":{`, fields, 1)
	// A restart of the template stays: kubectl does not remove what it has not applied.
	if _, err := s.kubectl(ctx, manifest, "apply", "-f", "-"); err != nil {
		return err
	}
	for verb, key := range map[string]string{"annotate": annotation, "label": label} {
		if _, err := s.h.Kubectl(ctx, verb, "deployment", name, key+"-", "-n", s.namespace); err != nil {
			return err
		}
	}
	s.outcome.lost++
	return s.takeOver(ctx)
}

// finishControl waits until the rollout is complete, or rolls it back if it does not complete.
func (s *scenario) finishControl(ctx context.Context) error {
	idle := time.Now()
	return s.await(ctx, "the end", func() bool {
		since := min(time.Since(idle), s.log.quiet())
		if s.isComplete() {
			return since > 1500*time.Millisecond
		}
		if since > 6*time.Second {
			if err := s.act(ctx, step{Action: abortIt}); err != nil {
				s.h.Failed(err)
			}
			idle = time.Now()
		}
		return false
	})
}

// compare releases the Deployment, and requires that it is the user's except for its revision.
func (s *scenario) compare(ctx context.Context) error {
	d, err := s.get(ctx)
	if err != nil {
		return err
	}
	s.outcome.finalImage = imageOf(d)
	if s.control != nil {
		return nil
	}
	s.same(d, true)
	if _, found := d.GetAnnotations()[annotation]; !found {
		return nil
	}
	s.order(&command{Action: "CANARY_ACTION_RELEASE"})
	if err := s.await(ctx, "the release", func() bool {
		d, _ := s.log.latest()
		_, found := d.Annotations[annotation]
		return !found
	}); err != nil {
		return err
	}
	if d, err = s.get(ctx); err != nil {
		return err
	}
	s.same(d, false)
	return nil
}

// same compares the Deployment with that of the user.
func (s *scenario) same(d *unstructured.Unstructured, remembers bool) {
	text := func(object *unstructured.Unstructured) ([]byte, any) {
		object = object.DeepCopy()
		annotations := object.GetAnnotations()
		delete(annotations, revision)
		if remembers {
			delete(annotations, annotation)
		}
		spec, _, _ := unstructured.NestedMap(object.Object, "spec")
		template := spec["template"]
		delete(spec, "template")
		text, err := json.Marshal(map[string]any{"spec": spec, "annotations": annotations, "labels": object.GetLabels()})
		if err != nil {
			panic(err) // it was decoded from JSON
		}
		return text, template
	}
	want, _ := text(s.user)
	got, template := text(d)
	if !bytes.Equal(want, got) {
		s.outcome.problem("at the end, the Deployment is %s instead of %s", got, want)
	}
	for _, each := range s.templates {
		if equalJSON(each, template) {
			return
		}
	}
	s.outcome.problem("at the end, the template is none of the user: %v", template)
}

func equalJSON(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}

func imageOf(d *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	image, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
	return image
}

// act performs an action of a user or another client.
func (s *scenario) act(ctx context.Context, a step) error {
	if s.control == nil {
		commands := map[action]string{promote: "PROMOTE", abortIt: "ABORT", release: "RELEASE"}
		if name, found := commands[a.Action]; found {
			s.order(&command{Action: "CANARY_ACTION_" + name, Force: a.Action == promote})
			// The command is repeated until it has an effect, or is refused.
			effect := map[action][]string{promote: {promoting, rest, done}, abortIt: {aborting, aborted, rest}, release: {rest}}[a.Action]
			err := s.await(ctx, name, func() bool {
				phase, refusal, since := s.learned()
				for _, each := range effect {
					if phase == each {
						return true
					}
				}
				return refusal != "" || since > 8*time.Second
			})
			s.order(nil)
			return err
		}
	}
	back := map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image("v1")}
	switch a.Action {
	case nothing:
		return nil
	case promote:
		if !s.control.continues {
			return nil
		}
		return s.putLimitsBack(ctx)
	case release:
		return nil
	case abortIt:
		if s.control.continues {
			return s.putLimitsBack(ctx, back)
		}
		_, err := s.jsonPatch(ctx, metav1.PatchOptions{}, back)
		return err
	case scale:
		return s.scale(ctx, a.Replicas)
	case zero:
		if err := s.scale(ctx, 0); err != nil {
			return err
		}
		sleep(ctx, 1500*time.Millisecond)
		return s.scale(ctx, s.c.Replicas)
	case failStable:
		return s.failPod(ctx)
	case deleteStable:
		sets, err := s.h.typed.AppsV1().ReplicaSets(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, set := range sets.Items {
			if set.Spec.Template.Spec.Containers[0].Image == image("v1") {
				background := metav1.DeletePropagationBackground
				return s.h.typed.AppsV1().ReplicaSets(s.namespace).Delete(ctx, set.Name, metav1.DeleteOptions{PropagationPolicy: &background})
			}
		}
		return nil
	}
	return s.interfere(ctx, a.Action)
}

// putLimitsBack ends a hold that was written by hand, with further operations.
func (s *scenario) putLimitsBack(ctx context.Context, more ...map[string]any) error {
	limits, _, err := unstructured.NestedMap(s.user.Object, "spec", "strategy", "rollingUpdate")
	if err != nil {
		return err
	}
	const defaultDeadline = 600
	operations := append(timesOf(s.c.MinReady, defaultDeadline),
		map[string]any{"op": "replace", "path": "/spec/strategy/rollingUpdate", "value": limits})
	_, err = s.jsonPatch(ctx, metav1.PatchOptions{}, append(operations, more...)...)
	return err
}

// scale changes the number of replicas through the subresource, as an autoscaler does.
func (s *scenario) scale(ctx context.Context, replicas int) error {
	body := fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, replicas)
	_, err := s.h.typed.AppsV1().Deployments(s.namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "scale")
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(s.user.Object, int64(replicas), "spec", "replicas")
}

// failPod makes a pod of the first image unready for a second.
func (s *scenario) failPod(ctx context.Context) error {
	pods, err := s.h.typed.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if pod.Spec.Containers[0].Image != image("v1") || readySince(&pod).IsZero() || pod.DeletionTimestamp != nil {
			continue
		}
		for _, change := range []workloads.Change{{State: workloads.Unready}, {After: time.Second, State: workloads.Ready}} {
			sleep(ctx, change.After)
			if err := workloads.Report(ctx, s.h.typed, &pod, change); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	}
	return nil
}

// interfere writes the Deployment as another client, with kubectl where users do. The guard must refuse these writes at a hold.
func (s *scenario) interfere(ctx context.Context, a action) error {
	switch a {
	case undo, replace, dropState, editState:
		if err := s.awaitCopy(ctx); err != nil {
			return err
		}
	}
	before, err := s.get(ctx)
	if err != nil {
		return err
	}
	changed, err := s.write(ctx, a, before)
	if err != nil && strings.Contains(err.Error(), "rollplan canary promote") && strings.Contains(err.Error(), "rollplan canary abort") && s.c.Guard {
		s.outcome.refused++
		return nil
	}
	// kubectl refuses to undo if there is no earlier revision, to restart a paused Deployment, and to replace one that changes
	// meanwhile.
	for _, expected := range []string{"no rollout history found", "paused", "the object has been modified"} {
		if err != nil && strings.Contains(err.Error(), expected) {
			return nil
		}
	}
	if err != nil || !changed {
		return err
	}
	after, err := s.get(ctx)
	if err != nil {
		return err
	}
	state := before.GetAnnotations()[annotation]
	_, labeled := before.GetLabels()[label]
	if s.c.Guard && labeled && after.GetAnnotations()[annotation] == state && strings.Contains(state, `"phase":"hold"`) && !equalJSON(before.Object["spec"], after.Object["spec"]) {
		s.outcome.problem("the guard has not refused: %s", a)
	}
	s.outcome.written++
	return nil
}

// kubectl writes the Deployment with kubectl. It returns false if that has changed nothing.
func (s *scenario) kubectl(ctx context.Context, input string, arguments ...string) (bool, error) {
	out, err := s.h.KubectlInput(ctx, input, append(arguments, "-n", s.namespace, "-o", "json")...)
	if err != nil || out == "" {
		return false, err
	}
	d := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(out), &d.Object); err != nil {
		return false, err
	}
	s.addTemplate(d)
	return true, nil
}

// awaitCopy waits until the Deployment controller has copied the state, if it has copied an earlier one. If the state is removed
// before that, the earlier one is restored, with the limits that the user had then.
func (s *scenario) awaitCopy(ctx context.Context) error {
	return s.await(ctx, "a copy of the state", func() bool {
		d, err := s.get(ctx)
		if err != nil {
			return false
		}
		sets, err := s.h.typed.AppsV1().ReplicaSets(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		state, hasEarlier := d.GetAnnotations()[annotation], false
		for _, set := range sets.Items {
			copied, found := set.Annotations[annotation]
			if found && copied == state {
				return true
			}
			hasEarlier = hasEarlier || found
		}
		return !hasEarlier || state == ""
	})
}

// write makes the write of an action. It returns false if it has changed nothing.
func (s *scenario) write(ctx context.Context, a action, before *unstructured.Unstructured) (bool, error) {
	deployment := "deployment/" + name
	apply := func(tag string) (bool, error) {
		manifest := s.manifest(tag)
		changed, err := s.kubectl(ctx, manifest, "apply", "-f", "-")
		if err == nil {
			err = s.takeOver(ctx)
		}
		return changed, err
	}
	switch a {
	case applyOld:
		return apply("v1")
	case applyNew:
		return apply("v2")
	case applyThird:
		return apply("v3")
	case setThird:
		return s.kubectl(ctx, "", "set", "image", deployment, "main="+image("v3"))
	case undo:
		_, err := s.h.Kubectl(ctx, "rollout", "undo", deployment, "-n", s.namespace)
		return true, err
	case restart:
		return s.kubectl(ctx, "", "rollout", "restart", deployment)
	case replace:
		changed, err := s.kubectl(ctx, s.manifest("v1"), "replace", "-f", "-")
		if err == nil {
			err = s.takeOver(ctx)
		}
		return changed, err
	case dropState, editState:
		text, found := before.GetAnnotations()[annotation]
		if !found {
			return false, nil
		}
		path := "/metadata/annotations/" + strings.ReplaceAll(annotation, "/", "~1")
		test := map[string]any{"op": "test", "path": path, "value": text}
		if a == editState {
			edited := strings.Replace(text, `"v":`, `"x":1,"v":`, 1)
			if _, err := s.jsonPatch(ctx, metav1.PatchOptions{}, test, map[string]any{"op": "replace", "path": path, "value": edited}); err != nil {
				return false, ignoreConflict(err)
			}
			if err := s.await(ctx, "a refusal of the edited state", func() bool {
				_, refusal, _ := s.learned()
				return s.control != nil || refusal != ""
			}); err != nil {
				return false, err
			}
			test = map[string]any{"op": "test", "path": path, "value": edited}
		}
		remove := func() error {
			_, err := s.jsonPatch(ctx, metav1.PatchOptions{}, test, map[string]any{"op": "remove", "path": path})
			return err
		}
		err := remove()
		// Nobody overwrites an edited state, but the Deployment controller may write the Deployment at the same time.
		for try := 0; a == editState && err != nil && ignoreConflict(err) == nil && try < 10; try++ {
			sleep(ctx, 200*time.Millisecond)
			err = remove()
		}
		return err == nil, ignoreConflict(err)
	case pause:
		if _, err := s.h.Kubectl(ctx, "rollout", "pause", deployment, "-n", s.namespace); err != nil {
			return false, err
		}
		sleep(ctx, 1500*time.Millisecond)
		_, err := s.h.Kubectl(ctx, "rollout", "resume", deployment, "-n", s.namespace)
		return true, err
	case putBack:
		_, err := s.jsonPatch(ctx, metav1.PatchOptions{}, map[string]any{"op": "add", "path": "/spec/minReadySeconds", "value": s.c.MinReady})
		return true, err
	case loosen:
		return s.loosen(ctx)
	}
	return false, fmt.Errorf("unknown action %q", a)
}

// ignoreConflict returns nil if the object has changed meanwhile.
func ignoreConflict(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// takeOver records the number of replicas and the metadata of an applied manifest as those of the user.
func (s *scenario) takeOver(ctx context.Context) error {
	d, err := s.get(ctx)
	if err != nil {
		return err
	}
	annotations := s.user.GetAnnotations()
	delete(annotations, lastApplied)
	if text, found := d.GetAnnotations()[lastApplied]; found {
		annotations[lastApplied] = text
	}
	s.user.SetAnnotations(annotations)
	l := s.c.limits()
	l.generation = d.GetGeneration()
	s.log.allow(l)
	spec := s.user.Object["spec"].(map[string]any)
	spec["replicas"] = int64(s.c.Replicas)
	return unstructured.SetNestedMap(s.user.Object, map[string]any{
		"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": plain(l.surge), "maxUnavailable": plain(l.unavailable)}}, "spec", "strategy")
}

func plain(limit intstr.IntOrString) any {
	if limit.Type == intstr.String {
		return limit.StrVal
	}
	return int64(limit.IntVal)
}

// loosen changes the limits to larger ones, which are those of the user from then on.
func (s *scenario) loosen(ctx context.Context) (bool, error) {
	surge, unavailable := intstr.FromString("60%"), intstr.FromInt32(1)
	// The limits are recorded for the generation that the write creates.
	l := s.c.limits()
	l.surge, l.unavailable = surge, unavailable
	d, err := s.jsonPatch(ctx, metav1.PatchOptions{},
		map[string]any{"op": "replace", "path": "/spec/strategy/rollingUpdate/maxSurge", "value": surge},
		map[string]any{"op": "replace", "path": "/spec/strategy/rollingUpdate/maxUnavailable", "value": unavailable})
	if err != nil {
		return false, err
	}
	l.generation = d.GetGeneration()
	s.log.allow(l)
	return true, unstructured.SetNestedMap(s.user.Object, map[string]any{
		"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": plain(surge), "maxUnavailable": plain(unavailable)}}, "spec", "strategy")
}
