package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

const (
	// reconnectMax bounds the wait between attempts to reach etcd again. gRPC's own 2 minutes would leave a coordinator
	// blind long after etcd is back.
	reconnectMax = time.Second
	// keepAlive is the interval at which an idle connection is probed; etcd drops clients that probe more often than
	// each 5 s.
	keepAlive = 6 * time.Second
	// maxAnswer bounds one answer of etcd: a page of pageKeys resources.
	maxAnswer = 64 << 20
)

// PasswordEnv is the environment variable with etcd's password.
const PasswordEnv = "TITRATE_ETCD_PASSWORD"

// Access has the endpoints and credentials of etcd.
type Access struct {
	Endpoints []string // host:port or URLs
	// TLS for endpoints without a scheme or with https; nil = none, and for https the system's roots.
	TLS credentials.TransportCredentials
	// User and Password for an etcd with authentication; both or neither.
	User, Password string
	// Observe is called for each attempt of a call: its method, such as Range, Put, Txn or LeaseGrant, how long it
	// took, and how it ended. Streams, which watches and sessions have, are no calls. Nil: none is called.
	Observe func(method string, took time.Duration, code codes.Code)
}

// Password reads the password of a user from a file, or from PasswordEnv if file is "". Without a user there is none.
func Password(user, file string) (string, error) {
	switch {
	case user == "" && file != "":
		return "", errors.New("--etcd-password-file without --etcd-user: whose password is it?")
	case user == "":
		return "", nil
	case file == "":
		if p := os.Getenv(PasswordEnv); p != "" {
			return p, nil
		}
		return "", fmt.Errorf("--etcd-user %s needs a password: --etcd-password-file, or %s in the environment", user,
			PasswordEnv)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--etcd-password-file: %w", err)
	}
	p := strings.TrimRight(string(b), "\r\n")
	if p == "" {
		return "", fmt.Errorf("--etcd-password-file %s is empty", file)
	}
	return p, nil
}

// Dial returns an etcd client for a Store and for elections: it tries again at least each second after a loss and finds
// a dead connection within 10 s. It does not wait for etcd. The caller closes it.
func Dial(a Access) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints:            a.Endpoints,
		DialKeepAliveTime:    keepAlive,
		DialKeepAliveTimeout: Timeout,
		MaxCallRecvMsgSize:   maxAnswer,
		Logger:               zap.NewNop(), // errors reach the caller; the client would say them again
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: reconnectMax},
			MinConnectTimeout: time.Second,
		})},
	}
	if a.TLS != nil && len(a.Endpoints) > 0 && !strings.HasPrefix(a.Endpoints[0], "http://") {
		config.DialOptions = append(config.DialOptions, grpc.WithTransportCredentials(a.TLS))
	}
	if a.Observe != nil { // chained, it runs within the client's own, which repeats calls
		config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(a.observe))
	}
	if a.User != "" {
		// With a user the client would wait for etcd here and fail without it. A token makes it send credentials; etcd
		// refuses this one, and then the client logs in.
		config.Token = "none"
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("etcd at %v: %w", a.Endpoints, err)
	}
	if a.User != "" {
		client.Token, client.Username, client.Password = "", a.User, a.Password
	}
	return client, nil
}

// observe calls Observe for a call.
func (a *Access) observe(ctx context.Context, method string, request, answer any, c *grpc.ClientConn,
	call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	began := time.Now()
	err := call(ctx, method, request, answer, c, options...)
	a.Observe(path.Base(method), time.Since(began), status.Code(err))
	return err
}
