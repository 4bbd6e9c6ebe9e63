package view

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
)

func sample() *Sample {
	return &Sample{
		Phase: "greed", Elapsed: 20 * time.Second, Total: time.Minute, PhaseLeft: 10 * time.Second,
		Pool: Pool{Capacity: 300, Wants: 615, Gets: 299, Price: .0254, Known: true},
		Tenants: []Tenant{{Name: "dart", Weight: 1, Wants: 300, Gets: 39.4, FairShare: 39.5, WaitMs: 51,
			Marks: 3, Rejects: 260, State: "held at its fair share"}},
		Clients: []Client{{Name: "small", Rate: 5, Burst: 10, Wants: 3, Gets: 3},
			{Name: "within", Rate: 20, Burst: 10, Wants: 18, Gets: 18, Exact: true}},
		Gateways: []Gateway{{Name: "gw-2", Wants: 180, Gets: 90, Rejects: 90, State: "agent cut off"}},
		Failed:   2,
		Notes:    []Note{{At: 18 * time.Second, Text: "coordinator killed"}},
	}
}

func TestTableShowsEverything(t *testing.T) {
	text := Table(sample())
	for _, want := range []string{"greed", "0:10 left", "299 of 300/s", "2 failed", "0.0254",
		"tenant", "weight", "wants", "gets", "fair", "price", "wait p99", "marks", "rejects", "state",
		"dart", "51 ms", "260", "held at its fair share", "small", "limit 5/s", "limit 20/s, EXACT", "gw-2", "agent cut off",
		"coordinator killed"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestTableOfNothingYet(t *testing.T) {
	if text := Table(&Sample{}); !strings.Contains(text, "price unknown") {
		t.Errorf("%s", text)
	}
}

func TestLineIsOneLine(t *testing.T) {
	line := Line(sample())
	if strings.Contains(line, "\n") || !strings.Contains(line, "dart 39 of 300 (fair 40)") ||
		!strings.Contains(line, "failed 2") {
		t.Errorf("%q", line)
	}
}

// A film is well-formed, has every frame, keeps equal lines once, and colours.
func TestFilm(t *testing.T) {
	var f Film
	for i := range 3 {
		s := sample()
		s.Elapsed += time.Duration(i) * time.Second
		s.Tenants[0].Name = "<dart>"
		f.Take(s)
	}
	var out bytes.Buffer
	if err := f.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			seen[e.Name.Local]++
		}
	}
	lines := len(strings.Split(strings.TrimSpace(Table(sample())), "\n"))
	if seen["use"] != 3*lines || seen["text"] >= 2*lines || !strings.Contains(out.String(), "steps(3)") {
		t.Errorf("%v of frames with %d lines", seen, lines)
	}
	for _, want := range []string{"&lt;dart&gt;", `class="r">2 failed<`, `class="b">titrate-lab dev<`, `class="g">█`,
		"@media(prefers-reduced-motion:reduce){#film{animation:none;"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestFilmOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := new(Film).WriteSVG(&out); err != nil || xml.Unmarshal(out.Bytes(), new(any)) == io.EOF {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestLinesComeAtTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*reline+reline/2)
		defer cancel()
		var out bytes.Buffer
		Run(ctx, &out, false, sample, func() {})
		if n := strings.Count(out.String(), "\n"); n != 4 { // three samples, one note once
			t.Errorf("%d lines:\n%s", n, out.String())
		}
	})
}

func TestModelObeysKeysAndTicks(t *testing.T) {
	stopped := 0
	m := &model{source: sample, interrupt: func() { stopped++ }, width: width, height: height}
	if _, cmd := m.Update(tick{}); cmd == nil || !strings.Contains(m.View().Content, "dart") {
		t.Error("a tick does not redraw and go on")
	}
	m.Update(tea.KeyPressMsg{Code: 'x', Text: "x"})
	if stopped != 0 {
		t.Error("any key stops it")
	}
	m.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
	if stopped != 2 {
		t.Errorf("Ctrl-C and q stopped it %d times", stopped)
	}
}
