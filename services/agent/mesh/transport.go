package mesh

import (
	"errors"
	"fmt"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// errCut is what sending fails with while the transport is cut.
var errCut = errors.New("mesh: cut off by fault injection")

// transport is memberlist's own, with counters and a switch that cuts it.
type transport struct {
	*memberlist.NetTransport
	packets chan *memberlist.Packet
	streams chan net.Conn
	stop    chan struct{} // memberlist reads no more
	done    chan struct{} // the listeners write no more
	once    sync.Once
	pump    sync.WaitGroup

	cut               atomic.Bool
	bytesIn, bytesOut atomic.Uint64 // of datagrams
	in, out           atomic.Uint64 // datagrams
}

func newTransport(ip net.IP, port int, logger *log.Logger) (*transport, error) {
	inner, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{ip.String()}, BindPort: port, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("mesh: open --gossip %s: %w", net.JoinHostPort(ip.String(), fmt.Sprint(port)), err)
	}
	t := &transport{NetTransport: inner, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		stop: make(chan struct{}), done: make(chan struct{})}
	t.pump.Go(t.pumpPackets)
	t.pump.Go(t.pumpStreams)
	return t, nil
}

// pumpPackets hands packets on. After stop it goes on emptying the inner
// channel, or the inner listener could not end.
func (t *transport) pumpPackets() {
	for {
		var p *memberlist.Packet
		select {
		case p = <-t.NetTransport.PacketCh():
		case <-t.done:
			return
		}
		if t.cut.Load() {
			continue
		}
		t.in.Add(1)
		t.bytesIn.Add(uint64(len(p.Buf)))
		select {
		case t.packets <- p:
		case <-t.stop:
		}
	}
}

func (t *transport) pumpStreams() {
	for {
		var c net.Conn
		select {
		case c = <-t.NetTransport.StreamCh():
		case <-t.done:
			return
		}
		if t.cut.Load() {
			c.Close()
			continue
		}
		select {
		case t.streams <- c:
		case <-t.stop:
			c.Close()
		}
	}
}

// PacketCh is where memberlist reads datagrams.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh is where memberlist takes connections.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo sends a datagram, or drops it silently while cut, as a network does.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress is WriteTo with the peer's name.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if t.cut.Load() {
		return time.Now(), nil
	}
	t.out.Add(1)
	t.bytesOut.Add(uint64(len(b)))
	return t.NetTransport.WriteToAddress(b, a)
}

// DialTimeout connects, or fails while cut.
func (t *transport) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, d)
}

// DialAddressTimeout is DialTimeout with the peer's name.
func (t *transport) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	if t.cut.Load() {
		return nil, errCut
	}
	return t.NetTransport.DialAddressTimeout(a, d)
}

// Shutdown closes the port and ends the pumps. Further calls do nothing.
func (t *transport) Shutdown() error {
	var err error
	t.once.Do(func() {
		close(t.stop)
		err = t.NetTransport.Shutdown()
		close(t.done)
		t.pump.Wait()
	})
	return err
}
