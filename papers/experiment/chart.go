package experiment

import (
	"encoding/csv"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Chart is one plot: lines over the same axes.
type Chart struct {
	Name, Title string
	X, Y        string // titles of the axes, with units
	LogX, LogY  bool
	// YMax fixes the top of the y axis; 0 fits it to the lines.
	YMax  float64
	Lines []*Line
}

// Style is the style of a line.
type Style int

// The styles.
const (
	Solid Style = iota
	// Thin is for noise behind another line.
	Thin
	// Dots are points that are not joined.
	Dots
	// FromPaper marks the paper's figures: dashed black.
	FromPaper
	// PaperDots marks points that the paper gives: black crosses.
	PaperDots
)

// Line is one curve.
type Line struct {
	Name   string
	Style  Style
	points plotter.XYs
}

// Line adds an empty line.
func (c *Chart) Line(name string, style Style) *Line {
	l := &Line{Name: name, Style: style}
	c.Lines = append(c.Lines, l)
	return l
}

// Level adds a dashed horizontal line for a value of the paper.
func (c *Chart) Level(name string, from, to, value float64) {
	l := c.Line(name, FromPaper)
	l.Add(from, value)
	l.Add(to, value)
}

// Marked reports whether the chart has the paper's figures.
func (c *Chart) Marked() bool {
	return slices.ContainsFunc(c.Lines, func(l *Line) bool { return l.Style == FromPaper || l.Style == PaperDots })
}

// Add appends a point.
func (l *Line) Add(x, y float64) { l.points = append(l.points, plotter.XY{X: x, Y: y}) }

// Len is the number of points.
func (l *Line) Len() int { return len(l.points) }

// At is the i-th point.
func (l *Line) At(i int) (x, y float64) { return l.points[i].X, l.points[i].Y }

// colours are colours that most people can distinguish (Okabe and Ito).
var colours = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255},
	color.RGBA{120, 94, 20, 255}, color.RGBA{90, 90, 90, 255}, color.RGBA{150, 0, 60, 255},
	color.RGBA{0, 90, 60, 255}, color.RGBA{130, 110, 220, 255}, color.RGBA{180, 160, 0, 255},
}

// Save writes NAME.svg, NAME.png and NAME.csv into dir.
func (c *Chart) Save(dir string) error {
	p, err := c.plot()
	if err != nil {
		return fmt.Errorf("chart %s: %w", c.Name, err)
	}
	base := filepath.Join(dir, c.Name)
	return errors.Join(picture(p, base, "svg"), picture(p, base, "png"), c.table(base+".csv"))
}

// picture writes a plot of 18 by 11 cm with a margin.
func picture(p *plot.Plot, base, format string) error {
	canvas, err := draw.NewFormattedCanvas(18*vg.Centimeter, 11*vg.Centimeter, format)
	if err != nil {
		return err
	}
	margin := vg.Points(5)
	p.Draw(draw.Crop(draw.New(canvas), margin, -2*margin, margin, -margin))
	file, err := os.Create(base + "." + format)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

func (c *Chart) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.X.Padding, p.Y.Padding = 0, 0
	p.Legend.Top, p.Legend.ThumbnailWidth = true, vg.Points(14)
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Legend.XOffs = -vg.Points(4)
	p.Add(plotter.NewGrid())
	for i, l := range c.Lines {
		if len(l.points) == 0 {
			return nil, fmt.Errorf("line %q has no points", l.Name)
		}
		if err := l.draw(p, colours[i%len(colours)]); err != nil {
			return nil, fmt.Errorf("line %q: %w", l.Name, err)
		}
	}
	c.scale(p)
	return p, nil
}

// scale sets the axes, with room for the legend above the lines.
func (c *Chart) scale(p *plot.Plot) {
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, ticks{}
	if c.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if c.YMax > 0 {
		p.Y.Max = c.YMax
	}
	rows := float64(len(c.Lines))
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		for range len(c.Lines) / 2 {
			p.Y.Max *= 4
		}
		return
	}
	p.Y.Min = min(p.Y.Min, 0)
	p.Y.Max += (p.Y.Max - p.Y.Min) * min(.06*rows, .8)
}

// draw adds the line to a plot.
func (l *Line) draw(p *plot.Plot, c color.Color) error {
	points := l.thinned(3000)
	if l.Style == Dots || l.Style == PaperDots {
		s, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(1.6), Shape: draw.CircleGlyph{}}
		if l.Style == PaperDots {
			s.GlyphStyle = draw.GlyphStyle{Color: color.Black, Radius: vg.Points(4), Shape: draw.CrossGlyph{}}
		}
		p.Add(s)
		p.Legend.Add(l.Name, s)
		return nil
	}
	d, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	d.Color, d.Width = c, vg.Points(1.3)
	switch l.Style {
	case Thin:
		d.Width = vg.Points(.5)
	case FromPaper:
		d.Color, d.Dashes = color.Black, []vg.Length{vg.Points(4), vg.Points(3)}
	}
	p.Add(d)
	p.Legend.Add(l.Name, d)
	return nil
}

// thinned are at most limit of the points, evenly chosen.
func (l *Line) thinned(limit int) plotter.XYs {
	if len(l.points) <= limit {
		return l.points
	}
	out := make(plotter.XYs, limit)
	for i := range out {
		out[i] = l.points[i*(len(l.points)-1)/(limit-1)]
	}
	return out
}

// table writes the points, a row each.
func (c *Chart) table(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	rows := [][]string{{"line", c.X, c.Y}}
	for _, l := range c.Lines {
		for _, p := range l.points {
			rows = append(rows, []string{l.Name, strconv.FormatFloat(p.X, 'g', 8, 64),
				strconv.FormatFloat(p.Y, 'g', 8, 64)})
		}
	}
	return errors.Join(csv.NewWriter(file).WriteAll(rows), file.Close())
}

// ticks places five to ten ticks at round numbers.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) (out []plot.Tick) {
	if !(high > low) {
		return nil
	}
	unit := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, m := range []float64{2, 5, 10} {
		if (high-low)/unit > 10 {
			unit *= m / math.Max(1, math.Round(unit/math.Pow(10, math.Floor(math.Log10(unit)+1e-9))))
		}
	}
	for v := math.Ceil(low/unit-1e-9) * unit; v <= high+unit*1e-9; v += unit {
		if math.Abs(v) < unit*1e-9 {
			v = 0
		}
		out = append(out, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
	}
	return out
}
