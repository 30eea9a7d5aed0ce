package main

import (
	"cmp"
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

// stage is the namespace in which scenarios run.
type stage struct {
	*controlplane.ControlPlane
	// nextIP is used for the next pod that a scenario makes ready itself.
	nextIP int
}

// step is an action of a scenario, or a condition that it waits for.
type step func(context.Context) error

func inOrder(ctx context.Context, steps ...step) error {
	for i, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// reset clears the namespace and restores the default behavior of the control plane.
func (s *stage) reset(ctx context.Context) error {
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
		kubectl("delete", "quota", "--all", "-n", namespace),
		kubectl("wait", "--for=delete", "rs,pods", "--all", "-n", namespace, "--timeout=60s"),
		func(ctx context.Context) error { return s.SetNativeController(ctx, true) })
}

// deployment contains the fields in which the Deployments of the scenarios differ. Zero values mean the common default.
type deployment struct {
	replicas int
	tag      string
	recreate bool
	// limits are maxSurge and maxUnavailable in YAML.
	limits                        string
	progressDeadlineSeconds       int
	minReadySeconds               int
	terminationGracePeriodSeconds int
	cpu                           string
}

func (d deployment) manifest() string {
	strategy := "{type: RollingUpdate, rollingUpdate: {" + cmp.Or(d.limits, "maxSurge: 25%, maxUnavailable: 25%") + "}}"
	if d.recreate {
		strategy = "{type: Recreate}"
	}
	line := func(indent, field string, value int) string {
		if value == 0 {
			return ""
		}
		return fmt.Sprintf("\n%s%s: %d", indent, field, value)
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
    spec:%[7]s
      containers:
      - name: web
        image: %[5]s
        ports: [{name: http, containerPort: 8080}]
        readinessProbe:
          httpGet: {path: /readyz, port: http}
          periodSeconds: 5
        terminationMessagePolicy: FallbackToLogsOnError
        resources:
          requests: {cpu: %[6]s, memory: 128Mi}
          limits: {memory: 256Mi}
`, name, d.replicas,
		line("  ", "progressDeadlineSeconds", d.progressDeadlineSeconds)+line("  ", "minReadySeconds", d.minReadySeconds),
		strategy, image+cmp.Or(d.tag, "1.0"), cmp.Or(d.cpu, "100m"),
		line("      ", "terminationGracePeriodSeconds", d.terminationGracePeriodSeconds))
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

// orphan deletes only the Deployment. Before it is deleted, the garbage collector removes the owner references to it.
func (s *stage) orphan(ctx context.Context) error {
	return s.kubectl("delete", "deployment/"+name, "--cascade=orphan")(ctx)
}

func (s *stage) controllerOff(ctx context.Context) error { return s.SetNativeController(ctx, false) }

// holdNewPods prevents new pods from starting.
func (s *stage) holdNewPods(ctx context.Context) error {
	return s.SetPods(ctx, controlplane.PodsHoldNew)
}

// holdPods prevents new pods from starting and deleted pods from terminating.
func (s *stage) holdPods(ctx context.Context) error { return s.SetPods(ctx, controlplane.PodsHold) }

// set is the expected size and number of ready pods of the ReplicaSet with an image tag.
type set struct {
	tag         string
	size, ready int32
}

// sets waits until the ReplicaSets are exactly the expected ones, their status is current, and the kubelet has accepted
// their pods. While the native controller is enabled, it also waits for the status of the Deployment.
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
				if status.ObservedGeneration != rs.Generation || status.Replicas != size ||
					rs.Spec.MinReadySeconds == 0 && status.AvailableReplicas != status.ReadyReplicas {
					return fmt.Errorf("ReplicaSet %s is not settled: size is %d, status is %+v", rs.Name, size, status)
				}
				tag := strings.TrimPrefix(rs.Spec.Template.Spec.Containers[0].Image, image)
				have = append(have, set{tag, size, status.ReadyReplicas})
			}
			slices.SortFunc(have, func(a, b set) int { return strings.Compare(a.tag, b.tag) })
			if !slices.Equal(have, want) {
				return fmt.Errorf("ReplicaSets are %v", have)
			}
			return errors.Join(s.podsSettled(ctx, sets), s.statusCurrent(ctx, have))
		})
	}
}

// podsSettled checks that the kubelet has accepted every pod, and that the status of the ReplicaSets counts the
// terminating pods.
func (s *stage) podsSettled(ctx context.Context, sets []appsv1.ReplicaSet) error {
	pods, err := s.Pods(ctx, namespace)
	if err != nil {
		return err
	}
	terminating := int32(0)
	for _, pod := range pods {
		if isTerminating(pod) {
			terminating++
		} else if pod.Status.StartTime == nil && !isUnschedulable(pod) {
			return fmt.Errorf("the kubelet has not accepted pod %s", pod.Name)
		}
	}
	for _, rs := range sets {
		if rs.Status.TerminatingReplicas != nil {
			terminating -= *rs.Status.TerminatingReplicas
		}
	}
	if terminating != 0 || s.PodBehavior() != controlplane.PodsHold && slices.ContainsFunc(pods, isTerminating) {
		return errors.New("pods are still terminating, or the status of their ReplicaSet does not count them yet")
	}
	return nil
}

func isTerminating(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }

func isUnschedulable(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// statusCurrent checks that the status of the Deployment is current, if the native controller is enabled.
func (s *stage) statusCurrent(ctx context.Context, sets []set) error {
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
		return fmt.Errorf("status of the Deployment is outdated: %+v", d.Status)
	}
	return nil
}

// complete waits until the rollout of an image is complete, its status is current, and all old pods are deleted.
func (s *stage) complete(tag string, replicas int32) step {
	return func(ctx context.Context) error {
		return inOrder(ctx, s.kubectl("rollout", "status", "deployment/"+name, "--timeout=60s"),
			s.condition(appsv1.DeploymentProgressing, "NewReplicaSetAvailable"),
			func(ctx context.Context) error {
				return controlplane.Poll(ctx, "old pods to be deleted", func(ctx context.Context) error {
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

// condition waits until a condition of the Deployment has the given reason and the status is current.
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

// limitPods creates a ResourceQuota for pods and waits until it is enforced.
func (s *stage) limitPods(pods int) step {
	return func(ctx context.Context) error {
		if err := s.kubectl("create", "quota", "pods", fmt.Sprintf("--hard=pods=%d", pods))(ctx); err != nil {
			return err
		}
		return controlplane.Poll(ctx, "the quota to count pods", func(ctx context.Context) error {
			used, err := s.Kubectl(ctx, "get", "quota", "pods", "-n", namespace, "-o", "jsonpath={.status.used.pods}")
			if err == nil && used == "" {
				err = errors.New("status.used is not set")
			}
			return err
		})
	}
}

// quotaExceeded waits until the Deployment reports that pods cannot be created, and counts the given number of pods.
func (s *stage) quotaExceeded(pods int32) step {
	return func(ctx context.Context) error {
		return inOrder(ctx, s.condition(appsv1.DeploymentReplicaFailure, "FailedCreate"), s.terminating(0),
			func(ctx context.Context) error {
				return controlplane.Poll(ctx, fmt.Sprintf("%d pods in the status", pods), func(ctx context.Context) error {
					d, err := s.Deployment(ctx, namespace, name)
					if err == nil && d.Status.Replicas != pods {
						err = fmt.Errorf("the status counts %d", d.Status.Replicas)
					}
					return err
				})
			})
	}
}

// overdue waits until the grace period of all terminating pods ended at least the given time ago.
func (s *stage) overdue(by time.Duration) step {
	return func(ctx context.Context) error {
		return controlplane.Poll(ctx, "terminating pods to be overdue", func(ctx context.Context) error {
			pods, err := s.Pods(ctx, namespace)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				if isTerminating(pod) && time.Since(pod.DeletionTimestamp.Time) < by {
					return fmt.Errorf("the grace period of pod %s ends at %s", pod.Name, pod.DeletionTimestamp)
				}
			}
			return nil
		})
	}
}

func (s *stage) stalled(ctx context.Context) error {
	return s.condition(appsv1.DeploymentProgressing, "ProgressDeadlineExceeded")(ctx)
}

// terminating waits until exactly the given number of pods are terminating.
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

// makeReady makes the first pods of an image, by name, ready while kwok holds them.
func (s *stage) makeReady(tag string, count int) step { return s.report(tag, count, s.ready) }

// runUnready makes the containers run without passing their readiness probe.
func (s *stage) runUnready(tag string, count int) step { return s.report(tag, count, s.unready) }

// crash makes the containers crash-loop, with the status that a kubelet reports after the second restart.
func (s *stage) crash(tag string, count int) step { return s.report(tag, count, s.crashing) }

// report patches the status of the first pods of an image that are still pending.
func (s *stage) report(tag string, count int, status func(corev1.Pod) podStatus) step {
	return func(ctx context.Context) error {
		var pending []corev1.Pod
		err := controlplane.Poll(ctx, fmt.Sprintf("%d pending pods of %s", count, tag), func(ctx context.Context) error {
			pods, err := s.Pods(ctx, namespace)
			if err != nil {
				return err
			}
			pending = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
				return pod.Spec.Containers[0].Image != image+tag || isTerminating(pod) ||
					pod.Status.StartTime == nil || pod.Status.Phase != corev1.PodPending
			})
			if len(pending) < count {
				return fmt.Errorf("%d exist", len(pending))
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(pending, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		for _, pod := range pending[:count] {
			patch, err := json.Marshal(s.patch(pod, status(pod)))
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

type object = map[string]any

// podStatus contains the fields in which the status of started pods differs.
type podStatus struct {
	ready     bool
	container object
}

func timestamp(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }

func (s *stage) ready(corev1.Pod) podStatus {
	return podStatus{ready: true, container: object{
		"restartCount": 0, "started": true, "state": object{"running": object{"startedAt": timestamp(0)}},
	}}
}

func (s *stage) unready(corev1.Pod) podStatus {
	return podStatus{container: object{
		"restartCount": 0, "started": true, "state": object{"running": object{"startedAt": timestamp(0)}},
	}}
}

func (s *stage) crashing(pod corev1.Pod) podStatus {
	container := pod.Spec.Containers[0].Name
	return podStatus{container: object{
		"restartCount": 2, "started": false,
		"state": object{"waiting": object{
			"reason": "CrashLoopBackOff",
			"message": fmt.Sprintf("back-off 40s restarting failed container=%s pod=%s_%s(%s)",
				container, pod.Name, pod.Namespace, pod.UID),
		}},
		"lastState": object{"terminated": object{
			"exitCode": 1, "reason": "Error", "startedAt": timestamp(2 * time.Second), "finishedAt": timestamp(time.Second),
			"message": "web 1.1 starting\nreading /etc/web/config.yaml\nfatal: no database at db.shop:5432: connection refused\n",
		}},
	}}
}

func (s *stage) patch(pod corev1.Pod, status podStatus) object {
	now := timestamp(0)
	condition := func(kind corev1.PodConditionType, ok bool) object {
		if ok {
			return object{"type": kind, "status": "True", "reason": nil, "message": nil, "lastTransitionTime": now}
		}
		return object{"type": kind, "status": "False"} // unchanged since the pod was accepted
	}
	container := pod.Spec.Containers[0]
	status.container["name"], status.container["image"], status.container["ready"] = container.Name, container.Image, status.ready
	ip := fmt.Sprintf("10.244.1.%d", s.nextIP)
	s.nextIP++
	return object{"status": object{
		"phase": "Running", "podIP": ip, "podIPs": []object{{"ip": ip}},
		"conditions": []object{
			condition(corev1.PodReadyToStartContainers, true),
			condition(corev1.PodReady, status.ready), condition(corev1.ContainersReady, status.ready),
		},
		"containerStatuses": []object{status.container},
	}}
}
