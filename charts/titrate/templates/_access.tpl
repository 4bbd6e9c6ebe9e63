{{- define "titrate.tlsSecret" -}}
{{- .Values.tls.existingSecret | default (printf "%s-tls" (include "titrate.name" .)) -}}
{{- end -}}

{{- define "titrate.agentTlsSecret" -}}
{{- .Values.tls.existingAgentSecret | default .Values.tls.existingSecret | default (printf "%s-agent-tls" (include "titrate.name" .)) -}}
{{- end -}}

{{- define "titrate.adminTlsSecret" -}}
{{- .Values.tls.existingAdminSecret | default .Values.tls.existingSecret | default (printf "%s-admin-tls" (include "titrate.name" .)) -}}
{{- end -}}

{{- define "titrate.gossipSecret" -}}
{{- .Values.gossip.existingSecret | default (printf "%s-gossip" (include "titrate.name" .)) -}}
{{- end -}}

{{/* The certificates of the release, all of one CA: their secrets, and the names that they are for. */}}
{{- define "titrate.certificates" -}}
{{- $name := include "titrate.name" . -}}
{{- $coordinator := printf "%s-coordinator" $name -}}
{{- $rls := printf "%s-rls" $name -}}
{{- $ns := .Release.Namespace -}}
- secret: {{ $name }}-tls
  names: [localhost, {{ $coordinator }}, {{ $coordinator }}.{{ $ns }}.svc, "*.{{ $coordinator }}.{{ $ns }}.svc"]
  addresses: ["127.0.0.1"] # for kubectl port-forward
- secret: {{ $name }}-agent-tls
  names: [agents.{{ $name }}.titrate, {{ $rls }}, {{ $rls }}.{{ $ns }}.svc]
- secret: {{ $name }}-admin-tls
  names: [admin.{{ $name }}.titrate]
- secret: {{ $name }}-client-tls
  names: [clients.{{ $name }}.titrate]
{{- end -}}

{{/* Those of etcd, of a CA of their own: members, and coordinators as its clients. */}}
{{- define "titrate.etcdCertificates" -}}
{{- $name := include "titrate.name" . -}}
{{- $members := printf "%s-etcd-members" $name -}}
- secret: {{ $name }}-etcd-tls
  names: [{{ $members }}, "*.{{ $members }}.{{ .Release.Namespace }}.svc", localhost]
- secret: {{ $name }}-etcd-client-tls
  names: [coordinators.{{ $name }}.titrate]
{{- end -}}

{{/* Who may be an agent, by the names of pods and nodes. */}}
{{- define "titrate.agentNames" -}}
{{- $name := include "titrate.name" . -}}
{{- $names := list -}}
{{- if .Values.gateway.enabled }}{{ $names = append $names (printf "%s-gateway-*" $name) }}{{ end -}}
{{- if .Values.rls.enabled }}{{ $names = append $names (printf "%s-rls-*" $name) }}{{ end -}}
{{- if .Values.daemonSet.enabled }}{{ $names = append $names (printf "%s-agent-*" $name) }}{{ end -}}
{{- if .Values.sidecar.enabled }}{{ $names = concat $names .Values.sidecar.pods }}{{ end -}}
{{- toYaml $names -}}
{{- end -}}

{{/* The grants of the certificates that the chart makes, then those of the values. */}}
{{- define "titrate.accessPolicy" -}}
{{- $name := include "titrate.name" . -}}
{{- if and .Values.tls.existingSecret (not .Values.access.grants) -}}
{{- fail "tls.existingSecret: say in access.grants who is an agent and who an admin, such as access.grants=[{id: agents.example.org, role: agent, names: ['*']}, {id: ops.example.org, role: admin}]; a certificate without a grant may do nothing" -}}
{{- end -}}
{{- $own := list -}}
{{- if not .Values.tls.existingSecret -}}
{{- with include "titrate.agentNames" . | fromYamlArray -}}
{{- $own = append $own (dict "id" (printf "agents.%s.titrate" $name) "role" "agent" "names" .) -}}
{{- end -}}
{{- $own = append $own (dict "id" (printf "admin.%s.titrate" $name) "role" "admin") -}}
{{- end -}}
{{- dict "grants" (concat $own .Values.access.grants) | toYaml -}}
{{- end -}}

{{/* Flags of a command that asks coordinators as an admin; its pod mounts titrate.adminTlsSecret. */}}
{{- define "titrate.adminFlags" -}}
- --server={{ include "titrate.name" . }}-coordinator:7400
- --timeout=30s
{{ include "titrate.tlsFlags" . }}
{{- end -}}

{{/* The coordinator's flags for tokens and JWTs. */}}
{{- define "titrate.tokenFlags" -}}
{{- $jwt := .Values.access.jwt -}}
{{- if .Values.access.tokensSecret }}
- --tokens=/etc/titrate/tokens/tokens.yaml
{{- end }}
{{- if $jwt.keysConfigMap }}
- --jwks=/etc/titrate/jwks/jwks.json
- {{ printf "--jwt-issuer=%s" (required "access.jwt.issuer: say what the claim iss of a JWT must be" $jwt.issuer) | quote }}
- {{ printf "--jwt-audience=%s" (required "access.jwt.audience: say what the claim aud of a JWT must have" $jwt.audience) | quote }}
{{- range $what, $claim := $jwt.claims }}
- {{ printf "--jwt-claims=%s=%s" $what $claim | quote }}
{{- end }}
{{- else if or $jwt.issuer $jwt.audience $jwt.claims -}}
{{- fail "access.jwt.keysConfigMap: JWTs need the ConfigMap with the keys that sign them, under the key `jwks.json`" -}}
{{- end }}
{{- end -}}
