package coordinator

import (
	"fmt"
	"slices"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/stream"
)

// part is the part of the configuration that this coordinator leads.
type part struct {
	whole   *allocation.Config // nil: not known yet
	sharing *election.Sharing  // nil: all of it
	config  *allocation.Config // what is led
	pools   []string           // in it

	led []string        // pools, as agents know it
	had map[string]bool // pools of the configuration then; nil: nothing is led
}

// of makes the part of a configuration. It costs nothing if neither has changed.
func (p *part) of(whole *allocation.Config, sharing *election.Sharing) {
	if whole == p.whole && sharing == p.sharing {
		return
	}
	p.whole, p.sharing, p.config, p.pools = whole, sharing, whole, nil
	if whole == nil || sharing == nil {
		return
	}
	p.config = whole.Part(sharing.Leads)
	for i := range p.config.Pools {
		p.pools = append(p.pools, p.config.Pools[i].Name)
	}
}

// gained are the pools that are led here and were led elsewhere before.
func (p *part) gained() (pools []string) {
	for _, name := range p.pools {
		if p.had[name] && !slices.Contains(p.led, name) {
			pools = append(pools, name)
		}
	}
	return pools
}

// moved reports whether other pools are led here than agents know.
func (p *part) moved() bool { return p.sharing != nil && !slices.Equal(p.pools, p.led) }

// lead notes that agents are sent the part.
func (p *part) lead() {
	p.led, p.had = p.pools, map[string]bool{}
	if p.whole == nil {
		return
	}
	for i := range p.whole.Pools {
		name := p.whole.Pools[i].Name
		p.had[name] = true
		if p.sharing == nil {
			p.led = append(p.led, name)
		}
	}
}

// forget notes that nothing is led here.
func (p *part) forget() { p.led, p.had = nil, nil }

// sharing returns the list of leaders for agents, nil if this coordinator leads all pools.
func (o *Coordinator) sharing(s *election.Sharing) *stream.Sharing {
	if s == nil {
		return nil
	}
	c := &controlv1.Coordinators{Epoch: s.Epoch, Self: o.config.Advertise, Pools: o.part.pools, Others: s.Chairs()}
	out := &stream.Sharing{Coordinators: c, Older: o.elector.HeardOlder}
	for i := range s.Sharers {
		c.Addresses = append(c.Addresses, s.Sharers[i].Address)
	}
	if !s.Chairs() {
		out.Chair = s.ChairAddress()
	}
	return out
}

// joinTime bounds the time that the elected coordinator may take to share with another one.
const joinTime = 2 * time.Second

// notShared says why the pools are not shared though they should be, nil if they are.
func (o *Coordinator) notShared() error {
	if !o.config.SharePools {
		return nil
	}
	state, _ := o.elector.State()
	switch {
	case state.Role == election.Following && state.Leader != "" && time.Since(state.Since) > joinTime:
		if o.elector.LeftOut() {
			return fmt.Errorf("%s leads all pools: it has, or had within a minute, an agent that knows one leader "+
				"only", state.Leader)
		}
		return fmt.Errorf("%s leads all pools: it runs without --share-pools, or is of an older release", state.Leader)
	case !o.elector.Alone():
		return nil
	}
	if agent := o.streams.Older(); agent != "" {
		return fmt.Errorf("agent %s is of a release that knows one leader only: one coordinator leads all pools", agent)
	}
	return fmt.Errorf("an agent of a release that knows one leader only was here: one coordinator leads all pools, " +
		"for a minute after it")
}
