package link

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"time"
)

// Reader reads messages from a stream. It is not safe for concurrent use.
type Reader struct {
	src     *bufio.Reader
	payload []byte
	oldest  uint8
	newest  uint8
}

// NewReader returns a reader of versions Oldest to Version. It buffers: don't
// read from r directly.
func NewReader(r io.Reader) *Reader {
	return &Reader{src: bufio.NewReaderSize(r, 32<<10), oldest: Oldest, newest: Version}
}

// Next returns the next message, its frames put together. It keeps no memory
// of the message. At a clean end between messages the error is io.EOF, within
// one io.ErrUnexpectedEOF; malformed bytes give a *FormatError; other errors
// are the stream's own.
func (r *Reader) Next() (Message, error) {
	first, err := r.frame(true)
	if err != nil {
		return nil, err
	}
	r.payload = r.payload[:0]
	for h := first; ; {
		if err := r.body(h); err != nil {
			return nil, err
		}
		if !h.more {
			break
		}
		if h, err = r.frame(false); err != nil {
			return nil, err
		}
		if h.kind != first.kind || h.version != first.version {
			return nil, &FormatError{Message: first.kind.String(), Offset: len(r.payload),
				Reason: fmt.Sprintf("continued by a frame of %s in version %d", h.kind, h.version)}
		}
	}
	m, err := decode(first.kind, r.payload)
	r.shrink()
	return m, err
}

func (r *Reader) frame(first bool) (header, error) {
	var b [headerSize]byte
	if _, err := io.ReadFull(r.src, b[:]); err != nil {
		if err == io.EOF && !first {
			err = io.ErrUnexpectedEOF
		}
		return header{}, err
	}
	return parseHeader(b, r.oldest, r.newest)
}

// body appends a frame's payload. It grows with the bytes that arrive, so a
// length that is only claimed costs at most one step.
func (r *Reader) body(h header) error {
	if total := len(r.payload) + h.length; total > maxMessage(h.kind) {
		return &FormatError{Message: h.kind.String(), Offset: len(r.payload),
			Reason: fmt.Sprintf("longer than %d bytes", maxMessage(h.kind))}
	}
	const step = 64 << 10
	for left := h.length; left > 0; {
		n := min(left, step)
		at := len(r.payload)
		r.payload = append(r.payload, make([]byte, n)...)
		if _, err := io.ReadFull(r.src, r.payload[at:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		left -= n
	}
	return nil
}

// shrink frees a buffer that one long message has made large.
func (r *Reader) shrink() {
	if cap(r.payload) > 2*MaxPayload {
		r.payload = nil
	}
}

// Alive wraps a connection so that each read fails if nothing arrives within
// d: NewReader(Alive(conn, DeadAfter)) notices a peer that sends nothing, but waits for a
// peer that is in the middle of a long message.
func Alive(conn net.Conn, d time.Duration) io.Reader { return &alive{conn, d} }

type alive struct {
	net.Conn
	patience time.Duration
}

func (a *alive) Read(b []byte) (int, error) {
	if err := a.SetReadDeadline(time.Now().Add(a.patience)); err != nil {
		return 0, err
	}
	return a.Conn.Read(b)
}
