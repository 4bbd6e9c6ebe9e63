package linkserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// What one process may take of the agent, so that others have the rest: connections, connections per second, and the
// agent's time. A filter needs far less of each.

const (
	// callsAtOnce and callsEvery bound how often one process connects: each time the agent sends it the whole
	// configuration. A filter that finds no agent tries once a second.
	callsAtOnce = 2 * maxOfProcess
	callsEvery  = 500 * time.Millisecond
	// unnamed is the factor by which all processes together that the kernel does not name may connect more often.
	unnamed = 8
	// rememberCaller is for how long a process without connections is remembered: as long as callsAtOnce lasts.
	rememberCaller = callsAtOnce * callsEvery
	// mostCallers is from how many remembered processes on those are forgotten that have no connection.
	mostCallers = 4 * maxGateways
)

// caller is a process that connects, as the kernel names it; 0 is all that it does not name.
type caller struct {
	open   int
	calls  *rate.Limiter
	latest time.Time
}

// admit checks who connects, and whether that process has not too many connections, nor connects too often.
func (s *Server) admit(conn *net.UnixConn) (pid int, err error) {
	pid, uid, err := credentials(conn)
	if err == nil && s.o.Group == "" {
		err = checkUser(uid, os.Getuid())
	}
	if err != nil {
		return 0, err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[pid]
	if c == nil {
		s.forgetCallers(now)
		every := callsEvery
		if pid == 0 {
			every /= unnamed
		}
		c = &caller{calls: rate.NewLimiter(rate.Every(every), callsAtOnce)}
		s.of[pid] = c
	}
	c.latest = now
	switch {
	case !c.calls.AllowN(now, 1):
		return 0, fmt.Errorf("linkserver: process %d connects more than %d times in %s: it is not let in for now", pid,
			callsAtOnce, rememberCaller)
	case pid != 0 && c.open >= maxOfProcess:
		return 0, fmt.Errorf("linkserver: process %d has %d connections, no more are taken: a filter has one", pid,
			c.open)
	}
	c.open++
	return pid, nil
}

// left notes that a connection of a process is gone.
func (s *Server) left(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[pid].open--
}

// forgetCallers makes room for another process. The lock is held.
func (s *Server) forgetCallers(now time.Time) {
	for pid, c := range s.of {
		if c.open == 0 && (now.Sub(c.latest) > rememberCaller || len(s.of) >= mostCallers) {
			delete(s.of, pid)
		}
	}
}

// checkName refuses a name that other agents or a log would not take.
func checkName(name string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case len(name) > maxName:
		return fmt.Errorf("linkserver: a gateway's name has %d bytes, at most %d are allowed", len(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, bad):
		return fmt.Errorf("linkserver: the gateway's name %q has characters that are not printable", name)
	}
	return nil
}

// pace bounds the part of the agent's time that one connection takes: three quarters in the long run. A filter takes
// some percent, and for seconds all where many keys have new owners.
type pace struct {
	mu   sync.Mutex
	owed time.Duration // worked, less three quarters of the time since
	at   time.Time
}

const (
	// restAfter bounds what a connection owes before it rests: after 8 s of all of the agent's time.
	restAfter = 2 * time.Second
	rest      = 5 * time.Millisecond
)

func newPace() *pace { return &pace{at: time.Now()} }

// worked notes that a message took the agent so long, and rests if that is too much.
func (p *pace) worked(ctx context.Context, took time.Duration) error {
	for p.note(time.Now(), took) > restAfter {
		took = 0
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rest):
		}
	}
	return nil
}

// note returns what is owed.
func (p *pace) note(now time.Time, took time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owed, p.at = max(0, p.owed+took-now.Sub(p.at)*3/4), now
	return p.owed
}
