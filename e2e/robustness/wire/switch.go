package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Host is a place where processes run, with an address that the others reach.
type Host struct {
	Name    string
	Address netip.Addr

	tun       *os.File // nil without TUN devices
	namespace *os.File // nil in this process's own
}

// Enter puts the calling thread, which is locked, into the host's namespace:
// processes that it starts run there.
func (h *Host) Enter() error {
	if h.namespace == nil {
		return nil
	}
	return unix.Setns(int(h.namespace.Fd()), unix.CLONE_NEWNET)
}

// Fault is the disturbance of a link's packets.
type Fault struct {
	Cut           bool
	Loss          float64 // probability that a packet is dropped, 0 to 1
	Delay, Jitter time.Duration
}

// Rule gives a fault to the packets from one host to another. It is called for
// each packet, by many goroutines.
type Rule func(from, to *Host, p Packet) (Fault, bool)

// Packet are the fields of a packet that a rule may look at.
type Packet struct {
	// From and To are ports of TCP or UDP, 0 of others.
	From, To uint16
	// Size is the packet's with its headers, bytes.
	Size int
}

// Switch connects the hosts.
type Switch struct {
	reason error // why there are no TUN devices, nil if there are

	mu    sync.Mutex
	hosts map[netip.Addr]*Host
	rules map[int]Rule
	next  int

	table   atomic.Pointer[map[netip.Addr]*Host] // of hosts, replaced whole
	active  atomic.Pointer[[]Rule]               // of rules, replaced whole
	Counted struct{ Passed, Dropped, Delayed atomic.Int64 }
}

// New makes a switch, and the host of this process: the namespace it is in, in
// which nothing else may be.
func New(own string) (*Switch, *Host, error) {
	s := &Switch{hosts: map[netip.Addr]*Host{}, rules: map[int]Rule{}}
	s.active.Store(&[]Rule{})
	h := &Host{Name: own, Address: s.address(1)}
	h.tun, s.reason = plug(h.Address)
	if s.reason != nil {
		h.Address = s.address(1)
	}
	s.add(h)
	return s, h, nil
}

// Disturbs says why links cannot be disturbed, or nil if they can.
func (s *Switch) Disturbs() error { return s.reason }

// address is the n-th host's.
func (s *Switch) address(n int) netip.Addr {
	if s.reason != nil {
		return netip.AddrFrom4([4]byte{127, 77, 0, byte(n)})
	}
	return netip.AddrFrom4([4]byte{10, 77, 0, byte(n)})
}

// Host adds one; n is 2 to 254 and its own.
func (s *Switch) Host(name string, n int) (*Host, error) {
	h := &Host{Name: name, Address: s.address(n)}
	if s.reason == nil {
		err := inside(func(namespace *os.File) (err error) {
			h.namespace = namespace
			h.tun, err = plug(h.Address)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", name, err)
		}
	}
	s.add(h)
	return h, nil
}

func (s *Switch) add(h *Host) {
	s.mu.Lock()
	s.hosts[h.Address] = h
	s.publish()
	s.mu.Unlock()
	if h.tun != nil {
		go s.forward(h)
	}
}

// publish copies hosts and rules for the goroutines that forward.
func (s *Switch) publish() {
	table := make(map[netip.Addr]*Host, len(s.hosts))
	for a, h := range s.hosts {
		table[a] = h
	}
	rules := make([]Rule, 0, len(s.rules))
	for _, r := range s.rules {
		rules = append(rules, r)
	}
	s.table.Store(&table)
	s.active.Store(&rules)
}

// Disturb adds a rule; undo takes it away again.
func (s *Switch) Disturb(r Rule) (undo func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.next
	s.next++
	s.rules[n] = r
	s.publish()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.rules, n)
		s.publish()
	}
}

// Remove takes a host away. Its processes have ended.
func (s *Switch) Remove(h *Host) error {
	s.mu.Lock()
	delete(s.hosts, h.Address)
	s.publish()
	s.mu.Unlock()
	if h.tun == nil {
		return nil
	}
	return errors.Join(h.tun.Close(), h.namespace.Close())
}

// largest is the most that a packet can have: the devices' MTU is 1500.
const largest = 2048

// forward reads what a host sends, until its device is closed.
func (s *Switch) forward(from *Host) {
	buffer := make([]byte, largest)
	for {
		n, err := from.tun.Read(buffer)
		if err != nil {
			return
		}
		s.deliver(from, buffer[:n])
	}
}

// deliver sends a packet on its way.
func (s *Switch) deliver(from *Host, packet []byte) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return // IPv6: no host has an address
	}
	to := (*s.table.Load())[netip.AddrFrom4([4]byte(packet[16:20]))]
	if to == nil {
		return
	}
	var delay time.Duration
	for _, rule := range *s.active.Load() {
		fault, applies := rule(from, to, fields(packet))
		if !applies {
			continue
		}
		if fault.Cut || fault.Loss > 0 && rand.Float64() < fault.Loss {
			s.Counted.Dropped.Add(1)
			return
		}
		delay += fault.Delay
		if fault.Jitter > 0 {
			delay += rand.N(fault.Jitter)
		}
	}
	if delay > 0 {
		s.Counted.Delayed.Add(1)
		late := append([]byte(nil), packet...)
		time.AfterFunc(delay, func() { _, _ = to.tun.Write(late) })
		return
	}
	s.Counted.Passed.Add(1)
	_, _ = to.tun.Write(packet) // a host that has gone, or its queue is full: the packet is lost
}

// fields of a packet.
func fields(packet []byte) (p Packet) {
	p.Size = len(packet)
	header := int(packet[0]&15) * 4
	if proto := packet[9]; (proto == unix.IPPROTO_TCP || proto == unix.IPPROTO_UDP) && len(packet) >= header+4 {
		p.From, p.To = binary.BigEndian.Uint16(packet[header:]), binary.BigEndian.Uint16(packet[header+2:])
	}
	return p
}
