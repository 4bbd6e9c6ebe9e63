package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/memberlist"
)

// Rotate replaces the gossip keys while the node runs: from then on the first one seals, and each of them opens. Two
// agents receive each other's packets as long as each has the key that the other seals with. It fails, and changes
// nothing, without a key before or after: whether the gossip is encrypted at all stays as it was at the start.
func (m *Node) Rotate(keys [][]byte) error {
	if m.ring == nil || len(keys) == 0 {
		return errors.New("gossip: encryption begins and ends with a restart only")
	}
	for _, key := range keys {
		if err := memberlist.ValidateKey(key); err != nil {
			return fmt.Errorf("gossip: %w", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		if err := m.ring.AddKey(key); err != nil {
			return fmt.Errorf("gossip: %w", err)
		}
	}
	if err := m.ring.UseKey(keys[0]); err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	for _, c := range m.contacts {
		if c.session == nil {
			continue
		}
		if err := c.session.rekey(m.self, keys); err != nil {
			return fmt.Errorf("gossip: session with %s: %w", c.node.Name, err)
		}
	}
	for _, key := range slices.Clone(m.keys()) { // the ring changes its list in place
		if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			continue
		}
		if err := m.ring.RemoveKey(key); err != nil {
			return fmt.Errorf("gossip: %w", err)
		}
	}
	return nil
}

// Keys counts the gossip keys in use.
func (m *Node) Keys() int { return len(m.keys()) }

// keys are the gossip keys in use; the first one seals.
func (m *Node) keys() [][]byte {
	if m.ring == nil {
		return nil
	}
	return m.ring.GetKeys()
}
