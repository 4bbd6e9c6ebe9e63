package openloop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Result is the outcome of a shot. Times are since the start of the run.
type Result struct {
	Shot
	Sent, Done time.Duration
	// Status is 0 if there was no answer.
	Status int
	// Stamp is the value of the header x-at, 0 without.
	Stamp int64
}

// Generator sends a schedule.
type Generator struct {
	// Targets are IPv4 addresses, host:port.
	Targets []string
	// Requests are the requests that shots refer to.
	Requests [][]byte
	// Connections is the number of connections to each target, ≥ 1, opened before the first shot. With more
	// connections more requests can be in flight; a shot without a free connection waits.
	Connections int
	// Patience is the time after the last shot in which answers are awaited. Default 10 s.
	Patience time.Duration
	// Start is the instant that times count from. Zero: when all is ready.
	Start time.Time
}

// loop is a run's state, used by one thread only.
type loop struct {
	*Generator
	epoll   int
	start   time.Time
	conns   []conn
	free    [][]int // by target, connections that wait for work
	queue   [][]int // by target, results that wait for a connection
	results []Result
	open    int // results without an end
	events  []unix.EpollEvent
}

// Run sends the shots, which must be in order of time, and returns when all are
// answered or given up. When ctx ends, it returns ctx's error.
func (g *Generator) Run(ctx context.Context, shots []Shot) ([]Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it a sleep is 50 µs longer
	l := &loop{Generator: g, results: make([]Result, len(shots)), open: len(shots),
		free: make([][]int, len(g.Targets)), queue: make([][]int, len(g.Targets)), events: make([]unix.EpollEvent, 256)}
	for i, s := range shots {
		l.results[i].Shot = s
	}
	defer l.close()
	if err := l.connect(); err != nil {
		return nil, err
	}
	l.start = g.Start
	if l.start.IsZero() {
		l.start = time.Now()
	}
	return l.results, l.run(ctx)
}

func (l *loop) run(ctx context.Context) error {
	next, rounds := 0, 0
	patience := l.Patience
	if patience == 0 {
		patience = 10 * time.Second
	}
	for l.open > 0 {
		now := time.Since(l.start)
		for next < len(l.results) && l.results[next].Due <= now {
			l.submit(next)
			next++
		}
		until := now + 10*time.Millisecond
		if next < len(l.results) {
			until = min(until, l.results[next].Due)
		} else if now > l.results[len(l.results)-1].Due+patience {
			return nil // open requests keep status 0
		}
		if err := l.wait(until - time.Since(l.start)); err != nil {
			return err
		}
		if rounds++; rounds%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// submit sends a shot now, or puts it in line.
func (l *loop) submit(result int) {
	target := l.results[result].Target
	if n := len(l.free[target]); n > 0 {
		c := l.free[target][n-1]
		l.free[target] = l.free[target][:n-1]
		l.send(c, result)
		return
	}
	l.queue[target] = append(l.queue[target], result)
}

// send writes a shot on a connection, which is free.
func (l *loop) send(c, result int) {
	conn, r := &l.conns[c], &l.results[result]
	conn.result = result
	if conn.fd < 0 && l.dial(c) != nil {
		l.broke(c)
		return
	}
	r.Sent = time.Since(l.start)
	if n, err := unix.Write(conn.fd, l.Requests[r.Request]); err != nil || n != len(l.Requests[r.Request]) {
		l.broke(c)
	}
}

// release gives a connection its next shot, or frees it.
func (l *loop) release(c int) {
	conn := &l.conns[c]
	conn.result, conn.have = -1, 0
	if q := l.queue[conn.target]; len(q) > 0 {
		l.queue[conn.target] = q[1:]
		l.send(c, q[0])
		return
	}
	l.free[conn.target] = append(l.free[conn.target], c)
}

// wait handles answers until there were some or the time is over.
func (l *loop) wait(d time.Duration) error {
	timeout := unix.NsecToTimespec(max(int64(d), 0))
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])),
		uintptr(len(l.events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	switch {
	case errno == unix.EINTR:
		return nil
	case errno == unix.ENOSYS:
		return errors.New("this kernel has no epoll_pwait2: Linux 5.11 or later is needed")
	case errno != 0:
		return fmt.Errorf("epoll_pwait2: %w", errno)
	}
	for _, e := range l.events[:n] {
		l.readable(int(e.Fd))
	}
	return nil
}

// readable reads the bytes of a connection. Events name it by its index.
func (l *loop) readable(c int) {
	conn := &l.conns[c]
	n, err := unix.Read(conn.fd, conn.buffer[conn.have:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return
	}
	if err != nil || n == 0 {
		l.broke(c)
		return
	}
	conn.have += n
	a, whole, err := parse(conn.buffer[:conn.have])
	switch {
	case err != nil || conn.have == len(conn.buffer) || (whole && conn.result < 0):
		l.broke(c)
	case whole:
		l.end(conn.result, a)
		l.release(c)
	}
}

func (l *loop) end(result int, a answer) {
	r := &l.results[result]
	r.Done, r.Status, r.Stamp = time.Since(l.start), a.status, a.stamp
	l.open--
}

// broke fails the requests on a connection. It is opened again for its next shot.
func (l *loop) broke(c int) {
	conn := &l.conns[c]
	if conn.fd >= 0 {
		unix.Close(conn.fd)
		conn.fd = -1
	}
	if conn.result < 0 { // the server closed it while it was idle, and it stays in line
		return
	}
	l.end(conn.result, answer{})
	l.release(c)
}
