package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/plot"
)

// result has two systems, a pool, gateways and, if many, a lot of everything.
func result(many bool) *measure.Result {
	r := &measure.Result{DurationSeconds: 10,
		Events: []measure.Event{{AtSeconds: 3, What: "crash gw-2 in a name that is far too long for it"},
			{AtSeconds: 6, What: "heal"}}}
	values := []float64{0, 100, 1000, 50}
	n := 1
	if many {
		n = 20
	}
	for _, name := range []string{"titrate", "static"} {
		s := &measure.Series{StepSeconds: 2.5,
			Pools: []measure.PoolSeries{{Pool: "api", Capacity: []float64{90, 90, 90, 90}, Demand: values,
				Admitted: []float64{0, 80, 90, 50}}}}
		for i := range n {
			s.Flows = append(s.Flows, measure.FlowSeries{Tenant: fmt.Sprint("t", i), Pool: "api", Demand: values,
				Fair: values, Admitted: values})
			s.Limits = append(s.Limits, measure.LimitSeries{Tenant: "t", Limit: fmt.Sprint("l", i), Rate: values,
				Offered: values, Central: values, Admitted: values})
			s.Gateways = append(s.Gateways, measure.GatewaySeries{Gateway: fmt.Sprint("gw-", i), Offered: values,
				Admitted: values})
		}
		r.Systems = append(r.Systems, measure.System{Name: name, Series: s})
	}
	return r
}

func TestSVGIsWellFormedAndNamesEverything(t *testing.T) {
	for _, many := range []bool{false, true} {
		var out, again bytes.Buffer
		if err := errors.Join(plot.Draw(&out, result(many), "svg", nil),
			plot.Draw(&again, result(many), "svg", nil)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), again.Bytes()) {
			t.Error("drawn twice, it is not the same")
		}
		decoder := xml.NewDecoder(bytes.NewReader(out.Bytes()))
		for {
			if _, err := decoder.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"Titrate: pool api", "static: tenants of api", "limit t/l0", "gateways",
			"capacity", "crash gw-2", "heal"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("many=%v: no %q in the drawing", many, want)
			}
		}
	}
}

var (
	legendText = regexp.MustCompile(`<text x="([\d.]+)"[^>]*>(?:wanted|admitted|capacity)</text>`)
	stroke     = regexp.MustCompile(`<path d="([^"]*)" style="fill:none`)
	abscissa   = regexp.MustCompile(`[ML]([\d.]+),`)
)

// No line of a panel crosses its legend.
func TestTheLegendStandsBesideThePanel(t *testing.T) {
	r := result(false)
	r.Systems = r.Systems[:1]
	var out bytes.Buffer
	if err := plot.Draw(&out, r, "svg", []string{"pools"}); err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	texts := legendText.FindAllStringSubmatch(out.String(), -1)
	if len(texts) != 3 {
		t.Fatalf("%d entries in the legend", len(texts))
	}
	for _, text := range texts {
		at := number(text[1])
		for _, path := range stroke.FindAllStringSubmatch(out.String(), -1) {
			left, right := math.Inf(1), math.Inf(-1)
			for _, x := range abscissa.FindAllStringSubmatch(path[1], -1) {
				left, right = min(left, number(x[1])), max(right, number(x[1]))
			}
			if left < at && at < right {
				t.Errorf("a line from %g to %g crosses %s", left, right, text[0])
			}
		}
	}
}

func TestOnlyRowsOfSomeKinds(t *testing.T) {
	var out bytes.Buffer
	if err := plot.Draw(&out, result(false), "svg", []string{"tenants"}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "tenants of api") || strings.Contains(text, "gateways") {
		t.Error("want tenants and no gateways")
	}
	if err := plot.Draw(&out, result(false), "svg", []string{}); err == nil ||
		!strings.Contains(err.Error(), "none of") {
		t.Errorf("%v, want an error: there is nothing to draw", err)
	}
}

func TestWriteIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.PNG")
	if err := plot.Write(path, result(false), nil); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		path, want string
		r          *measure.Result
	}{
		{"out.jpg", "cannot draw .jpg: want .svg or .png", result(false)},
		{"out", "has no extension", result(false)},
		{"a.svg", "no series", &measure.Result{Systems: make([]measure.System, 1)}},
		{"b.svg", "no system", &measure.Result{}},
		{"no/where.svg", "no such file", result(false)},
	} {
		if err := plot.Write(filepath.Join(dir, c.path), c.r, nil); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
