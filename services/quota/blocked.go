package quota

import (
	"fmt"
	"slices"
	"strings"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// blocks are sentences about the limits that refuse all requests of the client that was asked about, and about its
// overrides.
func (w *seen) blocks() (notes []string) {
	name := w.r.GetClient()
	if name == "" || w.r.GetShadow() {
		return nil
	}
	for _, parent := range w.s.parents(w.ctx, w.r.GetTenant()) {
		all, _, err := w.s.store.List(w.ctx, store.Query{Kind: resource.Limit, Parent: parent})
		if err != nil {
			return append(notes, fmt.Sprintf("Whether client %s is blocked is unknown: %v.", wording.Quote(name), err))
		}
		for _, m := range all {
			for _, o := range m.(*quotav1.Limit).GetOverrides() {
				if o.GetClient() == name && resource.Blocks(o.GetRate()) {
					notes = append(notes, w.block(m, name, o))
				}
			}
			one, err := w.s.store.Get(w.ctx, m.GetName()+"/overrides/"+resource.ClientID(name))
			if o, is := one.(*quotav1.Override); err == nil && is && resource.Blocks(o.GetRate()) {
				notes = append(notes, w.block(o, name, o))
			} else if err == nil && is {
				notes = append(notes, fmt.Sprintf("Client %s has %s in %s%s.", wording.Quote(name), numbersOf(o),
					o.GetName(), untilOf(o)))
			}
		}
	}
	return notes
}

// numbersOf are the numbers of an override in words.
func numbersOf(o *quotav1.Override) string {
	switch {
	case o.GetConcurrency() > 0:
		return fmt.Sprintf("concurrency %d", o.GetConcurrency())
	case o.GetAmount() > 0:
		return "amount " + wording.Number(o.GetAmount())
	}
	return fmt.Sprintf("rate %s, burst %s", o.GetRate(), wording.Number(o.GetBurst()))
}

func untilOf(o *quotav1.Override) string {
	switch {
	case o.GetUntil() == nil:
		return ""
	case resource.IsOver(o, time.Now()):
		return ", which lapsed at " + resource.Moment(o.GetUntil())
	}
	return " until " + resource.Moment(o.GetUntil())
}

// block is the sentence about one block, with its author as far as the history knows. A caller that may not read
// everything gets no history: a change's words may be about other tenants.
func (w *seen) block(m resource.Message, name string, o resource.Timed) string {
	client, ends := wording.Quote(name), "titrate unblock"
	if resource.IsOver(o, time.Now()) {
		return fmt.Sprintf("The block of %s in %s lapsed at %s.", client, m.GetName(), resource.Moment(o.GetUntil()))
	} else if o.GetUntil() != nil {
		ends = resource.Moment(o.GetUntil())
	}
	out := fmt.Sprintf("Client %s is blocked until %s: its rate in %s is 0.", client, ends, m.GetName())
	if _, only := w.s.readsOnly(w.ctx); only {
		return out
	}
	entries, _ := w.s.store.History(w.ctx, 0, lookBack)
	i := slices.IndexFunc(entries, func(e store.Entry) bool { return e.Time.Equal(m.GetUpdateTime().AsTime()) })
	if i < 0 {
		return out
	}
	e := entries[i]
	return fmt.Sprintf("%s That was last changed%s in revision %d, %s%s.", out,
		strings.TrimSuffix(" by "+e.Author, " by "), e.Revision, e.Time.UTC().Format(time.RFC3339),
		strings.TrimSuffix(": "+e.Message, ": "))
}

// lookBack bounds the entries of the history that are looked through.
const lookBack = 1000
