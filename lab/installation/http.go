package installation

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// most of an answer that is read.
const most = 1 << 20

// Get fetches a URL and wants a 2xx.
func Get(ctx context.Context, c *http.Client, url string) (body string, err error) {
	return Ask(ctx, c, http.MethodGet, url)
}

// Ask sends a request without a body and wants a 2xx.
func Ask(ctx context.Context, c *http.Client, method, url string) (body string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %.200s", method, url, resp.Status, strings.TrimSpace(string(text)))
	}
	return string(text), err
}
