package grid

import (
	"cmp"
	"slices"
)

// byOrder compares systems by the order of their columns.
func byOrder(a, b string) int {
	order := []string{Optimistic, Strict, "static", "claims"}
	return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
}

// finish sorts the rows and finds the figures in which rivals do better.
func (r *Result) finish() {
	r.sortSite()
	slices.SortStableFunc(r.Rows, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(min(1, len(a.Events)), min(1, len(b.Events))), -cmp.Compare(a.rate, b.rate),
			cmp.Compare(a.Burst, b.Burst), cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(a.Events, b.Events),
			byOrder(a.System, b.System))
	})
	var ours *Row
	for _, row := range r.Rows {
		if row.System == Optimistic {
			ours = row
			continue
		}
		r.Losses = append(r.Losses, losses(ours, row)...)
	}
	r.Losses = append(r.Losses, r.toCentral()...)
}

// losses are the figures of a limit in which a rival is better, beyond noise: a
// thousandth of the requests, a hundredth of the mean, a request of excess.
func losses(ours, rival *Row) []Loss {
	var out []Loss
	note := func(what string, better bool, a, b Extreme) {
		if better {
			out = append(out, Loss{ours.Limit, ours.Burst, ours.Replicas, ours.Events, what, rival.System, a, b})
		}
	}
	note("wrongful", rival.Wrongful.Value < ours.Wrongful.Value-.001, ours.Wrongful, rival.Wrongful)
	note("mean", ours.Mean.set && rival.Mean.Value > ours.Mean.Value+.01, ours.Mean, rival.Mean)
	note("excess", rival.Excess.Value < ours.Excess.Value-1, ours.Excess, rival.Excess)
	return out
}

// toCentral are the figures in which one central bucket, exact by definition, is
// better than OPTIMISTIC: refusals and means; it has no excess at all.
func (r *Result) toCentral() []Loss {
	var out []Loss
	for _, row := range r.Rows {
		if row.System != Optimistic {
			continue
		}
		central := Row{System: "central", Mean: Extreme{Value: 1, set: true}, Excess: Extreme{Value: 0, set: true}}
		out = append(out, losses(row, &central)...)
	}
	return out
}
