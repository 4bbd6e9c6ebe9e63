package rest

import (
	"runtime"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Only a body that may have a number to refuse is read a second time.
func TestWhatMayBeMisgiven(t *testing.T) {
	for text, want := range map[string]bool{
		`{"burst":0}`: true, `{"burst": -0}`: true, `{"burst":"0"}`: true, `{"burst":"-0.0"}`: true, `{"weight" :0}`: true,
		`{"burst":20}`: false, `{"burst":"-1"}`: false, `{"burst":-1}`: false, `{"burst":null}`: false, `{"capacity":0}`: false,
		`{"mode":2}`: true, `{"mode":-1}`: true, `{"mode":0}`: true, `{"mode":"-1"}`: true, `{"on_loss":1}`: true,
		`{"mode":"SHADOW"}`: false, `{"w\u0065ight":0}`: true, `{}`: false,
	} {
		if got := mayBeMisgiven.MatchString(text); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// measured is a reader that notes the memory in use when its end has been handed out.
type measured struct {
	*strings.Reader
	live uint64
}

func (m *measured) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.Len() == 0 && m.live == 0 {
		m.live = inUse()
	}
	return n, err
}

func inUse() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// The room for a body counts its bytes, so the search for zeros keeps none of it, however many values it has.
func TestSearchForZerosKeepsNothing(t *testing.T) {
	const items = 100_000
	text := `{"rate":"1/s","overrides":[` + strings.Repeat(`{"burst":0.5},`, items) +
		`{"burst":1,"labels":[{"a":[0]}]},{"burst":-0.0}]}`
	body := &measured{Reader: strings.NewReader(text)}
	before := inUse()
	err := zerosIn(body, (&quotav1.Limit{}).ProtoReflect().Descriptor())
	want := "overrides[100001].burst: 0 must be at least 1"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if most := uint64(len(text)) / 4; body.live > before+most {
		t.Errorf("%d bytes in use at the end of a body of %d, want %d at most", body.live-before, len(text), most)
	}
}
