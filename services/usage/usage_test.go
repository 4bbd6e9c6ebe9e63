package usage_test

import (
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/usage"
)

func record() *quotav1.Usage {
	return &quotav1.Usage{Id: "17", Limit: "tenants/acme/limits/monthly", Client: "k", Period: "2026-11", Amount: 100,
		Settled: 80, Ends: timestamppb.New(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))}
}

func TestEvents(t *testing.T) {
	ended, err := usage.EventOfEnd(record())
	if err != nil {
		t.Fatal(err)
	}
	reached, err := usage.EventOfPart(record(), .8, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		e        *usage.Event
		id, kind string
		part     any
	}{{ended, "17", usage.Ended, nil}, {reached, "17-0.8", usage.Reached, .8}} {
		var data map[string]any
		if err := json.Unmarshal(c.e.Data, &data); err != nil {
			t.Fatal(err)
		}
		if c.e.ID != c.id || c.e.Type != c.kind || data["part"] != c.part || data["settled"] != 80. || data["lost"] != 0. ||
			c.e.Source != "/titrate/tenants/acme/limits/monthly" || c.e.Subject != "k" || c.e.SpecVersion != "1.0" {
			t.Errorf("%+v: %s", c.e, c.e.Data)
		}
	}
	if want := "2026-12-01T00:00:00Z"; ended.Time.Format(time.RFC3339) != want {
		t.Errorf("%v, want %s", ended.Time, want)
	}
}
