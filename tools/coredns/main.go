// Coredns is CoreDNS with only the plugins that the tests' Kubernetes needs: the names of Services and pods.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"       // the addresses that it listens on
	_ "github.com/coredns/coredns/plugin/errors"     // says what goes wrong
	_ "github.com/coredns/coredns/plugin/kubernetes" // names of Services and pods
)

func main() {
	dnsserver.Directives = []string{"bind", "errors", "kubernetes"}
	coremain.Run()
}
