package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
)

var manifests = flag.Int("manifests", 1000, "how many manifests of several settings are validated")

// settings are fields of the spec of a Deployment, of its pods and of a container. The API server rejects about half of them,
// alone or with another one.
var settings = map[string][]string{
	"spec": {
		`"replicas":0`, `"replicas":-1`, `"replicas":"1"`, `"replicas":1.5`, `"replicas":null`,
		`"minReadySeconds":599`, `"minReadySeconds":600`, `"minReadySeconds":-1`, `"progressDeadlineSeconds":0`,
		`"progressDeadlineSeconds":10`, `"revisionHistoryLimit":-1`, `"paused":true`, `"paused":"true"`, `"unknown":1`,
		`"strategy":{"type":"Recreate"}`, `"strategy":{"type":"Recreate","rollingUpdate":null}`,
		`"strategy":{"type":"Recreate","rollingUpdate":{"maxSurge":1}}`, `"strategy":{"type":"OnDelete"}`,
		`"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":0}}`, `"strategy":{"rollingUpdate":{"maxSurge":"0%","maxUnavailable":0}}`,
		`"strategy":{"rollingUpdate":{"maxSurge":0}}`, `"strategy":{"rollingUpdate":{"maxUnavailable":"100%"}}`,
		`"strategy":{"rollingUpdate":{"maxUnavailable":"101%"}}`, `"strategy":{"rollingUpdate":{"maxSurge":"200%"}}`,
		`"strategy":{"rollingUpdate":{"maxSurge":"1"}}`, `"strategy":{"rollingUpdate":{"maxSurge":-1}}`, `"strategy":{}`,
	},
	"pod": {
		`"restartPolicy":"Never"`, `"restartPolicy":"Always"`, `"restartPolicy":"Sometimes"`, `"activeDeadlineSeconds":60`,
		`"terminationGracePeriodSeconds":0`, `"terminationGracePeriodSeconds":-1`, `"terminationGracePeriodSeconds":"30"`,
		`"dnsPolicy":"None"`, `"dnsPolicy":"Default"`, `"dnsPolicy":"Other"`, `"dnsPolicy":"None","dnsConfig":{"nameservers":["10.0.0.1"]}`,
		`"dnsConfig":{"nameservers":["x"]}`, `"dnsConfig":{"nameservers":["10.0.0.1","10.0.0.2","10.0.0.3","10.0.0.4"]}`,
		`"dnsConfig":{"options":[{"name":"ndots","value":"2"}]}`, `"dnsConfig":{"options":[{"value":"2"}]}`,
		`"hostAliases":[{"ip":"127.0.0.1","hostnames":["a.b"]}]`, `"hostAliases":[{"ip":"x","hostnames":["a"]}]`,
		`"hostAliases":[{"ip":"::1","hostnames":["A_b"]}]`, `"nodeSelector":{"a":"b"}`, `"nodeSelector":{"a/b/c":"b"}`, `"nodeSelector":{"a":"b c"}`,
		`"nodeSelector":{"a":1}`, `"serviceAccountName":"a.b"`, `"serviceAccountName":"A"`, `"priorityClassName":"a b"`,
		`"runtimeClassName":"A"`, `"runtimeClassName":"a"`, `"hostname":"a.b"`, `"hostname":"a"`, `"subdomain":"A"`, `"nodeName":"node-1"`,
		`"imagePullSecrets":[{"name":"a"}]`, `"imagePullSecrets":[{}]`, `"shareProcessNamespace":true`, `"hostPID":true`,
		`"shareProcessNamespace":true,"hostPID":true`, `"preemptionPolicy":"Never"`, `"preemptionPolicy":"No"`,
		`"readinessGates":[{"conditionType":"a.b/C"}]`, `"readinessGates":[{"conditionType":"a b"}]`,
		`"schedulingGates":[{"name":"a.b/c"}]`, `"schedulingGates":[{"name":""}]`,
		`"schedulingGates":[{"name":"a.b/c"},{"name":"a.b/c"}]`,
		`"securityContext":{"runAsUser":0,"fsGroup":1}`, `"securityContext":{"runAsUser":-1}`, `"securityContext":{"fsGroup":2147483648}`,
		`"securityContext":{"supplementalGroups":[1,-1]}`, `"securityContext":{"fsGroupChangePolicy":"Always"}`,
		`"securityContext":{"fsGroupChangePolicy":"Never"}`, `"securityContext":{"seccompProfile":{"type":"RuntimeDefault"}}`,
		`"securityContext":{"seccompProfile":{"type":"Localhost"}}`, `"securityContext":{"seccompProfile":{}}`,
		`"securityContext":{"seccompProfile":{"type":"Unconfined","localhostProfile":"x"}}`,
		`"securityContext":{"runAsNonRoot":"true"}`, `"securityContext":{"supplementalGroupsPolicy":"Some"}`,
		`"tolerations":[{"operator":"Exists"}]`, `"tolerations":[{"key":"a","operator":"Exists","value":"b"}]`, `"tolerations":[{"key":"a","value":"b"}]`,
		`"tolerations":[{"value":"b"}]`, `"tolerations":[{"key":"a","effect":"Never"}]`, `"tolerations":[{"key":"a","operator":"Exists","tolerationSeconds":1}]`,
		`"tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":1}]`, `"tolerations":[{"key":"a b","operator":"Exists"}]`,
		`"tolerations":[{"key":"a","operator":"In"}]`, `"tolerations":[{"key":"a","value":"b c"}]`,
		`"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`,
		`"topologySpreadConstraints":[{"maxSkew":0,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`,
		`"topologySpreadConstraints":[{"maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]`, `"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone"}]`,
		`"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"No"}]`,
		`"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","minDomains":0}]`,
		`"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","minDomains":1}]`,
		`"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","nodeAffinityPolicy":"No"}]`,
		`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]}}}`,
		`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}`,
		`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In"}]}]}}}`,
		`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Gt","values":["x"]}]}]}}}`,
		`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]}]}]}}}`,
		`"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":0,"preference":{"matchExpressions":[{"key":"a","operator":"Exists"}]}}]}}`,
		`"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}}`,
		`"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{}}]}}`,
		`"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","labelSelector":{"matchExpressions":[{"key":"a","operator":"Is"}]}}]}}`,
		`"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","labelSelector":{"matchLabels":{"a b":"c"}}}]}}`,
		`"affinity":{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101,"podAffinityTerm":{"topologyKey":"zone"}}]}}`,
		`"initContainers":[{"name":"init","image":"init"}]`, `"initContainers":[{"name":"web","image":"init"}]`, `"initContainers":[{"name":"init"}]`,
		`"initContainers":[{"name":"init","image":"init","readinessProbe":{"tcpSocket":{"port":1}}}]`,
		`"initContainers":[{"name":"init","image":"init","restartPolicy":"Always","readinessProbe":{"tcpSocket":{"port":1}}}]`,
		`"initContainers":[{"name":"init","image":"init","restartPolicy":"Maybe"}]`, `"ephemeralContainers":[{"name":"e","image":"e"}]`,
		`"volumes":[{"name":"data"}]`, `"volumes":[{"name":"Data","emptyDir":{}}]`, `"volumes":[{"name":"data","emptyDir":{},"configMap":{"name":"a"}}]`,
		`"volumes":[{"name":"data","configMap":{}}]`, `"volumes":[{"name":"data","secret":{"secretName":"a","defaultMode":512}}]`,
		`"volumes":[{"name":"data","secret":{"secretName":"a","items":[{"key":"k","path":"../p"}]}}]`, `"volumes":[{"name":"data","secret":{"secretName":"a","items":[{"key":"k"}]}}]`,
		`"volumes":[{"name":"data","hostPath":{"path":"/a","type":"Any"}}]`, `"volumes":[{"name":"data","hostPath":{"path":"/a/../b"}}]`, `"volumes":[{"name":"data","hostPath":{}}]`,
		`"volumes":[{"name":"data","persistentVolumeClaim":{}}]`, `"volumes":[{"name":"data","emptyDir":{"sizeLimit":"-1"}}]`,
		`"volumes":[{"name":"data","emptyDir":{"medium":"Disk"}}]`, `"volumes":[{"name":"data","nfs":{"server":"a","path":"b"}}]`,
		`"volumes":[{"name":"data","projected":{"sources":[{"configMap":{"name":"a"}},{"serviceAccountToken":{"path":"t"}}]}}]`,
		`"volumes":[{"name":"data","projected":{"sources":[{"configMap":{}}]}}]`, `"volumes":[{"name":"data","projected":{"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":1}}]}}]`,
		`"volumes":[{"name":"data","downwardAPI":{"items":[{"path":"l","fieldRef":{"fieldPath":"metadata.labels"}}]}}]`,
		`"volumes":[{"name":"data","downwardAPI":{"items":[{"path":"l","fieldRef":{"fieldPath":"status.podIP"}}]}}]`,
		`"volumes":[{"name":"data","csi":{"driver":"a.b"}}]`, `"volumes":[{"name":"data","csi":{}}]`,
		`"volumes":[{"name":"data","emptyDir":{}},{"name":"data","emptyDir":{}}]`, `"hostNetwork":true`, `"overhead":{"cpu":"1"}`, `"os":{"name":"linux"}`, `"os":{"name":"beos"}`,
	},
	"container": {
		`"env":[{"name":"A","value":"1"}]`, `"env":[{"name":"A","value":1}]`, `"env":[{"name":"A","value":true}]`, `"env":[{"value":"1"}]`, `"env":[{"name":"A=B"}]`, `"env":[{"name":"1 a"}]`,
		`"env":[{"name":"A","value":"1","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`, `"env":[{"name":"A","valueFrom":{}}]`,
		`"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s"}}}]`, `"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"key":"k"}}}]`,
		`"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"c","key":"a b"}}}]`,
		`"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`, `"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.node"}}}]`,
		`"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['app']"}}}]`, `"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels"}}}]`,
		`"env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}]`, `"env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"cpu"}}}]`,
		`"envFrom":[{"configMapRef":{"name":"a"}}]`, `"envFrom":[{"configMapRef":{}}]`, `"envFrom":[{}]`, `"envFrom":[{"prefix":"a=","configMapRef":{"name":"a"}}]`,
		`"envFrom":[{"configMapRef":{"name":"a"},"secretRef":{"name":"b"}}]`, `"envFrom":[{"secretRef":{"name":"A"}}]`,
		`"ports":[{"containerPort":80}]`, `"ports":[{"containerPort":"80"}]`, `"ports":[{"containerPort":0}]`, `"ports":[{"containerPort":65536}]`, `"ports":[{"containerPort":80,"protocol":"http"}]`,
		`"ports":[{"containerPort":80,"name":"http"},{"containerPort":81,"name":"http"}]`, `"ports":[{"containerPort":80,"name":"a-very-long-name-of-a-port"}]`, `"ports":[{"containerPort":80,"name":"HTTP"}]`, `"ports":[{"containerPort":80,"name":"80"}]`,
		`"ports":[{"containerPort":80,"hostPort":8080}]`, `"ports":[{"containerPort":80,"hostPort":8080},{"containerPort":81,"hostPort":8080}]`, `"ports":[{"containerPort":80,"hostPort":-1}]`, `"ports":[{"containerPort":80,"hostIP":"x"}]`,
		`"resources":{"limits":{"cpu":1.5,"memory":"1Gi"}}`, `"resources":{"limits":{"cpu":"1x"}}`, `"resources":{"limits":{"cpu":"1"},"requests":{"cpu":"2"}}`, `"resources":{"limits":{"cpu":"-1"}}`,
		`"resources":{"requests":{"a.b/gpu":1}}`, `"resources":{"limits":{"a.b/gpu":1}}`, `"resources":{"limits":{"a.b/gpu":"500m"}}`, `"resources":{"limits":{"gpu":1}}`, `"resources":{"limits":{"a.b/gpu":2},"requests":{"a.b/gpu":1}}`,
		`"resources":{"limits":{"hugepages-2Mi":"2Mi"}}`, `"resources":{"limits":{"hugepages-2Mi":"2Mi","memory":"1Gi"}}`, `"resources":{"limits":{"hugepages-2Mi":"1Mi","memory":"1Gi"}}`, `"resources":{"claims":[{"name":"x"}]}`, `"resources":{}`,
		`"livenessProbe":{"httpGet":{"port":80}}`, `"livenessProbe":{"httpGet":{"port":"http"}}`, `"livenessProbe":{"httpGet":{"port":0}}`, `"livenessProbe":{"httpGet":{"port":"http_x"}}`, `"livenessProbe":{"httpGet":{"port":80,"scheme":"ftp"}}`,
		`"livenessProbe":{"httpGet":{"port":80,"httpHeaders":[{"name":"X-A","value":"b"}]}}`, `"livenessProbe":{"httpGet":{"port":80,"httpHeaders":[{"name":"X A","value":"b"}]}}`, `"livenessProbe":{}`, `"livenessProbe":{"periodSeconds":5}`, `"livenessProbe":{"tcpSocket":{"port":80},"httpGet":{"port":80}}`,
		`"livenessProbe":{"tcpSocket":{"port":80},"successThreshold":2}`, `"readinessProbe":{"tcpSocket":{"port":80},"successThreshold":2}`, `"livenessProbe":{"exec":{}}`, `"livenessProbe":{"exec":{"command":["a"]},"periodSeconds":-1}`, `"livenessProbe":{"grpc":{"port":80}}`, `"livenessProbe":{"grpc":{"port":0}}`,
		`"readinessProbe":{"tcpSocket":{"port":80},"terminationGracePeriodSeconds":1}`, `"livenessProbe":{"tcpSocket":{"port":80},"terminationGracePeriodSeconds":0}`, `"startupProbe":{"tcpSocket":{"port":80},"successThreshold":0}`,
		`"lifecycle":{"preStop":{"exec":{"command":["a"]}}}`, `"lifecycle":{"preStop":{"exec":{}}}`, `"lifecycle":{"preStop":{}}`, `"lifecycle":{"preStop":{"sleep":{"seconds":5}}}`, `"lifecycle":{"preStop":{"sleep":{"seconds":-5}}}`, `"lifecycle":{"preStop":{"sleep":{"seconds":500}}}`, `"lifecycle":{"postStart":{"httpGet":{"port":80}}}`,
		`"volumeMounts":[{"name":"data","mountPath":"/data"}]`, `"volumeMounts":[{"name":"other","mountPath":"/data"}]`, `"volumeMounts":[{"name":"data"}]`, `"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"data","mountPath":"/data"}]`, `"volumeMounts":[{"name":"data","mountPath":"/data","subPath":"/a"}]`,
		`"volumeMounts":[{"name":"data","mountPath":"/data","subPath":"a","subPathExpr":"b"}]`, `"volumeMounts":[{"name":"data","mountPath":"/data","mountPropagation":"All"}]`, `"volumeMounts":[{"name":"data","mountPath":"/data","mountPropagation":"Bidirectional"}]`, `"volumeMounts":[{"name":"data","mountPath":"/data","recursiveReadOnly":"Enabled"}]`, `"volumeMounts":[{"name":"data","mountPath":"/a:b"}]`,
		`"imagePullPolicy":"Never"`, `"imagePullPolicy":"Sometimes"`, `"image":""`, `"image":" web"`, `"name":"Web"`, `"name":""`, `"command":["a"]`, `"command":"a"`, `"args":[1]`, `"terminationMessagePolicy":"Log"`, `"terminationMessagePolicy":"File"`, `"tty":"yes"`, `"stdin":true`, `"unknown":null`, `"unknown":1`, `"workingDir":7`,
		`"securityContext":{"runAsUser":-1}`, `"securityContext":{"privileged":true,"allowPrivilegeEscalation":false}`, `"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"add":["CAP_SYS_ADMIN"]}}`, `"securityContext":{"procMount":"Unmasked"}`, `"securityContext":{"procMount":"Some"}`, `"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"../a"}}`,
		`"resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"}]`, `"resizePolicy":[{"resourceName":"disk","restartPolicy":"NotRequired"}]`, `"volumeDevices":[{"name":"data","devicePath":"/dev/a"}]`, `"restartPolicy":"Always"`,
	},
}

