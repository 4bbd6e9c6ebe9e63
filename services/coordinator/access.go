package coordinator

import (
	"fmt"
	"log/slog"
	"net"
	"os"

	"google.golang.org/grpc"

	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/telemetry"
)

// openGuard makes the guard of all calls if callers show certificates. Without
// certificates there is no guard: every caller may do everything.
func (o *Coordinator) openGuard() error {
	c := &o.config
	if c.Security.CA == "" {
		if c.AccessPolicy != "" || len(c.AccessAdmins) > 0 {
			return fmt.Errorf("%w: --access-policy and --access-admin need --tls-cert, --tls-key and --tls-ca: "+
				"they are about the certificates of callers", ErrSettings)
		}
		return nil
	}
	clients, err := c.Security.Clients()
	if err != nil {
		return err
	}
	o.guard, err = access.Open(access.Settings{Policy: c.AccessPolicy, Admins: c.AccessAdmins, Clients: clients,
		Log: o.log})
	if err != nil {
		return fmt.Errorf("%w: --access-policy: %w", ErrSettings, err)
	}
	return nil
}

// interceptors are what each call passes.
func (o *Coordinator) interceptors() []grpc.ServerOption {
	options := []grpc.ServerOption{grpc.ChainUnaryInterceptor(quota.InTime)}
	if o.guard == nil {
		return options
	}
	return append(options, grpc.ChainUnaryInterceptor(o.guard.Unary), grpc.ChainStreamInterceptor(o.guard.Stream))
}

// checkCallersKnown refuses a gRPC port beyond loopback whose callers show no
// certificate: they could do everything.
func (o *Coordinator) checkCallersKnown(flag, address string) error {
	s := o.config.Security
	host, _, err := net.SplitHostPort(address)
	if err != nil || s.CA != "" || s.Insecure || telemetry.Loopback(host) {
		return nil // Listen reports a bad address
	}
	return fmt.Errorf("%w: %s %s: not a loopback address, and without --tls-ca callers show no certificate, so that "+
		"anyone may do everything: give --tls-ca, or --insecure if that is meant", ErrSettings, flag, address)
}

// audit is where changes are recorded. The file stays open until the process ends.
func (o *Coordinator) audit() (*slog.Logger, error) {
	if o.config.AuditLog == "" {
		return o.log, nil
	}
	f, err := os.OpenFile(o.config.AuditLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	return slog.New(slog.NewJSONHandler(f, nil)), nil
}
