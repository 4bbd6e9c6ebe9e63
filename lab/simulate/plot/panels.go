package plot

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/titrate/titrate/lab/simulate/measure"
)

// mostLines is the number of a row's lines that are drawn.
const mostLines = 8

// colours are colours that most people can distinguish (Okabe and Ito).
var colours = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255},
	color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{120, 94, 20, 255},
	color.RGBA{90, 90, 90, 255},
}

var (
	grey   = color.Gray{Y: 150}
	dashes = []vg.Length{vg.Points(4), vg.Points(3)}
)

// line is one line of a panel.
type line struct {
	name   string
	values []float64
	colour color.Color
	dashed bool
}

// row is one question: its title, and the lines of each system.
type row struct {
	kind  string // one of Kinds
	title string
	lines func(s *measure.Series) []line
}

// panels draws the rows of some kinds (nil: all) for all systems; each row has one scale.
func panels(r *measure.Result, kinds []string) ([][]*plot.Plot, error) {
	for i := range r.Systems {
		if r.Systems[i].Series == nil {
			return nil, errors.New("the result has no series over time")
		}
	}
	if len(r.Systems) == 0 {
		return nil, errors.New("the result has no system")
	}
	all := rows(r.Systems[0].Series)
	if kinds != nil {
		all = slices.DeleteFunc(all, func(r row) bool { return !slices.Contains(kinds, r.kind) })
		if len(all) == 0 {
			return nil, fmt.Errorf("the scenario has none of %s", strings.Join(kinds, ", "))
		}
	}
	grid := make([][]*plot.Plot, 0, len(all))
	for i, row := range all[:min(len(all), mostPanels)] {
		var across []*plot.Plot
		top := 0.0
		for k := range r.Systems {
			p, err := panel(r, &r.Systems[k], row, i == 0)
			if err != nil {
				return nil, err
			}
			top = max(top, height(row.lines(r.Systems[k].Series), r.Systems[k].Series.StepSeconds))
			across = append(across, p)
		}
		for _, p := range across {
			p.X.Min, p.X.Max = 0, r.DurationSeconds
			p.Y.Min, p.Y.Max = 0, top
		}
		grid = append(grid, across)
	}
	return grid, nil
}

// wanted is the line that may leave its panel at the top: one client that wants a
// thousand times the capacity would press all others flat.
const wanted = "wanted"

// headroom is free above the highest line.
const headroom = 1.05

// systemTitles are names of systems in words; others are titles as they are.
var systemTitles = map[string]string{"titrate": "Titrate", "shared": "one shared bucket"}

// height returns the largest value of a panel.
func height(lines []line, step float64) float64 {
	most, all := 0.0, 0.0
	for _, l := range lines {
		if len(l.values) == 0 {
			continue
		}
		highest := slices.Max(course(l.values, step))
		all = max(all, highest)
		if l.name != wanted {
			most = max(most, highest)
		}
	}
	return max(min(all, most*1.5), 1e-9) * headroom
}

// Kinds of rows, as [Write] takes them.
func Kinds() []string { return []string{"pools", "tenants", "limits", "gateways"} }

// rows are the questions that a result answers.
func rows(s *measure.Series) (out []row) {
	for i := range s.Pools {
		name := s.Pools[i].Pool
		out = append(out,
			row{"pools", "pool " + name, func(s *measure.Series) []line { return poolLines(&s.Pools[i]) }},
			row{"tenants", "tenants of " + name, func(s *measure.Series) []line { return flowLines(s, name) }})
	}
	for i := range s.Limits {
		l := &s.Limits[i]
		out = append(out, row{"limits", "limit " + l.Tenant + "/" + l.Limit,
			func(s *measure.Series) []line { return limitLines(&s.Limits[i]) }})
	}
	gateways := row{"gateways", "gateways", gatewayLines}
	if len(out) >= mostPanels {
		out = out[:mostPanels-1]
	}
	return append(out, gateways)
}

func poolLines(p *measure.PoolSeries) []line {
	return []line{
		{wanted, p.Demand, grey, true},
		{"admitted", p.Admitted, colours[0], false},
		{"capacity", p.Capacity, color.Black, false},
	}
}

