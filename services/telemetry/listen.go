package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Listen opens the TCP port at address (host:port; port 0 = any free one) for what, which errors name, such as
// "--listen (gRPC)". Without a certificate and without Insecure it refuses an address that is not loopback.
func (s Security) Listen(ctx context.Context, what, address string) (net.Listener, error) {
	if err := s.Guard(what, address); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s %s: another process already listens there; stop it or give another address", what,
			address)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", what, address, err)
	}
	return listener, nil
}

// Guard refuses an address (host:port) beyond loopback that nothing protects. It
// is for ports that something else opens; Listen asks it itself.
func (s Security) Guard(what, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s %q: want host:port, such as 127.0.0.1:7400: %w", what, address, err)
	}
	if s.Cert != "" || s.Insecure || Loopback(host) {
		return nil
	}
	return fmt.Errorf("%s %s: not a loopback address; give --tls-cert and --tls-key, or --insecure to open it "+
		"without protection", what, address)
}

// Loopback reports whether host (a name or an IP, without a port) stays on this
// machine. An empty host is every interface, and is not loopback.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
