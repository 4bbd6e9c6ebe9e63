// Package heir hands what clients have spent from an Envoy to the one that takes
// its place in a hot restart, so that nobody has a burst twice.
//
// # Model
//
//	child, at its start ── connects ──► parent
//	                    ◄── every key that has spent something, then the end
//	child listens in its parent's place; the parent closes its socket
//
// The socket is a Unix socket in Linux's abstract namespace, named by the replica
// and its agent's socket: parent and child share both, and Envoy's own hot restart
// needs the same namespace. A key travels as its hash, and how long it takes to
// win its burst back: 17 bytes. No configuration travels; the child has it from
// its agent.
//
// # Invariants
//
//   - A child whose parent does not answer within [Patience] starts with what it
//     has heard; without a parent at all, at once.
//   - Both sides serve their own user only (SO_PEERCRED).
//   - What the parent admits after its answer, until it is drained, is not told:
//     at most the limits' rates for that long.
//   - No request waits for any of this.
//
// O(keys that have spent something) on both sides.
package heir

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

// Patience bounds how long a child waits for its parent: a million keys take a
// tenth of it.
const Patience = 2 * time.Second

// retake is how long after an heir has come its parent looks whether it is still
// there: a child that fails to start is followed by another one.
const retake = 5 * time.Second

// Name of the socket that processes of one replica beside one agent meet at.
func Name(replica, agentSocket string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d\x00%s\x00%s", os.Getuid(), replica, agentSocket)
	return fmt.Sprintf("@titrate-heir-%016x", h.Sum64())
}

// Ask takes over from a parent if there is one, and says how many keys that were.
func Ask(name string, take func(exchange.KeySpent)) (keys int, err error) {
	conn, err := net.DialTimeout("unix", name, Patience)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return 0, nil // nobody listens
	}
	if err != nil {
		return 0, fmt.Errorf("heir: ask the parent: %w", err)
	}
	defer conn.Close()
	if err := own(conn); err != nil {
		return 0, err
	}
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return 0, fmt.Errorf("heir: ask the parent: %w", err)
	}
	return read(conn, take)
}

// record is a key on the wire: its hash, nanoseconds, and whether it is named.
const record = 8 + 8 + 1

// ended follows the last record: a parent that dies does not write it.
var ended = [record]byte{16: 0xff}

func read(from io.Reader, take func(exchange.KeySpent)) (keys int, err error) {
	in := bufio.NewReader(from)
	var b [record]byte
	for {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return keys, fmt.Errorf("heir: the parent's keys end after %d: %w", keys, err)
		}
		if b == ended {
			return keys, nil
		}
		if b[16] > 1 {
			return keys, fmt.Errorf("heir: key %d is marked %d, want 0 or 1", keys, b[16])
		}
		take(exchange.KeySpent{Key: binary.LittleEndian.Uint64(b[:]), Ahead: time.Duration(binary.LittleEndian.Uint64(b[8:])), Named: b[16] == 1})
		keys++
	}
}

func write(to io.Writer, give func(visit func(exchange.KeySpent))) error {
	out := bufio.NewWriterSize(to, 1<<16)
	var err error
	give(func(s exchange.KeySpent) {
		if err != nil {
			return
		}
		var b [record]byte
		binary.LittleEndian.PutUint64(b[:], s.Key)
		binary.LittleEndian.PutUint64(b[8:], uint64(s.Ahead))
		if s.Named {
			b[16] = 1
		}
		_, err = out.Write(b[:])
	})
	if err == nil {
		_, err = out.Write(ended[:])
	}
	return errors.Join(err, out.Flush())
}

// Serve hands everything over to each heir that comes, until ctx ends.
func Serve(ctx context.Context, name string, give func(visit func(exchange.KeySpent))) error {
	for {
		err := serve(ctx, name, give)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("heir: hand over: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retake):
		}
	}
}

// serve waits for one heir; the name is the heir's when it has been answered.
func serve(ctx context.Context, name string, give func(visit func(exchange.KeySpent))) error {
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
		if own(conn) != nil {
			conn.Close() // somebody else's
			continue
		}
		l.Close()
		if conn.SetDeadline(time.Now().Add(Patience)) == nil {
			_ = write(conn, give) // an heir that goes away is the heir's loss
		}
		return conn.Close()
	}
}

// own refuses a peer that is another user.
func own(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return fmt.Errorf("heir: %w", err)
	}
	var peer *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("heir: who the peer is: %w", err)
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("heir: the peer runs as user %d, not as %d", peer.Uid, os.Getuid())
	}
	return nil
}
