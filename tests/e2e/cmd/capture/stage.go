package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const (
	namespace = "shop"
	name      = "web"
	image     = "registry.example/web:"
)

// stage is where scenarios play: one namespace of a control plane.
type stage struct {
	*controlplane.ControlPlane
	// nextIP numbers the pods that the scenario makes ready itself.
	nextIP int
}

// step is one thing that happens in a scenario, or that it waits for.
type step func(context.Context) error

func inOrder(ctx context.Context, steps ...step) error {
	for i, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// begin clears the namespace and has everything at work again.
func (s *stage) begin(ctx context.Context) error {
	s.nextIP = 10
	kubectl := func(args ...string) step {
		return func(ctx context.Context) error {
			_, err := s.Kubectl(ctx, args...)
			return err
		}
	}
	return inOrder(ctx,
		func(ctx context.Context) error { return s.SetPods(ctx, controlplane.PodsRun) },
		kubectl("delete", "deploy,rs", "--all", "-n", namespace, "--cascade=foreground"),
		kubectl("wait", "--for=delete", "rs,pods", "--all", "-n", namespace, "--timeout=60s"),
		func(ctx context.Context) error { return s.SetNativeController(ctx, true) })
}

// deployment is what differs between the Deployments of the scenarios.
type deployment struct {
	replicas                int
	recreate                bool
	progressDeadlineSeconds int
}

func (d deployment) manifest() string {
	strategy := "{type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}"
	if d.recreate {
		strategy = "{type: Recreate}"
	}
	deadline := ""
	if d.progressDeadlineSeconds > 0 {
		deadline = fmt.Sprintf("\n  progressDeadlineSeconds: %d", d.progressDeadlineSeconds)
	}
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  labels: {app.kubernetes.io/name: %[1]s}
spec:
  replicas: %[2]d%[3]s
  strategy: %[4]s
  selector:
    matchLabels: {app.kubernetes.io/name: %[1]s}
  template:
    metadata:
      labels: {app.kubernetes.io/name: %[1]s}
    spec:
      containers:
      - name: web
        image: %[5]s1.0
        ports: [{name: http, containerPort: 8080}]
        readinessProbe:
          httpGet: {path: /readyz, port: http}
          periodSeconds: 5
        resources:
          requests: {cpu: 100m, memory: 128Mi}
          limits: {memory: 256Mi}
`, name, d.replicas, deadline, strategy, image)
}

func (s *stage) apply(d deployment) step {
	return func(ctx context.Context) error {
		_, err := s.KubectlInput(ctx, d.manifest(), "apply", "-n", namespace, "-f", "-")
		return err
	}
}

func (s *stage) kubectl(args ...string) step {
	return func(ctx context.Context) error {
		_, err := s.Kubectl(ctx, append(args, "-n", namespace)...)
		return err
	}
}

func (s *stage) setImage(tag string) step {
	return s.kubectl("set", "image", "deployment/"+name, "web="+image+tag)
}

func (s *stage) cause(text string) step {
	return s.kubectl("annotate", "deployment/"+name, "--overwrite", "kubernetes.io/change-cause="+text)
}

func (s *stage) scale(replicas int) step {
	return s.kubectl("scale", "deployment/"+name, fmt.Sprintf("--replicas=%d", replicas))
}

func (s *stage) limitHistory(limit int) step {
	return s.kubectl("patch", "deployment/"+name, "-p", fmt.Sprintf(`{"spec":{"revisionHistoryLimit":%d}}`, limit))
}

func (s *stage) undo(ctx context.Context) error {
	return s.kubectl("rollout", "undo", "deployment/"+name)(ctx)
}

func (s *stage) pause(ctx context.Context) error {
	return inOrder(ctx, s.kubectl("rollout", "pause", "deployment/"+name),
		s.condition(appsv1.DeploymentProgressing, "DeploymentPaused"))
}

// orphan deletes the Deployment alone. The garbage collector takes the owner reference off before the object goes.
func (s *stage) orphan(ctx context.Context) error {
	return s.kubectl("delete", "deployment/"+name, "--cascade=orphan")(ctx)
}

func (s *stage) controllerOff(ctx context.Context) error { return s.SetNativeController(ctx, false) }

// holdNewPods keeps pods created from now on from becoming ready.
func (s *stage) holdNewPods(ctx context.Context) error {
	return s.SetPods(ctx, controlplane.PodsHoldNew)
}

// holdPods keeps deleted pods terminating as well.
func (s *stage) holdPods(ctx context.Context) error { return s.SetPods(ctx, controlplane.PodsHold) }

// set is the ReplicaSet with a certain image: how many pods it should have and how many of them are ready.
type set struct {
	tag         string
	size, ready int32
}

// sets waits until the ReplicaSets are exactly these, their status tells so, and the kubelet has seen their pods.
// While Kubernetes' Deployment controller is on, it also waits for the Deployment's status.
func (s *stage) sets(want ...set) step {
	return func(ctx context.Context) error {
		return controlplane.Poll(ctx, fmt.Sprintf("ReplicaSets %v", want), func(ctx context.Context) error {
			sets, err := s.ReplicaSets(ctx, namespace)
			if err != nil {
				return err
			}
			var have []set
			for _, rs := range sets {
				size, status := *rs.Spec.Replicas, rs.Status
				if status.ObservedGeneration != rs.Generation || status.Replicas != size || status.AvailableReplicas != status.ReadyReplicas {
					return fmt.Errorf("ReplicaSet %s is at work: size %d, %+v", rs.Name, size, status)
				}
				tag := strings.TrimPrefix(rs.Spec.Template.Spec.Containers[0].Image, image)
				have = append(have, set{tag, size, status.ReadyReplicas})
			}
			slices.SortFunc(have, func(a, b set) int { return strings.Compare(a.tag, b.tag) })
			if !slices.Equal(have, want) {
				return fmt.Errorf("ReplicaSets are %v", have)
			}
			return errors.Join(s.podsTell(ctx, sets), s.statusTells(ctx, have))
		})
	}
}

// podsTell checks that every pod has been seen by its node and that the ReplicaSets know which ones are terminating.
func (s *stage) podsTell(ctx context.Context, sets []appsv1.ReplicaSet) error {
	pods, err := s.Pods(ctx, namespace)
	if err != nil {
		return err
	}
	terminating := int32(0)
	for _, pod := range pods {
		if isTerminating(pod) {
			terminating++
		} else if pod.Status.StartTime == nil {
			return fmt.Errorf("pod %s has not been seen by its node", pod.Name)
		}
	}
	for _, rs := range sets {
		if rs.Status.TerminatingReplicas != nil {
			terminating -= *rs.Status.TerminatingReplicas
		}
	}
	if terminating != 0 || s.PodLife() != controlplane.PodsHold && slices.ContainsFunc(pods, isTerminating) {
		return errors.New("pods are still terminating, or their ReplicaSet does not know yet")
	}
	return nil
}

func isTerminating(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }

// statusTells checks that the Deployment's status has caught up, as far as somebody is there to write it.
func (s *stage) statusTells(ctx context.Context, sets []set) error {
	if !s.HasNativeController() {
		return nil
	}
	d, err := s.Deployment(ctx, namespace, name)
	if err != nil {
		return err
	}
	var size, ready int32
	for _, set := range sets {
		size, ready = size+set.size, ready+set.ready
	}
	if d.Status.ObservedGeneration != d.Generation || d.Status.Replicas != size || d.Status.ReadyReplicas != ready {
		return fmt.Errorf("status of the Deployment lags: %+v", d.Status)
	}
	return nil
}

// complete waits until the rollout of that image is complete and the controller has said so.
func (s *stage) complete(tag string, replicas int32) step {
	return func(ctx context.Context) error {
		return inOrder(ctx, s.kubectl("rollout", "status", "deployment/"+name, "--timeout=60s"),
			s.condition(appsv1.DeploymentProgressing, "NewReplicaSetAvailable"),
			func(ctx context.Context) error {
				return controlplane.Poll(ctx, "old pods to go", func(ctx context.Context) error {
					sets, err := s.ReplicaSets(ctx, namespace)
					if err != nil {
						return err
					}
					for _, rs := range sets {
						want := int32(0)
						if rs.Spec.Template.Spec.Containers[0].Image == image+tag {
							want = replicas
						}
						if rs.Status.ObservedGeneration != rs.Generation || rs.Status.Replicas != want || rs.Status.AvailableReplicas != want {
							return fmt.Errorf("ReplicaSet %s: %+v", rs.Name, rs.Status)
						}
					}
					return s.terminating(0)(ctx)
				})
			})
	}
}

// condition waits until a condition of the Deployment has that reason, for its newest generation.
func (s *stage) condition(kind appsv1.DeploymentConditionType, reason string) step {
	return func(ctx context.Context) error {
		return controlplane.Poll(ctx, fmt.Sprintf("condition %s with reason %s", kind, reason), func(ctx context.Context) error {
			d, err := s.Deployment(ctx, namespace, name)
			if err != nil {
				return err
			}
			if d.Status.ObservedGeneration != d.Generation {
				return fmt.Errorf("generation %d is not observed", d.Generation)
			}
			for _, c := range d.Status.Conditions {
				if c.Type == kind && c.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("conditions are %+v", d.Status.Conditions)
		})
	}
}

func (s *stage) stalled(ctx context.Context) error {
	return s.condition(appsv1.DeploymentProgressing, "ProgressDeadlineExceeded")(ctx)
}

// terminating waits until exactly so many pods are being deleted.
func (s *stage) terminating(want int) step {
	return func(ctx context.Context) error {
		return controlplane.Poll(ctx, fmt.Sprintf("%d terminating pods", want), func(ctx context.Context) error {
			pods, err := s.Pods(ctx, namespace)
			if err != nil {
				return err
			}
			have := 0
			for _, pod := range pods {
				if isTerminating(pod) {
					have++
				}
			}
			if have != want {
				return fmt.Errorf("%d are terminating", have)
			}
			return nil
		})
	}
}

// makeReady does the kubelet's part for some pods of an image while kwok holds them: the first ones by name.
func (s *stage) makeReady(tag string, count int) step {
	return func(ctx context.Context) error {
		var waiting []corev1.Pod
		err := controlplane.Poll(ctx, fmt.Sprintf("%d waiting pods of %s", count, tag), func(ctx context.Context) error {
			pods, err := s.Pods(ctx, namespace)
			if err != nil {
				return err
			}
			waiting = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
				return pod.Spec.Containers[0].Image != image+tag || isTerminating(pod) ||
					pod.Status.StartTime == nil || pod.Status.Phase != corev1.PodPending
			})
			if len(waiting) < count {
				return fmt.Errorf("there are %d", len(waiting))
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(waiting, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		for _, pod := range waiting[:count] {
			patch, err := json.Marshal(s.readyStatus(pod))
			if err != nil {
				return err
			}
			if err := s.kubectl("patch", "pod", pod.Name, "--subresource=status", "-p", string(patch))(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *stage) readyStatus(pod corev1.Pod) map[string]any {
	type object = map[string]any
	now := time.Now().UTC().Format(time.RFC3339)
	ip := fmt.Sprintf("10.244.1.%d", s.nextIP)
	s.nextIP++
	var conditions []object
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodReady, corev1.ContainersReady} {
		conditions = append(conditions, object{"type": kind, "status": "True", "reason": nil, "message": nil, "lastTransitionTime": now})
	}
	return object{"status": object{
		"phase": "Running", "podIP": ip, "podIPs": []object{{"ip": ip}}, "conditions": conditions,
		"containerStatuses": []object{{
			"name": pod.Spec.Containers[0].Name, "ready": true, "started": true,
			"state": object{"waiting": nil, "running": object{"startedAt": now}},
		}},
	}}
}
