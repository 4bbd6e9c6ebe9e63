// Package plot draws a result over time, as SVG or PNG.
//
// # Model
//
// A drawing is a grid. Each system has a column, Titrate the first, then the baselines. Each row is one
// question, with the same axes in all columns:
//
//	pool P            admitted, against capacity and demand
//	tenants of P      served (full) against fair share (dashed)
//	limit T/L         admitted, against the rate and the admitted of one central bucket
//	gateways          admitted by each
//
// Events are vertical lines through all rows. A row shows the largest few of its
// lines if there are many, and says so.
//
// The result must have series (simulate.Options.Series). The drawing library is
// gonum.org/v1/plot; the same result gives the same drawing.
package plot

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/titrate/titrate/lab/simulate/measure"
)

// The size of one panel, and of the margins around panels.
const (
	panelWidth  = 17 * vg.Centimeter
	panelHeight = 6 * vg.Centimeter
	margin      = 3 * vg.Millimeter
	legendWidth = 3 * vg.Centimeter
	legendBelow = 6 * vg.Millimeter // the height of the title
)

// mostPanels bounds a drawing: a drawing with rows for a thousand limits is of no use.
const mostPanels = 12

// Format is the format that a file's name asks for, svg or png.
func Format(path string) (string, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".svg", ".png":
		return ext[1:], nil
	case "":
		return "", fmt.Errorf("%s has no extension: want .svg or .png", path)
	default:
		return "", fmt.Errorf("%s: cannot draw %s: want .svg or .png", path, ext)
	}
}

// Write draws a result into a file. It writes a temporary file and renames it, so that other processes see the
// whole file or none. Only rows of these kinds are drawn; nil: all.
func Write(path string, r *measure.Result, kinds []string) (err error) {
	format, err := Format(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	err = Draw(f, r, format, kinds)
	if mode := f.Chmod(0o644); err == nil {
		err = mode
	}
	if end := f.Close(); err == nil {
		err = end
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Draw draws rows of these kinds (nil: all) of a result in a format, svg or png.
func Draw(w io.Writer, r *measure.Result, format string, kinds []string) error {
	grid, err := panels(r, kinds)
	if err != nil {
		return err
	}
	rows, columns := len(grid), len(grid[0])
	canvas, err := draw.NewFormattedCanvas(vg.Length(columns)*panelWidth, vg.Length(rows)*panelHeight, format)
	if err != nil {
		return err
	}
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: margin, PadY: margin, PadTop: margin, PadBottom: margin,
		PadLeft: margin, PadRight: margin}
	for i, row := range plot.Align(grid, tiles, whole) {
		for j, at := range row {
			drawPanel(grid[i][j], at)
		}
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	text := out.Bytes()
	if format == "svg" { // a reader may lack the font
		text = bytes.ReplaceAll(text, []byte("font-family:Liberation Sans;"),
			[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	}
	_, err = w.Write(text)
	return err
}

// drawPanel draws a panel with its legend on the right, where no line crosses the legend.
func drawPanel(p *plot.Plot, at draw.Canvas) {
	legend := p.Legend
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(at, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(at, at.Max.X-at.Min.X-legendWidth+margin, 0, 0, -legendBelow))
}

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }
