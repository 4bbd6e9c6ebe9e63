package trace

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/scenario"
)

func sample(t testing.TB) (*scenario.Scenario, []Record) {
	t.Helper()
	s, err := scenario.Demo(time.Minute, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s, []Record{
		{T: 1.5, Gateway: "gw-1", Tenant: "acme", Client: "acme-1", Status: 200, WaitMs: 3.25, Late: 1e-4, Latency: .07,
			At: 1.51, Mark: true},
		{T: 2, Gateway: "gw-2", Tenant: "core", Client: "small", Status: 429, Reason: "client_limit"},
		{T: 3, Gateway: "gw-3", Tenant: "dart", Client: "dart-1", Error: Dropped},
	}
}

func TestReadGivesBackWhatWasWritten(t *testing.T) {
	s, records := sample(t)
	var file bytes.Buffer
	if err := Write(&file, s, records); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(file.String(), "\n"); n != len(records) {
		t.Errorf("%d lines for %d requests", n, len(records))
	}
	s2, records2, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s2, s) || !reflect.DeepEqual(records2, records) {
		t.Errorf("got\n%+v\n%+v", s2, records2)
	}
}

func TestWhatARecordMeans(t *testing.T) {
	for _, c := range []struct {
		r                Record
		admitted, failed bool
		at               float64
	}{
		{Record{T: 1, Status: 200, At: 1.2}, true, false, 1.2},
		{Record{T: 1, Late: .25, Status: 204, WaitMs: 500}, true, false, 1.75},
		{Record{T: 1, Status: 429}, false, false, 1},
		{Record{T: 1, Status: 503, At: 1.3}, true, true, 1.3}, // the upstream failed: it was admitted
		{Record{T: 1, Status: 503}, false, true, 1},
		{Record{T: 1, Error: "EOF"}, false, true, 1},
	} {
		if c.r.Admitted() != c.admitted || c.r.Failed() != c.failed || c.r.AdmittedAt() != c.at {
			t.Errorf("%+v: admitted %v, failed %v, at %v", c.r, c.r.Admitted(), c.r.Failed(), c.r.AdmittedAt())
		}
	}
}

func FuzzRead(f *testing.F) {
	s, records := sample(f)
	var file bytes.Buffer
	if err := Write(&file, s, records); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(""))
	f.Add([]byte("{}\n"))
	f.Add([]byte("{\"scenario\":{\"version\":1}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := Read(bytes.NewReader(data))
		if err == nil && s.Validate() != nil {
			t.Error("read a scenario that is not valid")
		}
	})
}
