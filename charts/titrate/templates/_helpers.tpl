{{- define "titrate.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "titrate.labels" -}}
app.kubernetes.io/name: titrate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* selector ROOT COMPONENT */}}
{{- define "titrate.selector" -}}
app.kubernetes.io/name: titrate
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* image ROOT NAME: a name with a tag or a digest as it is, another one with registry and tag. */}}
{{- define "titrate.image" -}}
{{- $root := index . 0 }}{{ $name := index . 1 }}
{{- if regexMatch "@|:[^/]+$" $name -}}
{{ $name }}
{{- else -}}
{{ $root.Values.images.registry }}{{ $name }}:{{ $root.Values.images.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* pod ROOT: what all pods have in common. */}}
{{- define "titrate.pod" -}}
automountServiceAccountToken: false
{{- with .Values.images.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "titrate.podSecurity" . | nindent 2 }}
{{- end -}}

{{/* container ROOT NAME: image and security of a container. */}}
{{- define "titrate.container" -}}
image: {{ include "titrate.image" . }}
imagePullPolicy: {{ (index . 0).Values.images.pullPolicy }}
securityContext: {{- include "titrate.containerSecurity" . | nindent 2 }}
{{- end -}}

{{- define "titrate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "titrate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* scheduling ROOT COMPONENT VALUES: a node each, and zones evenly. */}}
{{- define "titrate.scheduling" -}}
{{- $values := index . 2 -}}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  podAntiAffinity:
    {{- if eq $values.spread "hard" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "titrate.selector" . | nindent 12 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "titrate.selector" . | nindent 14 }}
    {{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "titrate.selector" . | nindent 8 }}
{{- end -}}

{{/* scrape ROOT PORT: annotations for a Prometheus without the operator. */}}
{{- define "titrate.scrape" -}}
{{- if not (index . 0).Values.metrics.monitors -}}
prometheus.io/scrape: "true"
prometheus.io/scheme: https
prometheus.io/port: {{ index . 1 | quote }}
{{- end -}}
{{- end -}}

{{- define "titrate.agentPort" -}}
{{- if .Values.coordinator.separateListeners }}7402{{ else }}7400{{ end -}}
{{- end -}}

{{- define "titrate.tlsFlags" -}}
- --tls-ca=/etc/titrate/tls/ca.crt
- --tls-cert=/etc/titrate/tls/tls.crt
- --tls-key=/etc/titrate/tls/tls.key
{{- end -}}

{{- define "titrate.etcdEndpoints" -}}
{{- if .Values.etcd.endpoints -}}
{{- join "," .Values.etcd.endpoints -}}
{{- else -}}
{{- $name := include "titrate.name" . -}}
{{- $all := list -}}
{{- range $i := until (int .Values.etcd.replicas) -}}
{{- $all = append $all (printf "https://%s-etcd-%d.%s-etcd-members.%s.svc:2379" $name $i $name $.Release.Namespace) -}}
{{- end -}}
{{- join "," $all -}}
{{- end -}}
{{- end -}}

{{/* monitorTLS ROOT SECRET NAME: how a scrape knows the other side. Names in certificates of yours are not known here. */}}
{{- define "titrate.monitorTLS" -}}
ca: {secret: {name: {{ index . 1 }}, key: ca.crt}}
{{- if (index . 0).Values.tls.existingSecret }}
insecureSkipVerify: true
{{- else }}
serverName: {{ index . 2 }}
{{- end }}
{{- end -}}
