// Package documents has what the readers of scenarios and of demands share.
package documents

import "github.com/titrate/titrate/services/document"

// TheOnly returns the document of a kind that is no resource, nil without one. A second one is a mistake.
func TheOnly(files []*document.File, kind string) (only *document.Extra) {
	for _, f := range files {
		for _, e := range f.Extras {
			switch {
			case e.Kind != kind:
			case only == nil:
				only = e
			default:
				f.Wrong(e.Line, "kind", "a second %s; want one", kind)
			}
		}
	}
	return only
}
