package operator

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/store/resource"
)

const (
	group = "/apis/titrate.dev/v1alpha1/"
	// pageSize is the number of objects in a page of a list, at most 1.5 MiB each.
	pageSize = 500
	// watchSeconds is the length of a watch; it is then opened again.
	watchSeconds = 300
)

// Kinds have custom resources. Overrides have none: a million objects are more than an API server and its watchers are
// made for.
var Kinds = []resource.Kind{resource.Pool, resource.Plan, resource.Tenant, resource.Quota, resource.Limit}

// objects are the custom resources of a cluster.
type objects struct{ *kubernetes.Cluster }

// list returns all objects of all kinds, in order.
func (c objects) list(ctx context.Context) ([]*object, error) {
	var all []*object
	for _, kind := range Kinds {
		for next := ""; ; {
			var page struct {
				Metadata struct{ Continue string }
				Items    []*object
			}
			at := fmt.Sprintf("%s%s?limit=%d&continue=%s", group, kind.Collection(), pageSize, url.QueryEscape(next))
			if err := c.Call(ctx, http.MethodGet, at, "", nil, &page); err != nil {
				return nil, err
			}
			for _, o := range page.Items {
				o.Kind, o.kind = kind.String(), kind
			}
			all = append(all, page.Items...)
			if next = page.Metadata.Continue; next == "" {
				break
			}
		}
	}
	inOrder(all)
	return all, nil
}

// watch calls changed for each event of a watch of a kind, until the watch ends.
func (c objects) watch(ctx context.Context, kind resource.Kind, changed func()) error {
	return c.Watch(ctx, fmt.Sprintf("%s%s?watch=1&timeoutSeconds=%d", group, kind.Collection(), watchSeconds), changed)
}

// patch changes an object, or its status. An object that is gone, or has changed since, is left to the next pass.
func (c objects) patch(ctx context.Context, o *object, subresource string, change any) error {
	at := group + o.kind.Collection() + "/" + url.PathEscape(o.Metadata.Name) + subresource +
		"?fieldManager=titrate-operator"
	err := c.Call(ctx, http.MethodPatch, at, kubernetes.MergePatch, change, nil)
	if kubernetes.Answered(err, http.StatusNotFound, http.StatusConflict) {
		return nil
	}
	return err
}

// finalizers sets an object's finalizers, unless the object has changed since it was read.
func (c objects) finalizers(ctx context.Context, o *object, want []string) error {
	return c.patch(ctx, o, "", map[string]any{"metadata": map[string]any{
		"resourceVersion": o.Metadata.ResourceVersion, "finalizers": want}})
}
