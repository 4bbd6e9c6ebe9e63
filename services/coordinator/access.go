package coordinator

import (
	"fmt"
	"log/slog"
	"os"

	"google.golang.org/grpc"

	"github.com/titrate/titrate/services/access"
)

// guard are the server's options that hold callers to the access policy, none
// without one.
func (o *Coordinator) guard() ([]grpc.ServerOption, error) {
	if o.config.AccessPolicy == "" {
		return nil, nil
	}
	if o.config.Security.CA == "" {
		return nil, fmt.Errorf("%w: --access-policy needs --tls-cert, --tls-key and --tls-ca: it is about the certificates of callers", ErrSettings)
	}
	g, err := access.Open(o.config.AccessPolicy, o.log)
	if err != nil {
		return nil, fmt.Errorf("%w: --access-policy: %w", ErrSettings, err)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.Unary), grpc.ChainStreamInterceptor(g.Stream)}, nil
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
