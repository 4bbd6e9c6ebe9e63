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

{{- define "titrate.tlsSecret" -}}
{{- .Values.tls.existingSecret | default (printf "%s-tls" (include "titrate.name" .)) -}}
{{- end -}}

{{- define "titrate.agentTlsSecret" -}}
{{- .Values.tls.existingAgentSecret | default .Values.tls.existingSecret | default (printf "%s-agent-tls" (include "titrate.name" .)) -}}
{{- end -}}

{{/* The grants of the certificates that the chart makes, then those of the values. */}}
{{- define "titrate.accessPolicy" -}}
{{- $name := include "titrate.name" . -}}
{{- if and .Values.tls.existingSecret (not .Values.access.grants) -}}
{{- fail "tls.existingSecret: say in access.grants who is an agent and who an admin, such as access.grants=[{id: agents.example.org, role: agent, names: ['*']}, {id: ops.example.org, role: admin}]; a certificate without a grant may do nothing" -}}
{{- end -}}
{{- $own := list -}}
{{- if not .Values.tls.existingSecret -}}
{{- $own = list (dict "id" (printf "agents.%s.titrate" $name) "role" "agent" "names" (list (printf "%s-gateway-*" $name))) (dict "id" (printf "admin.%s.titrate" $name) "role" "admin") -}}
{{- end -}}
{{- dict "grants" (concat $own .Values.access.grants) | toYaml -}}
{{- end -}}

{{- define "titrate.agentPort" -}}
{{- if .Values.coordinator.separateListeners }}7402{{ else }}7400{{ end -}}
{{- end -}}

{{- define "titrate.gossipSecret" -}}
{{- .Values.gossip.existingSecret | default (printf "%s-gossip" (include "titrate.name" .)) -}}
{{- end -}}

{{- define "titrate.etcdEndpoints" -}}
{{- if .Values.etcd.endpoints -}}
{{- join "," .Values.etcd.endpoints -}}
{{- else -}}
http://{{ include "titrate.name" . }}-etcd:2379
{{- end -}}
{{- end -}}

{{- define "titrate.tlsFlags" -}}
- --tls-ca=/etc/titrate/tls/ca.crt
- --tls-cert=/etc/titrate/tls/tls.crt
- --tls-key=/etc/titrate/tls/tls.key
{{- end -}}

{{- define "titrate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "titrate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
