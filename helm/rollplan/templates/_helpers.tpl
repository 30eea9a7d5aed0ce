{{- define "rollplan.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Full name. 44 characters leave room for the longest suffix, `-controller-metrics`. */}}
{{- define "rollplan.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "rollplan.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 44 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 44 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rollplan.controllerName" -}}
{{- printf "%s-controller" (include "rollplan.fullname" .) -}}
{{- end -}}

{{/* Name of the lease of leader election. Each release has its own, and so has each mode, in case an upgrade changes it. */}}
{{- define "rollplan.leaseName" -}}
{{- printf "%s-%s" (include "rollplan.controllerName" .) .Values.adapter.mode -}}
{{- end -}}

{{/* Name of cluster-scoped objects. It has the namespace, because a release in another namespace may have the same name. */}}
{{- define "rollplan.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "rollplan.controllerName" .) -}}
{{- end -}}

{{/* Selector labels of a component: (list $ "server"). */}}
{{- define "rollplan.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "rollplan.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of an object of a component: (list $ "server"). */}}
{{- define "rollplan.labels" -}}
{{- $root := index . 0 -}}
{{ include "rollplan.selectorLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Reference of an image: (list $ $imageValues). */}}
{{- define "rollplan.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}
@{{ $image.digest }}
{{- else -}}
:{{ $image.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "rollplan.serviceAccountName" -}}
{{- $default := ternary (include "rollplan.fullname" .) "default" .Values.server.serviceAccount.create -}}
{{- .Values.server.serviceAccount.name | default $default -}}
{{- end -}}

{{- define "rollplan.controllerServiceAccountName" -}}
{{- $default := ternary (include "rollplan.controllerName" .) "default" .Values.adapter.serviceAccount.create -}}
{{- .Values.adapter.serviceAccount.name | default $default -}}
{{- end -}}

{{/* Topology spread constraints with a label selector: (list $ "server" $constraints). */}}
{{- define "rollplan.topologySpreadConstraints" -}}
{{- $labels := include "rollplan.selectorLabels" (list (index . 0) (index . 1)) | fromYaml -}}
{{- range index . 2 }}
{{- $selector := get . "labelSelector" | default (dict "matchLabels" $labels) }}
- {{ merge (dict "labelSelector" $selector) . | toYaml | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{/* Options of `rollplan serve`, from settings in camel case. */}}
{{- define "rollplan.settings" -}}
{{- range $name, $value := . }}
- --{{ kebabcase $name }}={{ $value | toJson | trimAll "\"" }}
{{- end }}
{{- end -}}

{{/* How the probes of the service are sent. */}}
{{- define "rollplan.probeType" -}}
{{- .Values.server.probes.type | default (ternary "http" "grpc" .Values.tls.enabled) -}}
{{- end -}}

{{/* The handler of the readiness and startup probes. */}}
{{- define "rollplan.readinessHandler" -}}
{{- if eq (include "rollplan.probeType" .) "grpc" -}}
grpc:
  port: 50051
  service: rollplan.v1.RolloutPlanner
{{- else -}}
httpGet:
  path: /readyz
  port: metrics
{{- end -}}
{{- end -}}

{{- define "rollplan.tlsSecretName" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "rollplan.fullname" .)) -}}
{{- end -}}

{{/* Where the adapter requests plans: "service" or "sidecar". */}}
{{- define "rollplan.planner" -}}
{{- $sidecar := or (not .Values.server.enabled) (eq .Values.adapter.mode "takeover") -}}
{{- .Values.adapter.planner | default (ternary "sidecar" "service" $sidecar) -}}
{{- end -}}

{{/* "true" if there is a headless Service: for the adapter, or because it is enabled. */}}
{{- define "rollplan.headless" -}}
{{- $adapter := and .Values.adapter.enabled (eq (include "rollplan.planner" .) "service") -}}
{{- if and .Values.server.enabled (or .Values.service.headless.enabled $adapter) -}}true{{- end -}}
{{- end -}}

{{/* The ports of a Service for calls: both lead to the same container port. */}}
{{- define "rollplan.apiPorts" -}}
- name: grpc
  port: {{ .Values.service.grpc.port }}
  targetPort: grpc
  appProtocol: {{ .Values.service.grpc.appProtocol | default (ternary "https" "kubernetes.io/h2c" .Values.tls.enabled) }}
- name: http
  port: {{ .Values.service.http.port }}
  targetPort: grpc
  appProtocol: {{ .Values.service.http.appProtocol | default (ternary "https" "http" .Values.tls.enabled) }}
{{- end -}}