func flowLines(s *measure.Series, pool string) (out []line) {
	var flows []*measure.FlowSeries
	for i := range s.Flows {
		if s.Flows[i].Pool == pool {
			flows = append(flows, &s.Flows[i])
		}
	}
	slices.SortStableFunc(flows, func(a, b *measure.FlowSeries) int { return cmp.Compare(sum(b.Fair), sum(a.Fair)) })
	for i, f := range flows[:min(len(flows), mostLines)] {
		colour := colours[i%len(colours)]
		out = append(out, line{f.Tenant, f.Admitted, colour, false}, line{"", f.Fair, colour, true})
	}
	return out
}

func limitLines(l *measure.LimitSeries) []line {
	return []line{
		{wanted, l.Offered, grey, true},
		{"central bucket", l.Central, colours[1], true},
		{"admitted", l.Admitted, colours[0], false},
		{"rate", l.Rate, color.Black, false},
	}
}

func gatewayLines(s *measure.Series) (out []line) {
	for i := range s.Gateways[:min(len(s.Gateways), mostLines)] {
		g := &s.Gateways[i]
		out = append(out, line{g.Gateway, g.Admitted, colours[i%len(colours)], false})
	}
	if more := len(s.Gateways) - mostLines; more > 0 {
		out = append(out, line{fmt.Sprintf("and %d more", more), nil, color.Transparent, false})
	}
	return out
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// panel draws one row of one system.
func panel(r *measure.Result, s *measure.System, row row, first bool) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = cmp.Or(systemTitles[s.Name], s.Name) + ": " + row.title
	p.Title.TextStyle.Font.Size = vg.Points(11)
	p.X.Label.Text, p.Y.Label.Text = "seconds", "units/s"
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = vg.Points(9), vg.Points(9)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Legend.ThumbnailWidth = vg.Points(14)
	p.Add(plotter.NewGrid(), &events{r.Events, first})
	for _, l := range row.lines(s.Series) {
		drawn, err := plotter.NewLine(points(l.values, s.Series.StepSeconds))
		if err != nil && len(l.values) > 0 {
			return nil, fmt.Errorf("%s, %s: %w", p.Title.Text, l.name, err)
		}
		if len(l.values) > 0 {
			drawn.Color, drawn.Width = l.colour, vg.Points(1.2)
			if l.dashed {
				drawn.Dashes = dashes
			}
			p.Add(drawn)
			if l.name != "" {
				p.Legend.Add(l.name, drawn)
			}
		} else if l.name != "" {
			p.Legend.Add(l.name)
		}
	}
	return p, nil
}

// mostPoints is the largest number of points of a line: with more, noise hides the trend.
const mostPoints = 120

// coarse returns how many steps are averaged into one point of a line: half a second, more in long runs.
func coarse(steps int, step float64) int {
	return max(1, int(math.Round(.5/step)), (steps+mostPoints-1)/mostPoints)
}

// course takes means over some steps each.
func course(values []float64, step float64) []float64 {
	n := coarse(len(values), step)
	out := make([]float64, 0, len(values)/n+1)
	for part := range slices.Chunk(values, n) {
		out = append(out, sum(part)/float64(len(part)))
	}
	return out
}

// points puts the means of some steps into their middle.
func points(values []float64, step float64) plotter.XYs {
	width := float64(coarse(len(values), step)) * step
	out := plotter.XYs{}
	for i, v := range course(values, step) {
		out = append(out, plotter.XY{X: (float64(i) + .5) * width, Y: v})
	}
	return out
}

// events draws a vertical line for each event, with the event's text if named.
type events struct {
	at    []measure.Event
	named bool
}

// Plot implements plot.Plotter.
func (e *events) Plot(c draw.Canvas, p *plot.Plot) {
	const longest = 28
	x, _ := p.Transforms(&c)
	style := p.X.Tick.Label
	style.Font.Size = vg.Points(7)
	style.Rotation = math.Pi / 2
	style.XAlign, style.YAlign = draw.XLeft, draw.YTop
	for _, event := range e.at {
		at := x(event.AtSeconds)
		c.StrokeLine2(draw.LineStyle{Color: grey, Width: vg.Points(.8)}, at, c.Min.Y, at, c.Max.Y)
		if text := []rune(event.What); e.named {
			if len(text) > longest {
				text = append(text[:longest-1], '…')
			}
			c.FillText(style, vg.Point{X: at + vg.Points(1), Y: c.Min.Y + vg.Points(3)}, string(text))
		}
	}
}
