package guide

import "testing"

func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		name, want, got string
		about, same     bool
	}{
		{"the same", "a  b\n", "a b\n\n", false, true},
		{"a word", "a b", "a c", false, false},
		{"less", "a\nb", "a", false, false},
		{"more", "a", "a\nb", false, false},
		{"words left out", "revision … by …", "revision 17 by me", false, true},
		{"lines left out", "a\n…\nd", "a\nb\nc\nd", false, true},
		{"lines left out, another end", "a\n…\nd", "a\nb\nc", false, false},
		{"lines left out at the end", "a\n…", "a", false, true},
		{"another number", "20 of 40", "21 of 40", false, false},
		{"about a number", "20 of 40.5", "21 of 38", true, true},
		{"far from a number", "20 of 40", "31 of 40", true, false},
		{"no number", "20 of 40", "x of 40", true, false},
		{"a dot is a dot", "a.b", "axb", false, false},
	} {
		if why := differs(c.want, c.got, c.about); (why == "") != c.same {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
