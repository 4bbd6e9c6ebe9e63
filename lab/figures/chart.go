package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// figure is one chart: lines over the same axis.
type figure struct {
	name, title string
	x, y        string // what the axes show, with units
	log         bool   // both axes are logarithmic
	lines       []line
}

// line is one curve.
type line struct {
	name   string
	points plotter.XYs
}

func (l *line) add(x, y float64) { l.points = append(l.points, plotter.XY{X: x, Y: y}) }

// colours are told apart by most eyes (Okabe and Ito).
var colours = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{120, 94, 20, 255}, color.RGBA{90, 90, 90, 255},
}

// save writes name.svg and name.csv.
func (f *figure) save(dir string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.title, f.x, f.y
	p.Legend.Top = true
	if f.log {
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: 2}, plot.LogTicks{Prec: 2}
	} else {
		p.Y.Min = 0
	}
	for i, l := range f.lines {
		drawn, err := plotter.NewLine(l.points)
		if err != nil {
			return fmt.Errorf("line %s: %w", l.name, err)
		}
		drawn.Color = colours[i%len(colours)]
		p.Add(drawn)
		p.Legend.Add(l.name, drawn)
	}
	if f.log { // room for the legend
		p.Y.Max *= 1000
	} else {
		p.Y.Max *= 1.4
	}
	return errors.Join(p.Save(18*vg.Centimeter, 10*vg.Centimeter, filepath.Join(dir, f.name+".svg")), f.table(filepath.Join(dir, f.name+".csv")))
}

// table writes the points, a row each.
func (f *figure) table(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	rows := [][]string{{"line", f.x, f.y}}
	for _, l := range f.lines {
		for _, p := range l.points {
			rows = append(rows, []string{l.name, strconv.FormatFloat(p.X, 'g', 8, 64), strconv.FormatFloat(p.Y, 'g', 8, 64)})
		}
	}
	return errors.Join(w.WriteAll(rows), file.Close())
}
