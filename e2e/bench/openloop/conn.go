package openloop

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// conn is a connection. The slot stays when the connection is opened again.
type conn struct {
	fd     int // −1 while it is not open
	target int
	result int // on its way, −1 if free
	have   int // bytes of the answer so far
	buffer []byte
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 8 << 10

// connect opens all connections. A target that is not there yet is tried again
// when it is asked.
func (l *loop) connect() (err error) {
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	l.conns = make([]conn, len(l.Targets)*l.Connections)
	for c := range l.conns {
		l.conns[c] = conn{target: c / l.Connections, result: -1, buffer: make([]byte, maxAnswer), fd: -1}
		if err := l.dial(c); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
			return err
		}
		l.free[l.conns[c].target] = append(l.free[l.conns[c].target], c)
	}
	return nil
}

// dial opens the connection of a slot.
func (l *loop) dial(c int) error {
	conn := &l.conns[c]
	conn.fd, conn.have = -1, 0
	to, err := netip.ParseAddrPort(l.Targets[conn.target])
	if err != nil || !to.Addr().Is4() {
		return fmt.Errorf("target %q is not an IPv4 address with a port", l.Targets[conn.target])
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		// The slot's index travels where epoll keeps the caller's data.
		err = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c)})
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("%s: %w", to, err)
	}
	conn.fd = fd
	return nil
}

func (l *loop) close() {
	for _, c := range l.conns {
		if c.fd >= 0 {
			unix.Close(c.fd)
		}
	}
	unix.Close(l.epoll)
}

// answer are the parts of an answer that are read.
type answer struct {
	status int
	stamp  int64
}

var (
	headEnd   = []byte("\r\n\r\n")
	lengthIs  = []byte("\r\ncontent-length: ")
	stampIs   = []byte("\r\nx-at: ")
	errAnswer = errors.New("not an HTTP/1.1 answer with a content-length")
)

// parse reads an answer; whole reports whether it is complete.
func parse(b []byte) (a answer, whole bool, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return a, false, nil
	}
	head := b[:end+2]
	if len(head) < len("HTTP/1.1 200") || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return a, false, errAnswer
	}
	status, ok := number(head[9:12])
	length, found := field(head, lengthIs)
	if !ok || !found {
		return a, false, errAnswer
	}
	a.status = int(status)
	a.stamp, _ = field(head, stampIs)
	have := int64(len(b) - end - len(headEnd))
	if have > length {
		return a, false, errAnswer
	}
	return a, have == length, nil
}

// field is the number after a header's name.
func field(head, name []byte) (int64, bool) {
	at := bytes.Index(head, name)
	if at < 0 {
		return 0, false
	}
	rest := head[at+len(name):]
	return number(rest[:bytes.IndexByte(rest, '\r')])
}

// number reads decimal digits, at most 18.
func number(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}
