{{- define "streammetrics.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "streammetrics.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "streammetrics.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "streammetrics.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The address of the page: the value, that of the Ingress, or the exporter's service inside the cluster. */}}
{{- define "streammetrics.page" -}}
{{- if .Values.page }}
{{- trimSuffix "/" .Values.page }}
{{- else if .Values.ingress.enabled }}
{{- printf "%s://%s" (empty .Values.ingress.tlsSecret | ternary "http" "https") .Values.ingress.host }}
{{- else }}
{{- printf "%s://%s.%s:%v" (lower .Values.http.scheme) (include "streammetrics.fullname" .) .Release.Namespace .Values.http.port }}
{{- end }}
{{- end }}

{{- define "streammetrics.selector" -}}
app.kubernetes.io/name: {{ include "streammetrics.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "streammetrics.labels" -}}
{{ include "streammetrics.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "streammetrics.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "streammetrics.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "streammetrics.image" -}}
{{- $name := empty .Values.image.registry | ternary .Values.image.repository (printf "%s/%s" .Values.image.registry .Values.image.repository) -}}
{{- if and .Values.image.digest (not .Values.image.tag) -}}
{{ $name }}@{{ .Values.image.digest }}
{{- else -}}
{{ $name }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* The pod-level settings that every pod of the release shares. */}}
{{- define "streammetrics.pod" -}}
serviceAccountName: {{ include "streammetrics.serviceAccount" . }}
automountServiceAccountToken: false
# A service that is called streammetrics would put variables of that prefix into the pods.
enableServiceLinks: false
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: config
    configMap: {name: {{ include "streammetrics.fullname" . }}}
  # numpy and others look for a place to write; the root file system is read-only.
  - name: tmp
    emptyDir: {sizeLimit: 64Mi}
  {{- range .Values.secrets }}
  - name: secret-{{ .key | replace "." "-" | replace "_" "-" }}
    secret:
      secretName: {{ .secretName }}
      defaultMode: 0440
      items: [{key: {{ .secretKey | quote }}, path: value}]
  {{- end }}
  {{- range .Values.certificates }}
  - name: certificates-{{ .name }}
    secret: {secretName: {{ .secretName }}, defaultMode: 0440}
  {{- end }}
{{- end }}

{{/* The container-level settings that every container shares. */}}
{{- define "streammetrics.container" -}}
image: {{ include "streammetrics.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/streammetrics/streammetrics.toml, subPath: streammetrics.toml, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- range .Values.secrets }}
  - {name: secret-{{ .key | replace "." "-" | replace "_" "-" }}, mountPath: /etc/streammetrics/secrets/{{ .key }}, readOnly: true}
  {{- end }}
  {{- range .Values.certificates }}
  - {name: certificates-{{ .name }}, mountPath: /etc/streammetrics/certificates/{{ .name }}, readOnly: true}
  {{- end }}
{{- end }}

{{- define "streammetrics.env" -}}
- {name: STREAMMETRICS_CONFIG, value: /etc/streammetrics/streammetrics.toml}
- {name: STREAMMETRICS_HTTP_HOST, value: "0.0.0.0"}
- {name: STREAMMETRICS_HTTP_PORT, value: {{ .Values.http.port | quote }}}
- {name: STREAMMETRICS_LOG_FORMAT, value: json}
{{- range .Values.secrets }}
- name: STREAMMETRICS_{{ .key | upper | replace "." "_" }}_FILE
  value: /etc/streammetrics/secrets/{{ .key }}/value
{{- end }}
{{- end }}

{{/* Live: the loop moves, whatever Kafka and Redis do. Ready: everything that this process needs is there. */}}
{{- define "streammetrics.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ .Values.http.scheme }}}
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ .Values.http.scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ .Values.http.scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}

{{/* Where pods may and should run: give `root` and `role` (worker or exporter). */}}
{{- define "streammetrics.scheduling" -}}
{{- $own := index .root.Values .role }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $own $field }}
{{ $field }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
topologySpreadConstraints:
{{- if $own.topologySpreadConstraints }}
  {{- toYaml $own.topologySpreadConstraints | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "streammetrics.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
{{- end }}
{{- end }}

{{/* The files that packaging adds: rules and dashboards. Give `root`, `pattern` and `value`. */}}
{{- define "streammetrics.requireFiles" -}}
{{- if not (.root.Files.Glob .pattern) }}
{{- fail (printf "%s needs the files %s, which a checkout of the chart does not have: install what deploy/helm/package.sh makes" .value .pattern) }}
{{- end }}
{{- end }}

{{/* A list that must not be empty. Give `list` and `otherwise`, the words for the operator. */}}
{{- define "streammetrics.requireList" -}}
{{- if not .list }}{{ fail .otherwise }}{{ end }}
{{- toYaml .list }}
{{- end }}
