package console

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Pictures are the lines that one picture may have together, by the class of a line.
var pictures = [][]string{{"admitted", "a", "b", "c", "d", "e"}, {"admitted", "refused", "capacity"}, {"refused", "e", "capacity"}}

const (
	// leastContrast bounds the contrast of a line and its ground from below: WCAG 2.2, criterion 1.4.11.
	leastContrast = 3
	// leastDistance is between two colours in OKLab, where 0.02 is just seen beside each other.
	leastDistance = 0.08
)

// sights are linear maps of linear sRGB: what eyes without one of three receptors see. From Machado, Oliveira and
// Fernandes, "A physiologically-based model for simulation of color vision deficiency" (2009), table of severity 1.0.
var sights = map[string][3][3]float64{
	"all receptors": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216},
		{-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413},
		{-0.011820, 0.042940, 0.968881}},
	"tritanopia": {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602},
		{0.004733, 0.691367, 0.303900}},
}

type colour [3]float64 // linear sRGB, 0 to 1

// Lines of one picture differ in their dashes, and in colour for each kind of eye, in light and in dark. Each line has
// a contrast to its ground.
func TestPalette(t *testing.T) {
	css, err := os.ReadFile("app/app.css")
	if err != nil {
		t.Fatal(err)
	}
	for scheme, name := range []string{"light", "dark"} {
		colours := map[string]colour{}
		for _, m := range regexp.MustCompile(`--(\w+): light-dark\(#(\w{6}), #(\w{6})\)`).FindAllStringSubmatch(string(css), -1) {
			colours[m[1]] = linear(t, m[2+scheme])
		}
		lines, dashes := map[string]colour{}, map[string]string{}
		for _, m := range regexp.MustCompile(`\.line\.(\w+) \{ stroke: var\(--(\w+)\);(?: stroke-dasharray: ([\d ]+);)?`).
			FindAllStringSubmatch(string(css), -1) {
			lines[m[1]], dashes[m[1]] = colours[m[2]], m[3]
		}
		for _, p := range pictures {
			for i, a := range p {
				if _, known := lines[a]; !known {
					t.Fatalf("the style sheet has no line %s", a)
				}
				for _, ground := range []string{"ground", "raised"} {
					if c := contrast(lines[a], colours[ground]); c < leastContrast {
						t.Errorf("%s: line %s on %s: contrast %.1f, want %d", name, a, ground, c, leastContrast)
					}
				}
				for _, b := range p[:i] {
					if dashes[a] == dashes[b] {
						t.Errorf("lines %s and %s have the same dashes %q", a, b, dashes[a])
					}
					for eye, sight := range sights {
						if d := distance(seen(sight, lines[a]), seen(sight, lines[b])); d < leastDistance {
							t.Errorf("%s, with %s: lines %s and %s are %.3f apart, want %v", name, eye, a, b, d, leastDistance)
						}
					}
				}
			}
		}
	}
}

func linear(t *testing.T, s string) (c colour) {
	t.Helper()
	for i := range c {
		n, err := strconv.ParseUint(s[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if c[i] = float64(n) / 255; c[i] <= 0.04045 {
			c[i] /= 12.92
		} else {
			c[i] = math.Pow((c[i]+0.055)/1.055, 2.4)
		}
	}
	return c
}

func seen(m [3][3]float64, c colour) (out colour) {
	for i := range out {
		out[i] = min(1, max(0, m[i][0]*c[0]+m[i][1]*c[1]+m[i][2]*c[2]))
	}
	return out
}

// contrast returns the contrast ratio of WCAG 2.2.
func contrast(a, b colour) float64 {
	luminance := func(c colour) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// distance returns the distance of two colours in OKLab (Ottosson 2020).
func distance(a, b colour) float64 {
	x, y := oklab(a), oklab(b)
	return math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2])
}

func oklab(c colour) [3]float64 {
	l := math.Cbrt(0.4122214708*c[0] + 0.5363325363*c[1] + 0.0514459929*c[2])
	m := math.Cbrt(0.2119034982*c[0] + 0.6806995451*c[1] + 0.1073969566*c[2])
	s := math.Cbrt(0.0883024619*c[0] + 0.2817188376*c[1] + 0.6299787005*c[2])
	return [3]float64{0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s, 0.0259040371*l + 0.7827717662*m - 0.8086757660*s}
}
