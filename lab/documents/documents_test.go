package documents_test

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/lab/documents"
	"github.com/titrate/titrate/services/document"
)

// A second document of a kind is a mistake of its file.
func TestTheOnly(t *testing.T) {
	const text = "apiVersion: titrate.dev/v1alpha1\nkind: Demand\n"
	f, g := document.Open("f", strings.NewReader(text)), document.Open("g", strings.NewReader(text))
	if e := documents.TheOnly([]*document.File{f}, document.Demand); e == nil || e != f.Extras[0] {
		t.Errorf("%+v", e)
	}
	if e := documents.TheOnly([]*document.File{f}, document.Scenario); e != nil {
		t.Errorf("%+v, want none", e)
	}
	e := documents.TheOnly([]*document.File{f, g}, document.Demand)
	if e != f.Extras[0] || f.Err() != nil || g.Err() == nil {
		t.Errorf("%+v: %v and %v, want the first one and a mistake of the second file", e, f.Err(), g.Err())
	}
}
