// Package hotrestart passes what clients have spent from an Envoy process to its
// successor in a hot restart, so that no client gets its burst twice.
//
// # Model
//
//	child, at its start ── connects ──► parent
//	                    ◄── a record for each key that has spent something, then the end
//	the parent closes its socket; the child listens in its place
//
// The socket is a Unix socket in Linux's abstract namespace. Its name is made from the
// replica and the agent's socket, which parent and child share; Envoy's own hot restart
// needs a common namespace, too. A record has a key's hash and the time after which the
// key has its whole burst again: 17 bytes. The child gets its configuration from the
// agent, not from here.
//
// # Invariants
//
//   - A child whose parent does not answer within [Timeout] starts with what it has
//     received; a child without a parent starts at once.
//   - Both sides accept only processes of the same user (SO_PEERCRED).
//   - The child does not know what the parent admits between its answer and the end of its drain: at most the
//     limits' rates for that time.
//   - No request waits for any of this.
//
// O(keys that have spent something) on both sides.
package hotrestart

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/titrate/titrate/control/exchange"
)

// Timeout bounds how long a child waits for its parent. A million keys take a tenth
// of that time.
const Timeout = 2 * time.Second

// listenAgainAfter is the time after which a parent that has answered a child tries to
// listen again: if that child failed to start, another one follows.
const listenAgainAfter = 5 * time.Second

// SocketName returns the name of the socket for processes of one replica that share an agent. Parent and child
// may be of different versions, so the name never changes.
func SocketName(replica, agentSocket string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d\x00%s\x00%s", os.Getuid(), replica, agentSocket)
	return fmt.Sprintf("@titrate-heir-%016x", h.Sum64())
}

// Receive reads the parent's keys, if there is a parent, and returns their number.
func Receive(name string, receive func(exchange.KeySpent)) (keys int, err error) {
	conn, err := net.DialTimeout("unix", name, Timeout)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return 0, nil // there is no parent
	}
	if err != nil {
		return 0, fmt.Errorf("hotrestart: ask the parent: %w", err)
	}
	defer conn.Close()
	if err := checkPeer(conn); err != nil {
		return 0, err
	}
	if err := conn.SetDeadline(time.Now().Add(Timeout)); err != nil {
		return 0, fmt.Errorf("hotrestart: ask the parent: %w", err)
	}
	return read(conn, receive)
}

// recordSize is the size of a key's record: its hash, nanoseconds, and whether it is
// named.
const recordSize = 8 + 8 + 1

// endRecord follows the last key. A parent that dies does not write it.
var endRecord = [recordSize]byte{16: 0xff}

func read(from io.Reader, receive func(exchange.KeySpent)) (keys int, err error) {
	in := bufio.NewReader(from)
	var b [recordSize]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return keys, fmt.Errorf("hotrestart: the parent's keys end after %d: %w", keys, err)
		}
		if b == endRecord {
			return keys, nil
		}
		if b[16] > 1 {
			return keys, fmt.Errorf("hotrestart: key %d is marked %d, want 0 or 1", keys, b[16])
		}
		receive(exchange.KeySpent{
			Key:   binary.LittleEndian.Uint64(b[:]),
			Ahead: time.Duration(binary.LittleEndian.Uint64(b[8:])),
			Named: b[16] == 1,
		})
		keys++
	}
}

func write(to io.Writer, each func(visit func(exchange.KeySpent))) error {
	out := bufio.NewWriterSize(to, 1<<16)
	var err error
	each(func(s exchange.KeySpent) {
		if err != nil {
			return
		}
		var b [recordSize]byte
		binary.LittleEndian.PutUint64(b[:], s.Key)
		binary.LittleEndian.PutUint64(b[8:], uint64(s.Ahead))
		if s.Named {
			b[16] = 1
		}
		_, err = out.Write(b[:])
	})
	if err == nil {
		_, err = out.Write(endRecord[:])
	}
	return errors.Join(err, out.Flush())
}

// Serve sends all keys to each child that connects, until ctx ends.
func Serve(ctx context.Context, name string, each func(visit func(exchange.KeySpent))) error {
	for {
		err := serveOnce(ctx, name, each)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("hotrestart: serve a child: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(listenAgainAfter):
		}
	}
}

// serveOnce waits for one child. When the child has its answer, the socket's name is
// free for the child to listen at.
func serveOnce(ctx context.Context, name string, each func(visit func(exchange.KeySpent))) error {
	l, err := net.Listen("unix", name)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		if checkPeer(conn) != nil {
			conn.Close() // a process of another user
			continue
		}
		l.Close()
		if conn.SetDeadline(time.Now().Add(Timeout)) == nil {
			_ = write(conn, each) // a child that goes away needs no keys
		}
		return conn.Close()
	}
}

// checkPeer refuses a peer that runs as another user.
func checkPeer(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return fmt.Errorf("hotrestart: %w", err)
	}
	var peer *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("hotrestart: the peer's user is unknown: %w", err)
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("hotrestart: the peer runs as user %d, not as %d", peer.Uid, os.Getuid())
	}
	return nil
}
