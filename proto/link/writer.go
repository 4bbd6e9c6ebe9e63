package link

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/titrate/titrate/control/config"
)

// Writer writes messages to a stream. It is not safe for concurrent use.
// Give it a connection with a write deadline: a peer that does not read must
// not block the writer indefinitely.
type Writer struct {
	dst     io.Writer
	version uint8
	payload []byte
	frames  []byte
}

// NewWriter returns a writer that stamps Oldest until SetVersion is called.
func NewWriter(w io.Writer) *Writer { return &Writer{dst: w, version: Oldest} }

// SetVersion sets the version that Negotiate returned.
func (w *Writer) SetVersion(v uint8) { w.version = v }

// Write sends one message, in as many frames as it needs. After an error the
// stream is out of step: close the connection. A message beyond MaxMessage, a
// string beyond 32 KiB in a record, or a number that JSON cannot carry, is refused
// before anything is sent; the stream then stays usable.
func (w *Writer) Write(m Message) error {
	k := kindOf(m)
	if k == 0 {
		return fmt.Errorf("link: %T is no message of the link", m)
	}
	payload, err := encode(w.payload[:0], m)
	if err != nil {
		return fmt.Errorf("link: encode %s: %w", k, err)
	}
	w.payload = payload
	if len(payload) > maxMessage(k) {
		return fmt.Errorf("link: encode %s: %d bytes, at most %d are allowed", k, len(payload), maxMessage(k))
	}
	w.frames = w.frames[:0]
	for first := true; first || len(payload) > 0; first = false {
		part := payload[:min(len(payload), MaxPayload)]
		payload = payload[len(part):]
		h := header{length: len(part), version: w.version, kind: k, more: len(payload) > 0}
		w.frames = append(h.append(w.frames), part...)
	}
	_, err = w.dst.Write(w.frames)
	if cap(w.frames) > 2*MaxPayload {
		w.frames, w.payload = nil, nil
	}
	return err
}

// Fits returns an error if a configuration of so many bytes, and so many of overrides that are apart, cannot be sent:
// either has half of MaxMessage.
func Fits(size, overrides int) error {
	if most := maxMessage(kindConfig) / 2; size > most {
		return fmt.Errorf("link: the configuration takes %d bytes, gateways take at most %d: "+
			"it has too many tenants, quotas, limits or overrides", size, most)
	} else if overrides > most {
		return fmt.Errorf("link: overrides that are resources take %d bytes, gateways take at most %d", overrides, most)
	}
	return nil
}

// ConfigSize returns the size of an encoded configuration in bytes, whatever its revision and seed. It costs
// as much as sending it.
func ConfigSize(c *config.Config) (int, error) {
	const numbers = 2*len("18446744073709551615") + len(`,"tenants":[]`)
	size, err := jsonSize(c)
	return size + numbers, err
}

// TenantSize returns the size of a tenant in an encoded configuration, in bytes.
func TenantSize(t *config.Tenant) (int, error) {
	size, err := jsonSize(t)
	return size + len(","), err
}

// OverridesSize returns the most that a table of so many overrides takes in an encoded configuration, in bytes.
func OverridesSize(of config.OverridesOf, rows int) int {
	const frame = len(`{"tenant":"","limit":"","kind":9,"rows":""},`) + 4
	return frame + len(of.Tenant) + len(of.Limit) + rows*config.RowSize
}

func jsonSize(v any) (int, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return 0, fmt.Errorf("link: encode Config: %w", err)
	}
	return len(b), nil
}

func encode(b []byte, m Message) ([]byte, error) {
	switch m.(type) {
	case *Hello, *config.Config, *config.Delta:
		return appendJSON(b, m)
	}
	c := coder{buf: b}
	code(&c, m)
	return c.buf, c.err
}

func appendJSON(b []byte, v any) ([]byte, error) {
	j, err := json.Marshal(v)
	return append(b, j...), err
}
