package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-sockaddr"
	"github.com/hashicorp/memberlist"
)

const (
	// longestDatagram is the most that is read of one, in bytes: memberlist packs up
	// to 1400 bytes, a frame has up to MaxPacket + frameExtra.
	longestDatagram = 2048
	// kernelBuffer is the size of the socket's receive buffer, in bytes: what comes
	// while this process does not run is lost beyond it. The system may give less.
	kernelBuffer = 2 << 20
	// errorPause is the pause after an accept or a read that failed.
	errorPause = 50 * time.Millisecond
)

// errCut is the error of sending while the transport is cut.
var errCut = errors.New("gossip: cut off by fault injection")

// transport is the one port of the node, UDP and TCP, for memberlist and for frames.
// Datagrams are read into one buffer and copied at their length. Memberlist's own transport
// makes a new buffer of 64 KiB for each, and what waits in a queue keeps all of it.
type transport struct {
	ip      net.IP
	udp     *net.UDPConn
	tcp     *net.TCPListener
	packets chan *memberlist.Packet
	streams chan net.Conn
	frames  func(frame []byte) // must not block nor keep the frame
	stop    context.Context
	cancel  context.CancelFunc
	once    sync.Once
	readers sync.WaitGroup

	cut               atomic.Bool
	bytesIn, bytesOut atomic.Uint64 // of datagrams
	in, out           atomic.Uint64 // datagrams
}

// newTransport opens the port; serve begins to read.
func newTransport(ip net.IP, port int) (*transport, error) {
	failed := func(err error) error {
		return fmt.Errorf("gossip: open --gossip %s: %w", net.JoinHostPort(ip.String(), strconv.Itoa(port)), err)
	}
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip, Port: port})
	if err != nil {
		return nil, failed(err)
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip, Port: tcp.Addr().(*net.TCPAddr).Port})
	if err != nil {
		tcp.Close()
		return nil, failed(err)
	}
	_ = udp.SetReadBuffer(kernelBuffer) // a smaller one works as well
	t := &transport{ip: ip, udp: udp, tcp: tcp, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn)}
	t.stop, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// serve reads until Shutdown; frames go to f.
func (t *transport) serve(f func(frame []byte)) {
	t.frames = f
	t.readers.Go(t.readPackets)
	t.readers.Go(t.accept)
}

func (t *transport) readPackets() {
	buf := make([]byte, longestDatagram)
	for {
		n, from, err := t.udp.ReadFromUDPAddrPort(buf)
		switch {
		case t.stop.Err() != nil:
			return
		case err != nil:
			t.pause()
			continue
		case n == 0 || t.cut.Load():
			continue
		}
		t.in.Add(1)
		t.bytesIn.Add(uint64(n))
		if buf[0] == frameMark {
			t.frames(buf[:n])
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: bytes.Clone(buf[:n]), From: net.UDPAddrFromAddrPort(unmapped(from)),
			Timestamp: time.Now()}:
		case <-t.stop.Done():
		}
	}
}

func (t *transport) accept() {
	for {
		c, err := t.tcp.AcceptTCP()
		switch {
		case t.stop.Err() != nil:
			if err == nil {
				c.Close()
			}
			return
		case err != nil: // no descriptors left, say
			t.pause()
			continue
		case t.cut.Load():
			c.Close()
			continue
		}
		select {
		case t.streams <- c:
		case <-t.stop.Done():
			c.Close()
		}
	}
}

// pause waits a little after an error that may not last.
func (t *transport) pause() {
	select {
	case <-time.After(errorPause):
	case <-t.stop.Done():
	}
}

// port returns the port of the transport.
func (t *transport) port() int { return t.tcp.Addr().(*net.TCPAddr).Port }

// FinalAdvertiseAddr returns the address by which others reach this agent: as set, as bound, or the private address of
// the machine when bound to all.
func (t *transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	if ip != "" {
		set := net.ParseIP(ip)
		if set == nil {
			return nil, 0, fmt.Errorf("gossip: %q is not an IP address", ip)
		}
		if v4 := set.To4(); v4 != nil {
			set = v4
		}
		return set, port, nil
	}
	if !t.ip.IsUnspecified() {
		return t.ip, t.port(), nil
	}
	private, err := sockaddr.GetPrivateIP()
	if err == nil && private == "" {
		err = errors.New("the machine has no private address")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: bound to all addresses: give --gossip-advertise: %w", err)
	}
	return net.ParseIP(private), t.port(), nil
}

// PacketCh returns the channel from which memberlist reads datagrams.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh returns the channel from which memberlist takes connections.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo sends a datagram, or drops it silently while cut, as a network does.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return time.Time{}, err
	}
	return time.Now(), t.send(b, addressOf(to.IP, uint16(to.Port)))
}

// WriteToAddress is WriteTo with the peer's name.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// addressOf is an address as send takes it; IPv4 is not in the form of IPv6.
func addressOf(ip net.IP, port uint16) netip.AddrPort {
	at, _ := netip.AddrFromSlice(ip)
	return unmapped(netip.AddrPortFrom(at, port))
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func (t *transport) send(b []byte, to netip.AddrPort) error {
	if t.cut.Load() {
		return nil
	}
	t.out.Add(1)
	t.bytesOut.Add(uint64(len(b)))
	_, err := t.udp.WriteToUDPAddrPort(b, to)
	return err
}

// DialTimeout connects, or fails while cut.
func (t *transport) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	if t.cut.Load() {
		return nil, errCut
	}
	return (&net.Dialer{Timeout: d}).DialContext(t.stop, "tcp", addr)
}

// DialAddressTimeout is DialTimeout with the peer's name.
func (t *transport) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, d)
}

// Shutdown closes the port and ends the readers. Further calls do nothing.
func (t *transport) Shutdown() error {
	var err error
	t.once.Do(func() {
		t.cancel()
		err = errors.Join(t.udp.Close(), t.tcp.Close())
		t.readers.Wait()
	})
	return err
}
