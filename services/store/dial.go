package store

import (
	"crypto/tls"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// reconnectMax bounds the wait between attempts to reach etcd again. gRPC's own
	// 2 minutes would leave a coordinator blind long after etcd is back.
	reconnectMax = time.Second
	// keepAlive is how often a silent connection is probed; etcd drops clients that
	// probe more often than each 5 s.
	keepAlive = 6 * time.Second
)

// Dial returns an etcd client for a Store and for elections: it tries again at
// least each second after a loss and finds a dead connection within 10 s. It does
// not wait for etcd. config nil means no TLS. The caller closes it.
func Dial(endpoints []string, config *tls.Config) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		TLS:                  config,
		DialKeepAliveTime:    keepAlive,
		DialKeepAliveTimeout: Timeout,
		Logger:               zap.NewNop(), // errors reach the caller; the client would say them again
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax},
			MinConnectTimeout: time.Second,
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %v: %w", endpoints, err)
	}
	return client, nil
}
