package installation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Free ports are looked for from Lowest to below Highest, which is below the range that
// kernels give to outgoing connections (32768 and up on Linux). A killed server must find
// its own port free when it comes back.
const (
	Lowest  = 10000
	Highest = 30000
)

// Address is a port's on loopback.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Port returns the port of an address, 0 if it has none.
func Port(address string) int {
	_, text, _ := net.SplitHostPort(address)
	p, _ := strconv.Atoi(text)
	return p
}

// Ports finds n different ports of loopback that are free for TCP and UDP.
func Ports(n int) ([]int, error) {
	var found []int
	next := Lowest + rand.IntN(Highest-Lowest)
	for range Highest - Lowest {
		if len(found) == n {
			break
		}
		release, err := hold(next, true)
		if err == nil {
			defer release() // held until all are found, so that others find others
			found = append(found, next)
		}
		if next++; next == Highest {
			next = Lowest
		}
	}
	if len(found) < n {
		return nil, fmt.Errorf("no %d free ports between %d and %d on loopback", n, Lowest, Highest)
	}
	return found, nil
}

// Addresses returns the addresses of n free ports.
func Addresses(n int) ([]string, error) {
	ports, err := Ports(n)
	all := make([]string, len(ports))
	for i, p := range ports {
		all[i] = Address(p)
	}
	return all, err
}

// Try returns nil if a port of loopback is free for TCP (and UDP, if asked), else the reason.
func Try(port int, udp bool) error {
	release, err := hold(port, udp)
	if errors.Is(err, syscall.EADDRINUSE) {
		return errors.New("is taken")
	}
	if err == nil {
		release()
	}
	return err
}

// hold takes a port until release is called.
func hold(port int, udp bool) (release func(), err error) {
	tcp, err := net.Listen("tcp", Address(port))
	if err != nil {
		return nil, err
	}
	if !udp {
		return func() { tcp.Close() }, nil
	}
	packets, err := net.ListenPacket("udp", Address(port))
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return func() { tcp.Close(); packets.Close() }, nil
}