// manifest returns a manifest with these settings, each with its place.
func manifest(chosen [][2]string) string {
	fields := map[string]string{}
	for _, setting := range chosen {
		fields[setting[0]] += "," + setting[1]
	}
	container := `{"name":"web","image":"web:2"` + fields["container"] + `}`
	template := `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[` + container + `]` + fields["pod"] + `}}`
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},` +
		`"spec":{"selector":{"matchLabels":{"app":"web"}},"template":` + template + fields["spec"] + `}}`
}

// upstreamRefusal returns why the API server rejects a manifest that is applied with strict validation, or "".
func upstreamRefusal(text string, decoder runtime.Decoder) string {
	object, _, err := decoder.Decode([]byte(text), nil, nil)
	if err != nil {
		return err.Error()
	}
	deployment := object.(*apps.Deployment)
	opts := pod.GetValidationOptionsFromPodTemplate(&deployment.Spec.Template, nil)
	if errors := appsvalidation.ValidateDeployment(deployment, opts); len(errors) > 0 {
		return errors.ToAggregate().Error()
	}
	return ""
}

func TestManifestsAreRefusedAsByTheAPIServer(t *testing.T) {
	worker := both(t)
	decoder := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()
	live, err := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1},
		"spec": map[string]any{
			"replicas": 1, "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web:1"}}},
			},
		},
	})
	must(err)
	ours := func(text string) string {
		request, err := json.Marshal(map[string]any{
			"snapshot": map[string]any{
				"now": "2026-02-01T00:00:00Z", "objects": []string{string(live)}, "replicaSetsComplete": true, "podsComplete": true,
			},
			"changes": []any{map[string]any{"deployment": text}}, "samples": 1,
		})
		must(err)
		line, err := worker.ours.planner.Plan(append([]byte("ForecastRollout "), request...))
		must(err)
		var answer struct{ Error json.RawMessage }
		must(json.Unmarshal(line, &answer))
		if string(answer.Error) == "null" {
			return ""
		}
		return string(answer.Error)
	}
	refused, accepted := 0, 0
	check := func(chosen [][2]string) {
		text := manifest(chosen)
		theirs, our := upstreamRefusal(text, decoder), ours(text)
		if theirs == "" {
			accepted++
		} else {
			refused++
		}
		if (theirs == "") != (our == "") {
			t.Errorf("%v\nkubernetes: %s\nrollplan: %s", chosen, theirs, our)
		}
	}
	var all [][2]string
	for _, place := range []string{"spec", "pod", "container"} {
		for _, setting := range settings[place] {
			all = append(all, [2]string{place, setting})
			check([][2]string{{place, setting}})
		}
	}
	random := rand.New(rand.NewPCG(42, 3))
	for range *manifests {
		keys := map[string]bool{}
		var chosen [][2]string
		for range 1 + random.IntN(3) {
			setting := all[random.IntN(len(all))]
			key, _, _ := strings.Cut(setting[1], ":")
			// A key must not occur twice.
			if id := fmt.Sprint(setting[0], key); !keys[id] && strings.Count(setting[1], `,"host`) == 0 {
				keys[id] = true
				chosen = append(chosen, setting)
			}
		}
		check(chosen)
	}
	t.Logf("%d refused, %d accepted", refused, accepted)
	if refused < 200 || accepted < 200 {
		t.Errorf("%d refused and %d accepted test little", refused, accepted)
	}
}
