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

// blocks are sentences about the limits that refuse all requests of the client that was asked about.
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
					notes = append(notes, w.block(m, o))
				}
			}
		}
	}
	return notes
}

// block is the sentence about one block, with its author as far as the history knows. A caller that may not read
// everything gets no history: a change's words may be about other tenants.
func (w *seen) block(m resource.Message, o *quotav1.Override) string {
	client, ends := wording.Quote(o.GetClient()), "titrate unblock"
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
	return fmt.Sprintf("%s That limit was last changed%s in revision %d, %s%s.", out,
		strings.TrimSuffix(" by "+e.Author, " by "), e.Revision, e.Time.UTC().Format(time.RFC3339),
		strings.TrimSuffix(": "+e.Message, ": "))
}

// lookBack bounds the entries of the history that are looked through.
const lookBack = 1000
