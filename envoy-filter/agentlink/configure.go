package agentlink

import (
	"fmt"
	"slices"
	"sync"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/proto/link"
)

// inForce is the configuration in force, as the agent has sent it. Of receive's goroutine and of lapseWhenDue's.
type inForce struct {
	sync.Mutex
	given  config.Set
	left   []config.LeftOut // the parts that are not enforced
	clock  config.Clock     // by the agent
	lapses config.Lapses    // of given
}

// apply puts a whole configuration in force.
func (c *Client) apply(m *config.Config) {
	now := &c.inForce
	now.Lock()
	defer now.Unlock()
	at := now.at(c.o.Now())
	left, err := c.install(m, at)
	if err != nil {
		c.refuse(m.Revision, err)
		return
	}
	now.given.Replace(m)
	now.left = nil
	now.lapses.Replace(m, at)
	c.accept(left)
}

// install gives the engine what of a configuration is valid and holds at an instant, and returns the rest.
func (c *Client) install(m *config.Config, at config.Instant) ([]config.LeftOut, error) {
	valid := m.At(at)
	left := valid.LeaveOut()
	if c.o.AnswerSlots == nil {
		left = append(left, valid.LeaveOutUnheld()...)
	}
	return left, c.o.Apply(valid)
}

// installChange is install for a change of tenants.
func (c *Client) installChange(d *config.Delta, at config.Instant) ([]config.LeftOut, error) {
	valid := d.At(at)
	left := valid.LeaveOut(c.inForce.given.Shared().At(at))
	if c.o.AnswerSlots == nil {
		left = append(left, valid.LeaveOutUnheld()...)
	}
	return left, c.o.Change(valid)
}

// change puts a change of the configuration in force. Pools, defaults and plans apply to many tenants: if they change,
// the whole configuration is put in force again.
func (c *Client) change(d *config.Delta) {
	now := &c.inForce
	if d.Shared != nil {
		whole, err := now.given.Config().With(d)
		if err != nil {
			c.refuse(d.Revision, err)
			return
		}
		c.apply(whole)
		return
	}
	now.Lock()
	defer now.Unlock()
	at := now.at(c.o.Now())
	resolved := *d
	resolved.Overrides = now.given.Resolve(d.Overrides)
	d = &resolved
	left, err := c.installChange(d, at)
	if err != nil {
		c.refuse(d.Revision, err)
		return
	}
	now.forget(d)
	_ = now.given.Change(d) // the engine has that revision, and so has this
	now.lapses.Change(d, at)
	c.accept(left)
}

// forget forgets the left-out limits of tenants that a change replaces or removes. Left-out defaults, which are
// the limits of DefaultTenant, stay.
func (now *inForce) forget(d *config.Delta) {
	names, defaults := d.Names(), now.given.Shared().Defaults
	now.left = slices.DeleteFunc(now.left, func(l config.LeftOut) bool {
		return names[l.Tenant] && (l.Tenant != config.DefaultTenant ||
			!slices.ContainsFunc(defaults, func(own config.Limit) bool { return own.Name == l.Limit }))
	})
}

// accept notes that the given configuration is in force, except the limits left out.
func (c *Client) accept(left []config.LeftOut) {
	now := &c.inForce
	now.left = append(now.left, left...)
	if now.lapses.Next() != 0 {
		c.lapses.Ring()
	}
	c.refusal.Store(nil)
	c.restored, c.configured = true, true
	defer c.checkReady()
	c.Revision.Store(now.given.Revision())
	c.setLeftOut(now.given.Revision(), now.left)
}

func (c *Client) refuse(revision int64, why error) {
	c.Refused.Add(1)
	c.refusal.Store(&refusal{revision, truncate(why.Error(), longestReason)})
	c.o.Log(fmt.Sprintf("titrate: configuration revision %d refused, revision %d stays in force: %v",
		revision, c.Revision.Load(), why))
}

// setLeftOut records the limits of the configuration in force that are not enforced.
func (c *Client) setLeftOut(revision int64, left []config.LeftOut) {
	r := &link.Refused{Revision: revision, Total: len(left)}
	for _, l := range left[:min(len(left), link.MaxRefused)] {
		r.Limits = append(r.Limits, config.LeftOut{
			Tenant: truncate(l.Tenant, longestLimitText),
			Limit:  truncate(l.Limit, longestLimitText),
			Reason: truncate(l.Reason, longestLimitText),
		})
	}
	c.LeftOut.Store(int64(len(left)))
	c.leftOut.Store(r)
	if len(left) > 0 {
		const text = "titrate: %d limits of configuration revision %d are not enforced; " +
			"the first is %q of tenant %q: %v"
		c.o.Log(fmt.Sprintf(text, len(left), revision, left[0].Limit, left[0].Tenant, left[0].Reason))
	}
}

// LeftOutLimits returns the limits of the configuration in force that are not enforced, nil before the first
// configuration.
func (c *Client) LeftOutLimits() *link.Refused { return c.leftOut.Load() }

func truncate(s string, most int) string { return s[:min(len(s), most)] }
