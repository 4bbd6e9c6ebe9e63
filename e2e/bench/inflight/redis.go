package inflight

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
)

// redis is a client with as many connections as it has questions at a time. Commands are lines and answers are
// numbers: the part of Redis' protocol that a counter needs.
type redis struct {
	address string

	mu   sync.Mutex
	free []*redisConn
	gone bool
}

type redisConn struct {
	net.Conn
	in *bufio.Reader
}

// do sends commands at once and returns the answer to the first.
func (r *redis) do(commands ...string) (int64, error) {
	c, err := r.connection()
	if err != nil {
		return 0, err
	}
	first, err := c.do(commands)
	if err != nil {
		c.Close()
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		c.Close()
	} else {
		r.free = append(r.free, c)
	}
	return first, nil
}

// connection returns a free connection or opens one.
func (r *redis) connection() (*redisConn, error) {
	if c := r.take(); c != nil {
		return c, nil
	}
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		return nil, err
	}
	return &redisConn{c, bufio.NewReader(c)}, nil
}

// take returns a free connection, nil if there is none.
func (r *redis) take() *redisConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.free)
	if n == 0 {
		return nil
	}
	c := r.free[n-1]
	r.free = r.free[:n-1]
	return c
}

func (c *redisConn) do(commands []string) (first int64, err error) {
	if _, err := c.Write([]byte(strings.Join(commands, "\r\n") + "\r\n")); err != nil {
		return 0, err
	}
	for i := range commands {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		number, ok := strings.CutPrefix(strings.TrimSpace(line), ":")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return 0, fmt.Errorf("redis answers %q to %q", line, commands[i])
		}
		if i == 0 {
			first = n
		}
	}
	return first, nil
}

// close closes the connections.
func (r *redis) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.free {
		c.Close()
	}
	r.free, r.gone = nil, true
}
