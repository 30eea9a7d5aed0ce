package node

import (
	"fmt"
	"time"
)

// outcome is the result of `rollplan wait`.
type outcome string

const (
	// certain: wait fails before the progress deadline, because the rollout certainly needs a change.
	certain outcome = "certain"
	// deadline: the progress deadline passes.
	deadline outcome = "deadline"
	// complete: the rollout completes.
	complete outcome = "complete"
	// waiting: the rollout waits for a decision of the user, and wait continues.
	waiting outcome = "waiting"
)

// state is a state of a rollout.
type state struct {
	name string
	// objects are created before the Deployment.
	objects string
	// first, if not empty, is the container of an earlier template, which is rolled out first. If broken is set, that rollout
	// need not complete.
	first  string
	broken bool
	// spec, pod and container are merged into the Deployment, its pods and their first container. beside is a second container.
	spec, pod, container, beside string
	// later are changes after a delay: the arguments and standard input of kubectl.
	later []change
	want  outcome
	// cause is an expression that the message of the verdict must match.
	cause string
	// grace is how long a failure must last before it is certain, starting with the first response that reports it. backoff is
	// the additional time until the last attempt of a controller.
	grace, backoff time.Duration
	// restarts is the number of restarts after which a crashing container is a certain failure.
	restarts int
	// remedy is an expression that the remedy of the verdict must match.
	remedy string
	// flags are further options of `wait`.
	flags []string
}

// change is a change while a rollout is in progress.
type change struct {
	after time.Duration
	args  []string
	stdin string
	// image is a directory that is added to the registry.
	image string
	// script is run by bash. $1 is the namespace.
	script string
}

const (
	neverReady = `readinessProbe: {httpGet: {path: /nope, port: 8080}, periodSeconds: 1}`
	soon       = `progressDeadlineSeconds: 60`
	// Each rejected pod doubles the delay of the ReplicaSet controller, which also retries whenever the ReplicaSet or a pod
	// changes. On a busy node, the delay exceeds the default deadline within seconds.
	patient = `progressDeadlineSeconds: 1500`
)

// pushedAfter is an image that is pushed some seconds after the first pull. The kubelet pulls at about 0, 13, 40 and 95 s.
func pushedAfter(seconds int) state {
	return state{name: fmt.Sprintf("image pushed after %d s", seconds), container: `image: "localhost:5000/NAMESPACE:1"`,
		later: []change{{after: time.Duration(seconds) * time.Second, image: "NAMESPACE"}}}
}

// limitedFor is an image whose registry answers with this status for some seconds. The kubelet pulls as in pushedAfter.
func limitedFor(status, seconds int) state {
	image := fmt.Sprintf("status-%d-NAMESPACE", status)
	return state{name: fmt.Sprintf("registry answers %d for %d s", status, seconds), container: `image: "localhost:5000/` + image + `:1"`,
		later: []change{{after: time.Duration(seconds) * time.Second, image: image}}}
}

// installedAfter is a program that another container, or a sidecar, puts on a shared volume after some seconds. The kubelet
// tries to start it at about 0, 10, 30, 70 and 150 s.
func installedAfter(seconds int, by string) state {
	pod := "volumes: [{name: shared, emptyDir: {}}]"
	installer := fmt.Sprintf(`{name: installer, image: "localhost/app:1", args: [install, %ds, /shared], volumeMounts: [{name: shared, mountPath: /shared}]`, seconds)
	s := state{name: fmt.Sprintf("program installed by a %s after %d s", by, seconds), pod: pod,
		container: `{command: [/shared/app, serve], volumeMounts: [{name: shared, mountPath: /shared}]}`}
	if by == "sidecar" {
		s.pod += "\ninitContainers: [" + installer + ", restartPolicy: Always}]"
	} else {
		s.beside = installer + "}"
	}
	return s
}

// volume is a bound claim "data", and its volume with these fields.
func volume(mode, more string) string {
	return `{apiVersion: v1, kind: PersistentVolume, metadata: {name: NAMESPACE}, spec: {capacity: {storage: 1Mi}, accessModes: [` + mode + `],
  storageClassName: NAMESPACE, hostPath: {path: /tmp}` + more + `}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [` + mode + `], storageClassName: NAMESPACE, volumeName: NAMESPACE,
  resources: {requests: {storage: 1Mi}}}}`
}

// nodeAppears makes the node suitable for the pods.
func nodeAppears(after time.Duration) change {
	return change{after: after, args: []string{"label", "node", "node", "NAMESPACE=yes"}}
}

