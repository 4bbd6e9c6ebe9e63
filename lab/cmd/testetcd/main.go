// Command testetcd is an etcd for tests: the server itself, of one member, in a directory, at a loopback address. It
// ends as in a crash when its standard input closes, so that it cannot outlive the test that has started it. The
// package storetest builds and starts it.
package main

import (
	"fmt"
	"io"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: testetcd DIRECTORY HOST:PORT")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve is etcd until standard input closes. It prints its address once it is ready.
func serve(dir, listen string) error {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.UnsafeNoFsync = true // survives a kill of the process, all that tests do
	cfg.BcryptCost = 4       // the least: at the default one a password takes seconds on a busy machine
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	client, peer := url.URL{Scheme: "http", Host: listen}, url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialClusterToken = dir // another directory is another cluster, with another ID
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return fmt.Errorf("etcd stopped at start: %w", err)
	}
	fmt.Fprintln(os.Stdout, "etcd ready at "+server.Clients[0].Addr().String())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil // the process ends with the server in it, as in a crash
}
