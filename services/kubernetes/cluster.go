package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

const (
	// MergePatch is the content type of a patch with the fields that change.
	MergePatch = "application/merge-patch+json"
	// ApplyPatch is the content type of a server-side apply. JSON is YAML.
	ApplyPatch = "application/apply-patch+yaml"
	// JSON is the content type of a whole object.
	JSON = "application/json"
	// maxAnswer bounds the bytes that are read of an answer. A page of 500 objects has less.
	maxAnswer = 64 << 20
)

// Cluster is a Kubernetes cluster, as one account sees it. Safe for concurrent use.
type Cluster struct {
	Server    string // URL of the API server
	Namespace string // of the account
	// Token is asked before each call: Kubernetes renews tokens.
	Token  func() (string, error)
	Client *http.Client
}

// Refusal is an answer other than 2xx.
type Refusal struct {
	Code int // of HTTP
	text string
}

// Error has the request, and the API server's message.
func (r *Refusal) Error() string { return r.text }

// Answered reports whether an error is a Refusal with one of the codes.
func Answered(err error, codes ...int) bool {
	var r *Refusal
	return errors.As(err, &r) && slices.Contains(codes, r.Code)
}

// Call asks the API server at a path and reads its answer; into may be nil. An answer other than 2xx is a *Refusal.
func (c *Cluster) Call(ctx context.Context, method, path, contentType string, body, into any) error {
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
		return &Refusal{response.StatusCode, fmt.Sprintf("%s %s: %s %s", method, path, response.Status, said.Message)}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: answer of the API server: %w", method, path, err)
	}
	return nil
}

// Watch calls changed for each event of a watch at a path, until the watch ends.
func (c *Cluster) Watch(ctx context.Context, path string, changed func()) error {
	request, err := c.request(ctx, http.MethodGet, path, "", nil)
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
		return &Refusal{response.StatusCode, "watch: " + response.Status}
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
	request.Header.Set("Accept", JSON)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return request, nil
}
