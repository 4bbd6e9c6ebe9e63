package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"google.golang.org/grpc"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/audit"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/telemetry"
)

// takesTokens reports whether callers of the admin API may be known by tokens.
func (c *Config) takesTokens() bool { return c.Tokens != "" || c.JWT.Keys != "" }

// openGuard makes the guard of all calls if callers show certificates or send tokens.
// Otherwise there is no guard: every caller may do everything.
func (o *Coordinator) openGuard() error {
	c := &o.config
	if c.Security.CA == "" {
		if len(c.AccessAdmins) > 0 || c.AccessPolicy != "" && c.JWT.Keys == "" {
			return fmt.Errorf("%w: --access-policy and --access-admin need --tls-cert, --tls-key and --tls-ca: "+
				"they are about the certificates of callers", ErrSettings)
		}
		if !c.takesTokens() {
			return nil
		}
	}
	clients, err := c.Security.Clients()
	if err != nil {
		return err
	}
	o.guard, err = access.Open(access.Settings{Policy: c.AccessPolicy, Admins: c.AccessAdmins, Tokens: c.Tokens,
		JWT: c.JWT, Clients: clients, AgentsUnknown: c.Security.CA == "", Log: o.log})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return nil
}

// unary returns the interceptors of calls without streams, over gRPC and over HTTP.
func (o *Coordinator) unary() []grpc.UnaryServerInterceptor {
	if o.guard == nil {
		return []grpc.UnaryServerInterceptor{quota.InTime}
	}
	return []grpc.UnaryServerInterceptor{quota.InTime, o.guard.Unary}
}

// streamed returns the interceptors of streams.
func (o *Coordinator) streamed() []grpc.StreamServerInterceptor {
	if o.guard == nil {
		return nil
	}
	return []grpc.StreamServerInterceptor{o.guard.Stream}
}

// admit refuses a call before its message is read, if its caller may not make it whatever the message says.
func (o *Coordinator) admit(ctx context.Context, method string) error {
	if method == controlv1.PeerService_Ask_FullMethodName {
		return o.peers.known(ctx)
	}
	if o.guard == nil {
		return nil
	}
	return o.guard.Early(ctx, method)
}

const (
	// maxMessage bounds a message with any number of resources: an apply of 500,000 documents has room.
	maxMessage = 64 << 20
	// maxEntries bounds the messages and the elements of lists in such a message: four for each of those
	// documents. Decoded, 2,000,000 empty ones take 240 MB.
	maxEntries = 2_000_000
)

// bounds returns the bounds of one message of a method. A method that is not named here takes a
// message of one resource at most. What anyone may call takes no more than it needs.
func bounds(method string) intake.Bounds {
	if strings.HasPrefix(method, "/grpc.") { // health and reflection
		return intake.Bounds{Bytes: 4 << 10, Entries: 100}
	}
	switch method {
	case quotav1.AccessService_GetAccess_FullMethodName:
		return intake.Bounds{Bytes: 64 << 10, Entries: 100}
	case quotav1.QuotaService_Apply_FullMethodName, quotav1.QuotaService_Plan_FullMethodName,
		controlv1.PeerService_Ask_FullMethodName: // of resources, as in Plan
		return intake.Bounds{Bytes: maxMessage, Entries: maxEntries}
	case controlv1.ControlService_Connect_FullMethodName: // a report of 100,000 flows has room
		return intake.Bounds{Bytes: 16 << 20, Entries: 500_000}
	}
	return intake.Bounds{Bytes: 1 << 20, Entries: 50_000}
}

// checkCallersKnown refuses a port for calls beyond loopback whose callers show no certificate: they could do
// everything. Tokens are enough on a port without the control stream. Without TLS no token leaves this machine.
func (o *Coordinator) checkCallersKnown(flag, address string) error {
	c := &o.config
	s := c.Security
	host, _, err := net.SplitHostPort(address)
	if err != nil || telemetry.Loopback(host) {
		return nil // Listen reports a bad address
	}
	people, overHTTP := flag != "--listen-agents", flag == "--rest" || flag == "--console"
	switch {
	case people && c.takesTokens() && s.Cert == "":
		return fmt.Errorf("%w: %s %s: not a loopback address, and without TLS anybody on the way could read tokens: "+
			"give --tls-cert and --tls-key, or leave out --tokens and --jwks", ErrSettings, flag, address)
	case s.CA != "", s.Insecure, people && c.takesTokens() && (c.ListenAgents != "" || overHTTP):
		return nil
	}
	return fmt.Errorf("%w: %s %s: not a loopback address, and without --tls-ca callers show no certificate, so that "+
		"anyone may do everything: give --tls-ca, or --insecure if that is meant", ErrSettings, flag, address)
}

// openAudit opens where changes are recorded: the file of --audit-log, else the log.
func (o *Coordinator) openAudit() (*slog.Logger, error) {
	if o.config.AuditLog == "" {
		return o.log, nil
	}
	var err error
	if o.audit, err = audit.Open(o.config.AuditLog, o.log); err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	o.admin.Alarm("audit", o.audit.Trouble)
	return slog.New(slog.NewJSONHandler(o.audit, nil)), nil
}
