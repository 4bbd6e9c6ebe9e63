package rest

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
)

// A body of many or deeply nested things is refused before it is decoded.
func TestBodiesAreCounted(t *testing.T) {
	for text, fits := range map[string]bool{
		`{"a":[1,2,3]}`: true, `{"a":[1,2,3,4,5,6,7,8,9,10]}`: false, `[` + strings.Repeat("{},", 10) + `{}]`: false,
		`"{{{{{{{{{{{{\",,,,,,,,,,["`: true, `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11}`: true,
	} {
		if err := (&jsonCounter{most: 10}).add([]byte(text)); (err == nil) != fits {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	if err := (&jsonCounter{most: 1000}).add([]byte(deep)); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("nested: %v", err)
	}
}

// things counts objects, lists, and the elements of lists but the first.
func things(of any) (n int) {
	switch of := of.(type) {
	case []any:
		n = 1 + max(0, len(of)-1)
		for _, one := range of {
			n += things(one)
		}
	case map[string]any:
		n = 1
		for _, one := range of {
			n += things(one)
		}
	}
	return n
}

func FuzzCountJSON(f *testing.F) {
	f.Add(`{"resources":[{"pool":{"name":"pools/\"a"}},{}]}`, 5, 34)
	f.Add(`[[],[1,"\\"],{}]`, 4, 9)
	f.Add(`]],}`, 4, 2)
	f.Fuzz(func(t *testing.T, text string, most, at int) {
		at = max(0, min(at, len(text)))
		parts := jsonCounter{most: most}
		err := cmp.Or(parts.add([]byte(text[:at])), parts.add([]byte(text[at:])))
		var of any
		if json.Unmarshal([]byte(text), &of) == nil && err == nil && things(of) > max(most, 0) {
			t.Errorf("%d, more than %d", things(of), most)
		}
	})
}
