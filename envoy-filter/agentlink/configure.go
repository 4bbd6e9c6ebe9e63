package agentlink

import (
	"fmt"
	"slices"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/proto/link"
)

// inForce is the configuration in force, as the agent has sent it. Of receive's goroutine.
type inForce struct {
	given config.Set
	left  []config.LeftOut // the parts that are not enforced
}

// apply puts a whole configuration in force.
func (c *Client) apply(m *config.Config) {
	valid := *m
	left := valid.LeaveOut()
	if c.o.AnswerSlots == nil {
		left = append(left, valid.LeaveOutConcurrency()...)
	}
	if err := c.o.Apply(&valid); err != nil {
		c.refuse(m.Revision, err)
		return
	}
	now := &c.inForce
	now.given.Replace(m)
	now.left = nil
	c.accept(left)
}

// change puts a change of the configuration in force. Pools and defaults apply to every tenant: if they change,
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
	valid := *d
	left := valid.LeaveOut(now.given.Shared())
	if c.o.AnswerSlots == nil {
		left = append(left, valid.LeaveOutConcurrency()...)
	}
	if err := c.o.Change(&valid); err != nil {
		c.refuse(d.Revision, err)
		return
	}
	now.forget(d)
	_ = now.given.Change(d) // the engine has that revision, and so has this
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