// reaction writes an event of an autoscaler about each pod.
func reaction(component, reason, message string) change {
	return change{after: 5 * time.Second, script: `
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
kubectl get pods -n "$1" -o go-template='{{range .items}}{{.metadata.name}} {{.metadata.uid}}{{"\n"}}{{end}}' | while read -r name uid; do
  printf '%s\n' "{apiVersion: v1, kind: Event, metadata: {name: $name.reaction, namespace: $1}, type: Normal, reason: ` + reason + `,
    message: \"` + message + `\", source: {component: ` + component + `}, count: 1, firstTimestamp: $now, lastTimestamp: $now,
    involvedObject: {apiVersion: v1, kind: Pod, namespace: $1, name: $name, uid: $uid}}" | kubectl create -f -
done`}
}

// unschedulableFails are options with which pods that no node can run are a failure, unless a node is being added.
var unschedulableFails = []string{"--fail-on=unschedulable=20s"}

// persistent are the states that need a change.
var persistent = []state{
	{name: "PodSecurity", objects: `{apiVersion: v1, kind: Namespace, metadata: {name: NAMESPACE, labels: {pod-security.kubernetes.io/enforce: restricted}}}`,
		want: certain, cause: `rejects the pods.*violates PodSecurity`, grace: 30 * time.Second, backoff: 15 * time.Second},
	{name: "LimitRange", objects: `{apiVersion: v1, kind: LimitRange, metadata: {name: limits}, spec: {limits: [{type: Container, max: {cpu: 100m}}]}}`,
		container: `resources: {requests: {cpu: 200m}, limits: {cpu: 200m}}`,
		want:      certain, cause: `maximum cpu usage per Container is 100m`, grace: 30 * time.Second, backoff: 15 * time.Second},
	{name: "quota below one pod", objects: `{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota}, spec: {hard: {requests.memory: 64Mi}}}`,
		container: `resources: {requests: {memory: 128Mi}}`,
		want:      certain, cause: `exceeded quota: quota`, grace: 30 * time.Second, backoff: 15 * time.Second},
	{name: "quota in use", objects: `{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota}, spec: {hard: {pods: "1"}}}`,
		spec: soon, want: deadline, cause: `exceeded quota: quota`},
	{name: "missing ServiceAccount", pod: `serviceAccountName: nope`,
		want: certain, cause: `serviceaccount "nope" not found`, grace: 90 * time.Second, backoff: 80 * time.Second},
	{name: "missing PriorityClass", pod: `priorityClassName: nope`,
		want: certain, cause: `PriorityClass with name nope`, grace: 90 * time.Second, backoff: 80 * time.Second},
	{name: "missing RuntimeClass", pod: `runtimeClassName: nope`,
		want: certain, cause: `RuntimeClass "nope" not found`, grace: 90 * time.Second, backoff: 80 * time.Second},
	{name: "image not found", container: `image: "localhost:5000/other:1"`,
		want: certain, cause: `image localhost:5000/other:1 of container web cannot be pulled \(2 of 2 new pods: web-\S+ .*not found`, grace: 90 * time.Second, backoff: 95 * time.Second},
	{name: "image unauthorized", container: `image: "localhost:5000/private:1"`,
		want: certain, cause: `image localhost:5000/private:1 of container web .*401 Unauthorized`, grace: 90 * time.Second, backoff: 95 * time.Second},
	{name: "registry unreachable", container: `image: "localhost:1/app:1"`, spec: soon,
		want: deadline, cause: `image localhost:1/app:1 of container web .*connection refused`},
	{name: "rate limit", container: `image: "localhost:5000/status-429-app:1"`, spec: soon,
		want: deadline, cause: `image localhost:5000/status-429-app:1 of container web .*(429|[Tt]oo ?[Mm]any ?[Rr]equests)`},
	{name: "registry fails", container: `image: "localhost:5000/status-503-app:1"`, spec: soon,
		want: deadline, cause: `image localhost:5000/status-503-app:1 of container web .*503`},
	{name: "wrong platform", container: `image: "localhost:5000/foreign:1"`,
		want: certain, cause: `image localhost:5000/foreign:1 of container web .*platform`, grace: 90 * time.Second, backoff: 95 * time.Second},
	{name: "invalid image name", container: `image: "localhost/App:1"`,
		want: certain, cause: `image localhost/App:1 of container web .*InvalidImageName`},
	{name: "image never pulled", container: `{image: "localhost/other:1", imagePullPolicy: Never}`,
		want: certain, cause: `image localhost/other:1 of container web .*ErrImageNeverPull`, grace: 90 * time.Second, backoff: 15 * time.Second},
	{name: "crash", container: `args: [exit, "3"]`,
		want: certain, cause: `container web keeps crashing \(5 restarts; 2 of 2 new pods: web-\S+ .*exit code 3`, restarts: 5},
	{name: "crash with a message", container: `{args: [exit, "3", "cannot open the database"], terminationMessagePolicy: FallbackToLogsOnError}`,
		want: certain, cause: `container web keeps crashing \(5 restarts.*cannot open the database`, restarts: 5},
	{name: "exit code 0", container: `args: [exit, "0"]`,
		want: certain, cause: `container web .*5 restarts; 2 of 2 new pods: web-\S+ .*(Completed|exit code 0)`, restarts: 5},
	{name: "out of memory", container: `{args: [fill], resources: {limits: {memory: 16Mi}}}`,
		want: certain, cause: `container web keeps running out of memory \(5 restarts; 2 of 2 new pods: web-`, restarts: 5},
	{name: "missing program", container: `command: [/nope]`,
		want: certain, cause: `container web cannot be started \(3 restarts; 2 of 2 new pods: web-\S+ .*/nope`, restarts: 3},
	{name: "failing init container", pod: `initContainers: [{name: setup, image: "localhost/app:1", args: [exit, "1"]}]`,
		want: certain, cause: `init container setup keeps crashing \(5 restarts; 2 of 2 new pods: web-`, restarts: 5},
	{name: "crashing sidecar", pod: `initContainers: [{name: proxy, image: "localhost/app:1", args: [exit, "1"], restartPolicy: Always, readinessProbe: {tcpSocket: {port: 1}}}]`,
		want: certain, cause: `sidecar container proxy keeps crashing \(5 restarts; 2 of 2 new pods: web-`, restarts: 5},
	{name: "missing ConfigMap", container: `envFrom: [{configMapRef: {name: nope}}]`,
		want: certain, cause: `container web cannot be created \(2 of 2 new pods: web-\S+ CreateContainerConfigError.*configmap "nope" not found`, grace: 90 * time.Second, backoff: 15 * time.Second},
	{name: "missing key of a Secret", objects: `{apiVersion: v1, kind: Secret, metadata: {name: keys}, stringData: {a: b}}`,
		container: `env: [{name: KEY, valueFrom: {secretKeyRef: {name: keys, key: nope}}}]`,
		want:      certain, cause: `container web cannot be created \(2 of 2 new pods: web-\S+ .*couldn't find key nope`, grace: 90 * time.Second, backoff: 15 * time.Second},
	{name: "missing Secret of a volume", pod: `volumes: [{name: tls, secret: {secretName: nope}}]`, container: `volumeMounts: [{name: tls, mountPath: /tls}]`,
		want: certain, cause: `volumes of the new pods cannot be mounted \(2 of 2 new pods: web-\S+ .*secret "nope" not found`, grace: 90 * time.Second, backoff: 65 * time.Second},
	{name: "startup probe", container: `startupProbe: {httpGet: {path: /nope, port: 8080}, periodSeconds: 1, failureThreshold: 3}`,
		want: certain, cause: `container web keeps being killed by its startup probe \([34] restarts; 2 of 2 new pods: web-`, restarts: 3},
	{name: "startup probe without output", container: `startupProbe: {exec: {command: [/app, exit, "1"]}, periodSeconds: 1, failureThreshold: 3}`,
		want: certain, cause: `container web keeps being killed by its startup probe \([34] restarts; 2 of 2 new pods: web-.*startup probe \(command /app\) fails`, restarts: 3},
	{name: "startup probe, exit code 2", container: `{args: [serve, -exit=2], startupProbe: {httpGet: {path: /nope, port: 8080}, periodSeconds: 1, failureThreshold: 3}}`,
		want: certain, cause: `container web keeps crashing \(5 restarts; 2 of 2 new pods: web-\S+ .*exit code 2: after its startup probe GET :8080/nope failed`, restarts: 5},
	{name: "liveness probe", container: `{` + neverReady + `, livenessProbe: {httpGet: {path: /nope, port: 8080}, periodSeconds: 1, failureThreshold: 2}}`,
		want: certain, cause: `container web .*5 restarts; 2 of 2 new pods: web-\S+ .*[Ll]iveness probe`, restarts: 5},
	// The kubelet reports 25 warnings about a pod, and then one every five minutes. Those about readiness would hide the others.
	{name: "liveness probe, exit code 2", container: `{args: [serve, -exit=2], readinessProbe: {httpGet: {path: /nope, port: 8080}, initialDelaySeconds: 60},
  livenessProbe: {httpGet: {path: /nope, port: 8080}, periodSeconds: 2, failureThreshold: 1}}`,
		want: certain, cause: `container web keeps crashing \(5 restarts; 2 of 2 new pods: web-\S+ .*exit code 2: after its liveness probe GET :8080/nope failed`, restarts: 5},
	{name: "readiness probe", container: neverReady, spec: soon,
		want: deadline, cause: `container web is running but not ready \(2 of 2 new pods: web-\S+ .*GET :8080/nope`},
	{name: "hanging init container", pod: `initContainers: [{name: setup, image: "localhost/app:1", args: [sleep]}]`, spec: soon,
		want: deadline, cause: `2 of 2 new pods are starting: web-\S+ .*setup`},
	{name: "not enough CPU", container: `resources: {requests: {cpu: "100"}}`, spec: soon,
		want: deadline, cause: `no node can run the new pods \(2 of 2 new pods: web-\S+ .*Insufficient cpu`},
	{name: "node selector", pod: `nodeSelector: {disk: fast}`, spec: soon,
		want: deadline, cause: `no node can run the new pods \(2 of 2 new pods: web-\S+ .*node affinity/selector`},
	{name: "host port", container: `ports: [{containerPort: 8080, hostPort: 18080}]`, spec: soon,
		want: deadline, cause: `no node can run the new pods \(1 of 2 new pods: web-\S+ .*free ports`},
	{name: "unbound PersistentVolumeClaim", objects: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: nope, resources: {requests: {storage: 1Mi}}}}`,
		pod: `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]`, spec: soon,
		want: deadline, cause: `no node can run the new pods \(2 of 2 new pods: web-\S+ .*PersistentVolumeClaims`},
	{name: "volume of another node", objects: volume("ReadWriteOnce", `, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [other]}]}]}}`),
		pod: `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]`, spec: soon,
		want: deadline, cause: `no node can run the new pods \(2 of 2 new pods: web-\S+ .*[Vv]olume`, remedy: `volume`},
	{name: "ReadWriteOncePod volume of the old pod", objects: volume("ReadWriteOncePod", ""), first: `args: [serve]`, container: `args: [serve, -ready-after=1s]`,
		pod: `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]`, spec: soon + "\nreplicas: 1\nstrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
		want: deadline, cause: `no node can run the new pods \(1 of 1 new pod: web-\S+ .*ReadWriteOncePod`, remedy: `maxSurge|Recreate`},
	{name: "autoscaler finds no node", pod: `nodeSelector: {disk: fast}`, spec: soon,
		later: []change{reaction("cluster-autoscaler", "NotTriggerScaleUp", "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector, 1 max node group size reached")},
		want:  deadline, cause: `no node can run the new pods \(2 of 2 new pods: web-\S+ .*max node group size reached`},
	{name: "scheduling gate", pod: `schedulingGates: [{name: example.com/wait}]`, spec: soon,
		want: deadline, cause: `waiting for scheduling gate example.com/wait \(2 of 2 new pods: web-`},
	{name: "maxSurge 0, maxUnavailable 1", first: `args: [serve]`, container: neverReady,
		spec: soon + "\nstrategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
		want: deadline, cause: `container web is running but not ready \(1 of 1 new pod: web-`},
	{name: "paused", first: `args: [serve]`, container: `args: [serve, -ready-after=1s]`, spec: `paused: true`,
		want: waiting, cause: `paused`},
}

// recovering are the states that end without a change, or in which the missing object is created in time.
var recovering = []state{
	{name: "quota that old pods free", objects: `{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota}, spec: {hard: {pods: "4"}}}`,
		spec:  "replicas: 3\nstrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
		first: `lifecycle: {preStop: {sleep: {seconds: 8}}}`, container: `lifecycle: {preStop: {sleep: {seconds: 8}}}`, pod: `terminationGracePeriodSeconds: 20`},
	{name: "quota raised after 25 s", spec: patient, objects: `{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota}, spec: {hard: {pods: "1"}}}`,
		later: []change{{after: 25 * time.Second, args: []string{"patch", "resourcequota", "quota", "--patch", `{"spec": {"hard": {"pods": "10"}}}`}}}},
	{name: "LimitRange removed after 15 s", objects: `{apiVersion: v1, kind: LimitRange, metadata: {name: limits}, spec: {limits: [{type: Container, max: {cpu: 100m}}]}}`,
		container: `resources: {requests: {cpu: 200m}, limits: {cpu: 200m}}`,
		later:     []change{{after: 15 * time.Second, args: []string{"delete", "limitrange", "limits"}}}},
	pushedAfter(35), pushedAfter(50), pushedAfter(60), pushedAfter(75),
	limitedFor(429, 100), limitedFor(503, 60),
	installedAfter(40, "container"), installedAfter(100, "container"), installedAfter(60, "sidecar"),
	{name: "cluster-autoscaler adds a node after 60 s", pod: `nodeSelector: {NAMESPACE: "yes"}`, flags: unschedulableFails,
		later: []change{reaction("cluster-autoscaler", "TriggeredScaleUp", "pod triggered scale-up: [{workers 1->2 (max: 5)}]"), nodeAppears(60 * time.Second)}},
	{name: "Karpenter adds a node after 60 s", pod: `nodeSelector: {NAMESPACE: "yes"}`, flags: unschedulableFails,
		later: []change{reaction("karpenter", "Nominated", "Pod should schedule on: nodeclaim/workers-x7k2p"), nodeAppears(60 * time.Second)}},
	{name: "ConfigMap created after 65 s", container: `envFrom: [{configMapRef: {name: late}}]`,
		later: []change{{after: 65 * time.Second, args: []string{"create", "configmap", "late"}}}},
	{name: "ServiceAccount created after 60 s", pod: `serviceAccountName: late`,
		later: []change{{after: 60 * time.Second, args: []string{"create", "serviceaccount", "late"}}}},
	// Under load, it may take a while until the kubelet starts the container.
	{name: "slow start within its probe, past the deadline", container: `{args: [serve, -ready-after=90s], startupProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, failureThreshold: 180}}`,
		spec: `progressDeadlineSeconds: 60`},
	{name: "crashes three times", container: `{args: [crash, "3", /state/count], volumeMounts: [{name: state, mountPath: /state}]}`, pod: `volumes: [{name: state, emptyDir: {}}]`},
	{name: "node appears after 30 s", pod: `nodeSelector: {NAMESPACE: "yes"}`, later: []change{nodeAppears(30 * time.Second)}},
	{name: "volume appears after 30 s", objects: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: NAMESPACE, resources: {requests: {storage: 1Mi}}}}`,
		pod: `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]`,
		later: []change{{after: 30 * time.Second, args: []string{"create", "-f", "-"}, stdin: `{apiVersion: v1, kind: PersistentVolume, metadata: {name: NAMESPACE},
			spec: {capacity: {storage: 1Mi}, accessModes: [ReadWriteOnce], storageClassName: NAMESPACE, hostPath: {path: /tmp}}}`}}},
	{name: "webhook fails for 30 s", objects: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NAMESPACE},
		webhooks: [{name: fails.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/"},
		namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}, rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}]}`,
		later: []change{{after: 30 * time.Second, args: []string{"delete", "validatingwebhookconfiguration", "NAMESPACE"}}}},
	{name: "pods evicted", container: `args: [serve, -ready-after=20s]`, later: []change{{after: 10 * time.Second, args: []string{"delete", "pods", "--all", "--wait=false"}}}},
	{name: "quota that a Job frees", spec: patient, objects: `{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota}, spec: {hard: {pods: "2"}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: job}, spec: {activeDeadlineSeconds: 25, backoffLimit: 0, template: {spec: {restartPolicy: Never,
  terminationGracePeriodSeconds: 1, containers: [{name: job, image: "localhost/app:1", args: [sleep]}]}}}}`},
	{name: "crashing pods of the old template", first: `args: [exit, "1"]`, broken: true, container: `args: [serve, -ready-after=10s]`},
	{name: "scaled from 3 to 10 and to 2 in the middle", spec: `replicas: 3`, first: `args: [serve]`, container: `args: [serve, -ready-after=15s]`,
		later: []change{
			{after: 5 * time.Second, args: []string{"scale", "deployment/web", "--replicas=10"}},
			{after: 25 * time.Second, args: []string{"scale", "deployment/web", "--replicas=2"}}}},
	{name: "failing hook with the labels of the pods", objects: `{apiVersion: batch/v1, kind: Job, metadata: {name: hook}, spec: {backoffLimit: 2, template: {
  metadata: {labels: {app: web}}, spec: {restartPolicy: Never, containers: [{name: hook, image: "localhost/app:1", args: [exit, "1"]}]}}}}`,
		container: `args: [serve, -ready-after=30s]`},
	{name: "no replicas", spec: `replicas: 0`},
	{name: "one replica without surge", spec: "replicas: 1\nstrategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
		first: `args: [serve]`, container: `args: [serve, -ready-after=5s]`},
	{name: "Recreate", first: `args: [serve]`, container: `args: [serve, -ready-after=1s]`, spec: "strategy: {type: Recreate, rollingUpdate: null}"},
	{name: "minReadySeconds", spec: `minReadySeconds: 10`},
}
