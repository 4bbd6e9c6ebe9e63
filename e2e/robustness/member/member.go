// Package member is one member of a cluster of etcd, in its own process: the program calls [Main] when it is
// started as a member.
package member

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// Command is the first argument of a program that is to be a member.
const Command = "etcd-member"

// Args are the arguments of a member: its name, its data directory, its address,
// and the members of the cluster, name=URL, comma-separated.
func Args(name, dir, host, cluster string) []string {
	return []string{Command, name, dir, host, cluster}
}

// Ports of a member, for clients and for the others.
const (
	ClientPort = 2379
	PeerPort   = 2380
)

// Peer is the URL at which the others reach the member at a host.
func Peer(host string) string { return fmt.Sprintf("http://%s:%d", host, PeerPort) }

// Main runs a member with Args after Command, until SIGTERM.
func Main(args []string) error {
	if len(args) != 4 {
		return errors.New("etcd-member needs a name, a directory, a host and the cluster")
	}
	server, err := embed.StartEtcd(config(args[0], args[1], args[2], args[3]))
	if err != nil {
		return err
	}
	defer server.Close()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	select {
	case err := <-server.Err():
		return err
	case <-end:
		return nil
	}
}

func config(name, dir, host, cluster string) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel, c.LogOutputs = name, dir, "warn", []string{"stderr"}
	c.UnsafeNoFsync = true // its data survives a kill of the process, which is all that is done to it
	client := []url.URL{{Scheme: "http", Host: fmt.Sprintf("%s:%d", host, ClientPort)}}
	peer := []url.URL{{Scheme: "http", Host: fmt.Sprintf("%s:%d", host, PeerPort)}}
	c.ListenClientUrls, c.AdvertiseClientUrls = client, client
	c.ListenPeerUrls, c.AdvertisePeerUrls = peer, peer
	c.InitialCluster = cluster
	return c
}
