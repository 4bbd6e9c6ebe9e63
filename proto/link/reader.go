package link

import (
	"bufio"
	"encoding/json"
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
	agent   bool // the reader is an agent, which reads what a filter sends
	greeted bool // a Hello was read
}

// NewReader returns a reader of versions Oldest to Version. It buffers: don't
// read from r directly.
func NewReader(r io.Reader) *Reader {
	return &Reader{src: bufio.NewReaderSize(r, 32<<10), oldest: Oldest, newest: Version}
}

// NewAgentReader returns a reader for an agent: it refuses what no filter sends, at the frame's header. Only the
// first message is a Hello; messages of agents are refused, and [MaxFromFilter] bounds the others. So a process
// that is no filter cannot make the agent gather and decode configurations.
func NewAgentReader(r io.Reader) *Reader {
	in := NewReader(r)
	in.agent = true
	return in
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
	r.greeted = r.greeted || err == nil
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
	h, err := parseHeader(b, r.oldest, r.newest)
	if err == nil && r.agent && !r.mayCome(h.kind) {
		err = &FormatError{Message: h.kind.String(),
			Reason: "a filter sends a Hello first, and then only its own kinds"}
	}
	return h, err
}

// mayCome reports whether a filter may send a message of a kind now.
func (r *Reader) mayCome(k kind) bool {
	if !r.greeted || k == kindHello {
		return !r.greeted && k == kindHello
	}
	return maxFromFilter(k) > 0
}

// most bounds a message of a kind in bytes.
func (r *Reader) most(k kind) int {
	if r.agent && r.greeted {
		return maxFromFilter(k)
	}
	return maxMessage(k)
}

// body appends a frame's payload. It grows with the bytes that arrive, so a
// length that is only claimed costs at most one step.
func (r *Reader) body(h header) error {
	if total, most := len(r.payload)+h.length, r.most(h.kind); total > most {
		return &FormatError{Message: h.kind.String(), Offset: len(r.payload),
			Reason: fmt.Sprintf("longer than %d bytes", most)}
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

// Alive wraps a connection so that each read fails if nothing arrives within the time. A
// reader of Alive(conn, DeadAfter) notices a peer that sends nothing, but waits for a peer
// that is in the middle of a long message.
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

// decode reads one whole payload of a kind that parseHeader knows.
func decode(k kind, b []byte) (Message, error) {
	m := blanks[k]()
	if k == kindHello || k == kindConfig || k == kindDelta {
		return decodeJSON(k, b, m)
	}
	c := coder{buf: b, reading: true, message: k}
	code(&c, m)
	if c.err == nil && c.at != len(b) {
		c.fail("", "%d bytes too many", len(b)-c.at)
	}
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

func decodeJSON(k kind, b []byte, m Message) (Message, error) {
	if err := json.Unmarshal(b, m); err != nil {
		return nil, &FormatError{Message: k.String(), Reason: err.Error()}
	}
	if h, ok := m.(*Hello); ok {
		if err := h.check(); err != nil {
			return nil, err
		}
	}
	return m, nil
}
