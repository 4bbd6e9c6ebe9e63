package election

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Homes are the sites of pools: where most of a pool's demand comes from. A pool with a home is led by a sharer of
// that site, if there is one. Who leads a pool knows its demand. It states a new home next to the keys of the
// election, and the chair takes it into the next epoch.

// statement has a candidate's words in etcd: of itself, and of the pools that it leads in an epoch and that have
// another home now. The home "" is none.
type statement struct {
	Sharer
	Epoch int64             `json:"epoch,omitempty"`
	Homes map[string]string `json:"homes,omitempty"`
}

func (s statement) equal(t statement) bool {
	return s.Sharer.equal(t.Sharer) && s.Epoch == t.Epoch && maps.Equal(s.Homes, t.Homes)
}

// StateHomes states new homes of pools that this candidate leads in an epoch. It returns why that failed.
func (e *Elector) StateHomes(ctx context.Context, epoch int64, homes map[string]string) error {
	e.mu.Lock()
	lease, says := e.lease, statement{e.self(), epoch, homes}
	e.mu.Unlock()
	if lease == 0 {
		return errNotYet
	}
	return e.say(ctx, lease, says)
}

// say puts what this candidate says under its session.
func (e *Elector) say(ctx context.Context, session clientv3.LeaseID, says statement) error {
	value, err := json.Marshal(says)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err = e.config.Client.Put(asking, fmt.Sprintf("%s%x", e.sharersKey(), session), string(value),
		clientv3.WithLease(session)); err != nil {
		return errors.Join(errors.New("what it says of pools does not reach etcd"), err)
	}
	return nil
}

// homes are the homes of pools in the next epoch: those of the last one with what their leaders have stated since.
// The lock is held.
func (e *Elector) homes() map[string]string {
	last := e.view.sharing
	if e.chair && e.state.Sharing != nil {
		last = e.state.Sharing
	}
	if last == nil {
		return nil
	}
	homes := maps.Clone(last.Homes)
	for _, s := range e.view.said {
		for pool, site := range s.Homes {
			switch {
			case s.Epoch != last.Epoch || !bytes.Equal(last.Leader(pool).Key, s.Key):
			case site == "":
				delete(homes, pool)
			default:
				if homes == nil {
					homes = map[string]string{}
				}
				homes[pool] = site
			}
		}
	}
	return homes
}

// Sites reports whether one of the sharers says its site.
func (s *Sharing) Sites() bool {
	return slices.ContainsFunc(s.Sharers, func(s Sharer) bool { return s.Site != "" })
}

// Home returns the site of a pool that has a sharer there, "" if there is none.
func (s *Sharing) Home(pool string) string {
	home := s.Homes[pool]
	if home == "" || !slices.ContainsFunc(s.Sharers, func(s Sharer) bool { return s.Site == home }) {
		return ""
	}
	return home
}
