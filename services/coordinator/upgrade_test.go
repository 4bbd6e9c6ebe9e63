package coordinator

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
)

func TestOldBurstsAreSaidAtStart(t *testing.T) {
	limit := func(name string, burst float64) *quotav1.Resource {
		return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: name, Rate: "100/min",
			Burst: burst}}}
	}
	var b bytes.Buffer
	batch := store.Batch{Reset: true, Resources: []*quotav1.Resource{limit("tenants/a/limits/old", 0),
		limit("tenants/a/limits/new", 5)}}
	warnOldBursts(slog.New(slog.NewTextHandler(&b, nil)), batch)
	if got := b.String(); !strings.Contains(got, "limits=1 first=[tenants/a/limits/old]") {
		t.Errorf("said %q", got)
	}
}
