package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// Versions of the gossip. Every agent announces the oldest and the newest that it
// understands; two agents speak the newest that both do.
//
// A packet is a datagram sealed for one addressee, see [identity].
const (
	oldest  = 1
	current = schedule.Version
)

// A frame is a sealed packet. The first byte distinguishes it from memberlist's own
// datagrams, which begin with 0 to 13, or with 244.
//
//	offset  size  what
//	0       1     0x54
//	1       1     version
//	2       8     the sender: the first bytes of the SHA-256 of its public key
//	10      8     number of the frame to this addressee, big-endian; never twice
//	18      …     the packet under AES-256-GCM, with a tag of 16 bytes
const (
	frameMark  = 0x54
	frameHead  = 18
	frameExtra = frameHead + 16
	keyBytes   = 32
)

// errVersion is a frame of a version that this build does not understand.
var errVersion = errors.New("unknown version of the gossip")

// sender names a public key in frames.
type sender [8]byte

// identity binds an agent's packets to its name: a key pair that lives as long as the process. memberlist gives all
// agents the public key with the name. The key of a frame follows from the key pairs of the two agents and the gossip
// key, so that only these two agents can have made it.
type identity struct {
	private *ecdh.PrivateKey
	begun   *atomic.Uint64 // sessions
	newest  uint8          // version that this agent speaks: current, but in tests
	site    string
}

func newIdentity(newest uint8) (identity, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return identity{}, fmt.Errorf("gossip: make a key pair: %w", err)
	}
	return identity{private: private, begun: new(atomic.Uint64), newest: newest}, nil
}

// meta returns the data about this agent that memberlist gives the others.
func (i identity) meta() []byte {
	return append(append([]byte{oldest, i.newest}, i.private.PublicKey().Bytes()...), i.site...)
}

// siteOf reads the site in a peer's meta; "" if it has none, as agents of versions without sites.
func siteOf(meta []byte) string {
	if len(meta) <= 2+keyBytes || len(meta) > 2+keyBytes+maxSite || !utf8.Valid(meta[2+keyBytes:]) {
		return ""
	}
	return string(meta[2+keyBytes:])
}

// agree reads a peer's meta: the version to speak with it, 0 if there is none
// in common, and its public key.
func (i identity) agree(meta []byte) (version uint8, public []byte) {
	if len(meta) < 2+keyBytes {
		return 0, nil
	}
	if version = min(i.newest, meta[1]); version < max(oldest, meta[0]) {
		return 0, nil
	}
	return version, meta[2 : 2+keyBytes]
}

func senderOf(public []byte) sender {
	sum := sha256.Sum256(public)
	return sender(sum[:len(sender{})])
}

// session seals and opens the frames between this agent and one life of another.
type session struct {
	version  uint8
	own      sender
	public   []byte // the peer's
	out      cipher.AEAD
	in       atomic.Pointer[[]cipher.AEAD] // one for each gossip key
	numbered uint64                        // frames sealed, by whatever key: no number comes twice
	opened   window                        // of the peer's frames
	sealing  [12]byte                      // the number of the frame that is sealed, as the nonce
	opening  [12]byte                      // the same of the frame that is opened
}

// perSession is the size of a session's range of frame numbers. A peer that was forgotten and is back
// has the same key: its next session uses the next range.
const perSession = 1 << 40

// window says which frames have been opened: of the latest windowFrames each once, of those before none
// any more. It is used by one goroutine at a time.
type window struct {
	highest uint64
	seen    [windowFrames / 64]uint64 // a bit for each number, modulo windowFrames
}

// windowFrames is the number of frames by which one may be late, a power of two.
const windowFrames = 1024

// take reports whether a frame of that number is opened for the first time.
func (w *window) take(number uint64) bool {
	switch {
	case number+windowFrames <= w.highest:
		return false
	case number >= w.highest+windowFrames:
		w.seen = [windowFrames / 64]uint64{}
	default:
		for n := w.highest + 1; n <= number; n++ {
			w.seen[n%windowFrames/64] &^= 1 << (n % 64)
		}
	}
	w.highest = max(w.highest, number)
	bit := uint64(1) << (number % 64)
	at := &w.seen[number%windowFrames/64]
	first := *at&bit == 0
	*at |= bit
	return first
}

// with makes the session with the owner of a public key, in a version of the gossip. The first gossip key seals;
// frames of each open. nil is one of no bytes.
func (i identity) with(version uint8, public []byte, keys [][]byte) (*session, error) {
	s := &session{version: version, own: senderOf(i.private.PublicKey().Bytes()), public: bytes.Clone(public),
		numbered: i.begun.Add(1) * perSession}
	if err := s.rekey(i, keys); err != nil {
		return nil, err
	}
	return s, nil
}

// rekey replaces the gossip keys of the session.
func (s *session) rekey(i identity, keys [][]byte) error {
	theirs, err := ecdh.X25519().NewPublicKey(s.public)
	if err != nil {
		return err
	}
	secret, err := i.private.ECDH(theirs)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		keys = [][]byte{nil}
	}
	own := i.private.PublicKey().Bytes()
	out, err := frameCipher(secret, keys[0], own, s.public)
	if err != nil {
		return err
	}
	in := make([]cipher.AEAD, len(keys))
	for n, key := range keys {
		if in[n], err = frameCipher(secret, key, s.public, own); err != nil {
			return err
		}
	}
	s.out = out
	s.in.Store(&in)
	return nil
}

// frameCipher returns the cipher of one direction, by one gossip key.
func frameCipher(secret, clusterKey, from, to []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, clusterKey, "titrate gossip "+string(from)+string(to), keyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal appends the frame of a packet to b.
func (s *session) seal(b, packet []byte) []byte {
	s.numbered++
	at := len(b)
	b = slices.Grow(b, len(packet)+frameExtra)
	b = append(b, frameMark, s.version)
	b = append(b, s.own[:]...)
	b = binary.BigEndian.AppendUint64(b, s.numbered)
	head := b[at:]
	copy(s.sealing[4:], head[10:frameHead])
	return s.out.Seal(b, s.sealing[:], packet, head)
}

// errReplayed is a frame that was opened before, or that may have been.
var errReplayed = errors.New("a frame that was recorded and is played again, or is very late")

// open appends the packet of a frame whose head is whole to b. It opens each frame once.
func (s *session) open(b, frame []byte) (packet []byte, err error) {
	copy(s.opening[4:], frame[10:frameHead])
	for _, key := range *s.in.Load() {
		if packet, err = key.Open(b, s.opening[:], frame[frameHead:], frame[:frameHead]); err == nil {
			break
		}
	}
	if err == nil && !s.opened.take(binary.BigEndian.Uint64(frame[10:frameHead])) {
		return nil, errReplayed
	}
	return packet, err
}

// frameFrom says whose key a frame claims to be sealed with.
func frameFrom(frame []byte) (from sender, err error) {
	if len(frame) < frameExtra {
		return from, fmt.Errorf("a frame of %d bytes, want at least %d", len(frame), frameExtra)
	}
	if v := frame[1]; v < oldest || v > current {
		return from, fmt.Errorf("%w: %d, this build knows %d to %d", errVersion, v, oldest, current)
	}
	return sender(frame[2:10]), nil
}
