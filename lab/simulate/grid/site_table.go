package grid

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/titrate/titrate/papers/markdown"
)

// SiteWriter names this program at the part of docs/grids.md about a cell of a site.
func SiteWriter(c Cell) string { return fmt.Sprintf("%s, N = %d, %v", Writer, c.Replicas, c.Delay) }

// SiteLegend explains the figures of a site.
const SiteLegend = `Gateways of one site, no loss; "way" is what a packet takes between two agents, one way, ± 40 %.
Of each system: refused requests of clients below the limit, the least and the most that a client
above it gets of what one central bucket admits in the whole run, and the worst excess over
rate·t + burst of any window, requests. Missed: more than 0.1 % refused, a client that gets less than
0.99 or more than 1.01, more excess than 8·rate·way + 1. Causes:

order      of two requests within the way the second may reach the owner first, from another
           gateway, and take the last token; at λ requests/s that is λ·way of them at most
wait       a request that comes 5 ms before its token waits for it, and a central bucket refuses it;
           with burst 1, by chance: (1/r + 1/λ) / (1/r + exp(−5 ms·λ)/λ) of what that admits
hand-over  each time that the bucket itself goes to a gateway or back, the refill of one way is
           lost, and a gateway that has it lets nothing wait; a client whose bursts hop from
           gateway to gateway as they refill loses a request`

// siteHead are the titles of SiteTable.
var siteHead = []string{"limit", "burst", "way, ms", "N", "requests below", "refused: EXACT", "refused: LOCAL",
	"least: EXACT", "least: LOCAL", "most: EXACT", "most: LOCAL", "excess: EXACT", "excess: LOCAL", "8·r·way + 1",
	"missed by EXACT"}

// SiteTable is the gateways of one site: titles, and a line for each limit, way and
// number of gateways.
func (r *Result) SiteTable() (titles []string, lines [][]string) {
	return siteHead, r.siteLines(func(*SiteRow) bool { return true })
}

// siteLines are the lines of the rows of EXACT that are shown.
func (r *Result) siteLines(show func(exact *SiteRow) bool) (lines [][]string) {
	for i, exact := range r.Site {
		if exact.System != Exact || !show(exact) {
			continue
		}
		lines = append(lines, exact.line(r.Site[i+1]))
	}
	return lines
}

// line joins a row of EXACT and the row of LOCAL.
func (row *SiteRow) line(local *SiteRow) []string {
	two := func(format string, of func(*SiteRow) any) []string {
		return []string{fmt.Sprintf(format, of(row)), fmt.Sprintf(format, of(local))}
	}
	return slices.Concat(
		[]string{row.Limit, fmt.Sprintf("%g", row.Burst), fmt.Sprintf("%g", row.Delay.Seconds()*1e3),
			fmt.Sprint(row.Replicas), fmt.Sprint(row.Within)},
		two("%d", func(r *SiteRow) any { return r.Refused }),
		two("%.3f", func(r *SiteRow) any { return r.Least.Value }),
		two("%.3f", func(r *SiteRow) any { return r.Most.Value }),
		two("%+.1f", func(r *SiteRow) any { return r.Excess.Value }),
		[]string{fmt.Sprintf("%.1f", row.Bound), cmp.Or(strings.Join(row.misses(), ", "), "–")})
}

// sortSite puts the rows into the order of the table, EXACT before LOCAL.
func (r *Result) sortSite() {
	slices.SortStableFunc(r.Site, func(a, b *SiteRow) int {
		return cmp.Or(-cmp.Compare(a.rate, b.rate), cmp.Compare(a.Burst, b.Burst), cmp.Compare(a.Replicas, b.Replicas),
			cmp.Compare(a.Delay, b.Delay), cmp.Compare(a.System, b.System))
	})
}

// SiteDocument returns the gateways of one site in Markdown: the totals of refused requests and missed targets,
// and the table.
func (r *Result) SiteDocument() string {
	rows, within := 0, 0
	refused, missed := map[string]int{}, map[string]int{}
	for _, row := range r.Site {
		refused[row.System] += row.Refused
		if row.System != Exact {
			continue
		}
		rows++
		within += row.Within
		for _, miss := range row.misses() {
			what, _, _ := strings.Cut(miss, ":")
			missed[what]++
		}
	}
	head, lines := r.SiteTable()
	return fmt.Sprintf("Of %d requests of clients below their limit EXACT refused %d and LOCAL %d. Of %d rows EXACT "+
		"misses the target for refusals in %d, the one for the mean in %d and the one for the excess in %d.\n\n%s",
		within, refused[Exact], refused[Local], rows, missed["refused"], missed["mean"], missed["excess"],
		markdown.Table(head, lines))
}
