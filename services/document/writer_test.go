package document

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// A Writer keeps nothing of what it has written, however many documents there are.
func TestWriterKeepsNothing(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, json := range []bool{false, true} {
		w, before := NewWriter(io.Discard, json), heap()
		for i := range 20_000 {
			if err := w.Write(&quotav1.Limit{Name: fmt.Sprintf("tenants/t%d/limits/l", i), Rate: "1/s"}); err != nil {
				t.Fatal(err)
			}
		}
		if grown := int64(heap() - before); grown > 1<<20 {
			t.Errorf("json %v: 20,000 documents left %d bytes, want 1 MiB at most", json, grown)
		}
		if err := w.Close(); err != nil || w.Count() != 20_000 {
			t.Errorf("json %v: %d written, %v", json, w.Count(), err)
		}
	}
}

func TestWriterOfListsIsIndented(t *testing.T) {
	for n, want := range []string{"[]\n", "{\n  \"apiVersion\"", "[\n  {\n    \"apiVersion\""} {
		var b bytes.Buffer
		w := NewWriter(&b, true)
		for i := range n {
			if err := w.Write(&quotav1.Tenant{Name: fmt.Sprintf("tenants/t%d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || !bytes.HasPrefix(b.Bytes(), []byte(want)) {
			t.Errorf("%d documents: %v\n%s", n, err, b.Bytes())
		}
	}
}
