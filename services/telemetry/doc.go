// Package telemetry has the common parts of every long-running Titrate process:
// its log, its metrics, its HTTP admin server and the rule for opening a port.
//
// # Model
//
//   - [Log]: one slog logger, text or JSON, with a level.
//   - [Metrics]: an OpenTelemetry MeterProvider that Prometheus scrapes and,
//     when an OTLP endpoint is given, that is pushed by gRPC as well. Instruments
//     are made from [Metrics.Meter]; there is no global provider.
//   - [Admin]: an HTTP server with /metrics, /healthz (the process runs), /readyz
//     (every named check passes; the answer lists the failed ones) and whatever
//     else its owner adds.
//   - [Security]: TLS flags, turned into server and client configurations; a CA
//     makes it mutual. Certificates are read on each handshake, so rotated
//     files need no restart.
//   - [Security.Listen]: opens a TCP port. Safe by default: without TLS and
//     without --insecure only loopback addresses are opened.
//
// # Invariants
//
// Nothing here writes to a global. Every error names the flag or the address that it is about and what would be right.
package telemetry
