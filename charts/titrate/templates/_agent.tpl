{{/*
The agent's container. Keys: root; agent, its name; native, whether it is an init container that goes
on; group, who may connect beside its own user (0 = nobody); flags, a list; mounts, a list.
*/}}
{{- define "titrate.agent" -}}
{{- $root := .root }}
{{- $name := include "titrate.name" $root -}}
- name: agent
  {{- include "titrate.container" (list $root $root.Values.images.titrate) | nindent 2 }}
  {{- if .native }}
  restartPolicy: Always
  {{- end }}
  args:
    - agent
    - --name={{ .agent }}
    - --socket=/run/titrate/agent.sock
    {{- if .group }}
    - --socket-group={{ .group }}
    {{- end }}
    - --coordinator={{ $name }}-coordinator:{{ include "titrate.agentPort" $root }}
    - --gossip=0.0.0.0:7500
    - --gossip-advertise=$(POD_IP):7500
    - --gossip-key-file=/etc/titrate/gossip/gossip.key
    - --join={{ $name }}-gossip:7500
    - --period={{ $root.Values.gossip.period }}
    - --exact-within={{ $root.Values.gossip.exactWithin }}
    {{- with $root.Values.gossip.site }}
    - --site={{ . }}
    {{- end }}
    - --admin=0.0.0.0:7501
    - --snapshot-dir=/run/titrate/snapshot
    {{- include "titrate.tlsFlags" $root | nindent 4 }}
    {{- range concat (.flags | default list) $root.Values.agent.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    - name: NODE_NAME
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
    {{- with $root.Values.agent.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports: # gossip is UDP, too: patches know ports by their numbers, so a second 7500 would make them fail
    - {name: gossip-tcp, containerPort: 7500}
    - {name: agent-admin, containerPort: 7501}
  startupProbe:
    httpGet: {path: /healthz, port: agent-admin, scheme: HTTPS}
    periodSeconds: 1
    failureThreshold: 60
  livenessProbe:
    httpGet: {path: /healthz, port: agent-admin, scheme: HTTPS}
  readinessProbe:
    httpGet: {path: {{ ternary "/readyz" "/healthz" $root.Values.agent.readyWithConfiguration }}, port: agent-admin, scheme: HTTPS}
    periodSeconds: 2
  resources: {{- toYaml $root.Values.agent.resources | nindent 4 }}
  volumeMounts:
    - {name: titrate-run, mountPath: /run/titrate}
    - {name: titrate-tls, mountPath: /etc/titrate/tls, readOnly: true}
    - {name: titrate-gossip, mountPath: /etc/titrate/gossip, readOnly: true}
    {{- with .mounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Secrets that the agent's container mounts. Its pod has titrate-run, too. */}}
{{- define "titrate.agentVolumes" -}}
- name: titrate-tls
  secret: {secretName: {{ include "titrate.agentTlsSecret" . }}, defaultMode: 0440}
- name: titrate-gossip
  secret: {secretName: {{ include "titrate.gossipSecret" . }}, defaultMode: 0440}
{{- end -}}

{{/* Label of all pods with an agent: the others find them by it. */}}
{{- define "titrate.agentsLabel" -}}
titrate.dev/agents: {{ include "titrate.name" . }}
{{- end -}}

{{/* sidecarContainer ROOT NAME: as titrate.container, in a pod whose users are not known. */}}
{{- define "titrate.sidecarContainer" -}}
image: {{ include "titrate.image" . }}
imagePullPolicy: {{ (index . 0).Values.images.pullPolicy }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
  {{- include "titrate.containerSecurity" . | nindent 2 }}
{{- end -}}

{{/* moduleContainer ROOT HOW: copies libtitrate.so into the volume titrate-module. */}}
{{- define "titrate.moduleContainer" -}}
{{- $root := index . 0 -}}
- name: titrate-module
  {{- include (index . 1) (list $root $root.Values.images.module) | nindent 2 }}
  args: [/titrate]
  resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 128Mi}}
  volumeMounts:
    - {name: titrate-module, mountPath: /titrate}
{{- end -}}
