// Package charts tests the Helm chart and the Envoy configurations that we ship. They are linted and
// rendered by real Helm (pinned in tools/helm), decoded strictly into Kubernetes' own types, and
// validated by real Envoy with the real filter.
package charts
