package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/titrate/titrate/services/store/resource"
)

const (
	group = "/apis/titrate.dev/v1alpha1/"
	// pageSize is how many objects a page of a list has, at most 1.5 MiB each.
	pageSize = 500
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 64 << 20
	// watchSeconds is how long a watch lasts before it is opened anew.
	watchSeconds = 300
	mergePatch   = "application/merge-patch+json"
)

// Cluster is a Kubernetes cluster. It speaks the few calls that the operator needs itself.
type Cluster struct {
	Server    string // URL of the API server
	Namespace string // of the Lease
	Token     func() (string, error)
	Client    *http.Client
}

// refusal is an answer other than 2xx.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

// answered reports whether an error is an answer with one of the codes.
func answered(err error, any ...int) bool {
	var r *refusal
	return errors.As(err, &r) && slices.Contains(any, r.code)
}

// list returns all objects of all kinds, in order.
func (c *Cluster) list(ctx context.Context) ([]*object, error) {
	var all []*object
	for _, kind := range resource.Kinds {
		for next := ""; ; {
			var page struct {
				Metadata struct{ Continue string }
				Items    []*object
			}
			at := fmt.Sprintf("%s%s?limit=%d&continue=%s", group, kind.Collection(), pageSize, url.QueryEscape(next))
			if err := c.call(ctx, http.MethodGet, at, "", nil, &page); err != nil {
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

// watch calls changed for whatever comes of a watch of a kind, until the watch ends.
func (c *Cluster) watch(ctx context.Context, kind resource.Kind, changed func()) error {
	at := fmt.Sprintf("%s%s?watch=1&timeoutSeconds=%d", group, kind.Collection(), watchSeconds)
	request, err := c.request(ctx, http.MethodGet, at, "", nil)
	if err != nil {
		return err
	}
	patient := *c.Client
	patient.Timeout = 0
	response, err := patient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &refusal{response.StatusCode, "watch: " + response.Status}
	}
	for chunk := make([]byte, 16<<10); ; {
		n, err := response.Body.Read(chunk)
		if n > 0 {
			changed()
		}
		if err != nil {
			return err
		}
	}
}

// patch changes an object, or its status. One that is gone, or has changed since, is left
// to the next pass.
func (c *Cluster) patch(ctx context.Context, o *object, subresource string, change any) error {
	at := group + o.kind.Collection() + "/" + url.PathEscape(o.Metadata.Name) + subresource +
		"?fieldManager=titrate-operator"
	err := c.call(ctx, http.MethodPatch, at, mergePatch, change, nil)
	if answered(err, http.StatusNotFound, http.StatusConflict) {
		return nil
	}
	return err
}

// finalizers sets those of an object, unless it has changed since it was read.
func (c *Cluster) finalizers(ctx context.Context, o *object, want []string) error {
	return c.patch(ctx, o, "", map[string]any{"metadata": map[string]any{
		"resourceVersion": o.Metadata.ResourceVersion, "finalizers": want}})
}

// call asks the API server and reads its answer. An answer other than 2xx is a refusal.
func (c *Cluster) call(ctx context.Context, method, path, contentType string, body, into any) error {
	request, err := c.request(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	response, err := c.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		var said struct{ Message string }
		_ = json.Unmarshal(raw, &said) // a proxy's answer is no JSON
		return &refusal{response.StatusCode, fmt.Sprintf("%s %s: %s %s", method, path, response.Status, said.Message)}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: answer of the API server: %w", method, path, err)
	}
	return nil
}

func (c *Cluster) request(ctx context.Context, method, path, contentType string, body any) (*http.Request, error) {
	token, err := c.Token()
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Server+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return request, nil
}
