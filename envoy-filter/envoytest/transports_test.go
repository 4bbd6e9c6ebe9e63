package envoytest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// anyProtocol lets Envoy accept trailers and WebSockets, use small buffers and windows, and use the client's
// protocol to the upstream.
var anyProtocol = []edit{
	{"          stat_prefix: ingress\n", `          stat_prefix: ingress
          http_protocol_options: { enable_trailers: true }
          http2_protocol_options: { initial_stream_window_size: 65536, initial_connection_window_size: 262144 }
          upgrade_configs: [{ upgrade_type: websocket }]
`},
	{"  - name: ingress\n", "  - name: ingress\n    per_connection_buffer_limit_bytes: 65536\n"},
	{"    connect_timeout: 1s\n", `    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        use_downstream_protocol_config: { http_protocol_options: { enable_trailers: true }, http2_protocol_options: {} }
`},
}

// eachProtocol runs a test by HTTP/1.1 and by HTTP/2.
func eachProtocol(t *testing.T, test func(t *testing.T, of func(*envoy) *envoy)) {
	t.Parallel()
	for name, of := range map[string]func(*envoy) *envoy{
		"HTTP 1.1": func(e *envoy) *envoy { return e },
		"HTTP 2":   (*envoy).http2,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, of) })
	}
}

// Bodies and trailers of held requests arrive whole, each request once. In HTTP/2 many requests share one
// connection.
func TestHeldTransports(t *testing.T) {
	eachProtocol(t, func(t *testing.T, of func(*envoy) *envoy) {
		const n = 3
		b := startBacklog(t, echo, anyProtocol...)
		client := of(b.envoy)
		answers := make(chan error, n)
		for i := range n {
			go func() { answers <- client.trailed(fmt.Sprintf("body %d", i), fmt.Sprintf("after %d", i)) }()
		}
		b.waitHeld(n)
		b.release()
		for range n {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		b.checkDrained(n)
	})
}

// trailed posts a body and a trailer and wants both back.
func (e *envoy) trailed(body, trailer string) error {
	// of unknown length
	req, err := http.NewRequest(http.MethodPost, e.front+"/", io.MultiReader(strings.NewReader(body)))
	if err != nil {
		return err
	}
	req.Header.Set("x-tenant", "acme")
	req.Trailer = http.Header{"X-After": {trailer}}
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(got) != body || resp.Trailer.Get("x-after") != trailer {
		return fmt.Errorf("status %d, body %q, trailer %v, %v; sent %q, %q", resp.StatusCode, got, resp.Trailer, err,
			body, trailer)
	}
	return nil
}

// upload is a body that counts the bytes read from it.
type upload struct {
	left  int
	taken atomic.Int64
}

func (u *upload) Read(p []byte) (int, error) {
	if u.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), u.left)
	for i := range p[:n] {
		p[i] = byte(u.left - i)
	}
	u.left -= n
	u.taken.Add(int64(n))
	return n, nil
}

// While the headers of a large upload are held, Envoy reads no more of the body than its buffers hold. After
// that the whole body arrives.
func TestLargeBodyWhileHeld(t *testing.T) {
	const size, buffers = 10 << 20, 1 << 20
	whole := sha256.New()
	_, _ = io.Copy(whole, &upload{left: size})
	want := hex.EncodeToString(whole.Sum(nil))
	eachProtocol(t, func(t *testing.T, of func(*envoy) *envoy) {
		b := startBacklog(t, func(w http.ResponseWriter, r *http.Request) {
			sum := sha256.New()
			_, _ = io.Copy(sum, r.Body)
			fmt.Fprint(w, hex.EncodeToString(sum.Sum(nil)))
		}, anyProtocol...)
		body := &upload{left: size}
		client := of(b.envoy)
		done := make(chan answer, 1)
		go func() {
			a, _ := client.do(context.Background(), http.MethodPost, "/", body, "x-tenant", "acme")
			done <- a
		}()
		b.waitHeld(1)
		b.eventually("Envoy to stop reading", func() bool {
			const paused = "envoy_http_downstream_flow_control_paused_reading_total"
			return b.metric(paused+`{envoy_http_conn_manager_prefix="ingress"}`) > 0
		})
		if n := b.metric(`envoy_http_downstream_cx_rx_bytes_total{envoy_http_conn_manager_prefix="ingress"}`); n > buffers {
			t.Errorf("Envoy has read %v bytes of a held request with buffers of 64 KiB", n)
		} else {
			t.Logf("Envoy read %v bytes, the client wrote %d of %d while it was held", n, body.taken.Load(), size)
		}
		b.release()
		if a := <-done; a.status != http.StatusOK || a.body != want {
			t.Errorf("the upload: %d %q, want %q", a.status, a.body, want)
		}
		b.checkDrained(1)
	})
}

// A stream of gRPC is held before its first message and charged once, however
// long it lasts; its trailers pass.
func TestGRPCStream(t *testing.T) {
	t.Parallel()
	b := startBacklog(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "application/grpc")
		w.Header().Set("Trailer", "grpc-status")
		in := bufio.NewReader(r.Body)
		for {
			frame, err := message(in)
			if err != nil {
				break
			}
			_, _ = w.Write(frame)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("grpc-status", "0")
	}, anyProtocol...)
	client := b.http2()
	out, in := io.Pipe()
	req, _ := http.NewRequest(http.MethodPost, b.front+"/echo.Echo/Stream", out)
	for k, v := range map[string]string{"x-tenant": "acme", "content-type": "application/grpc", "te": "trailers"} {
		req.Header.Set(k, v)
	}
	began := make(chan *http.Response, 1)
	go func() {
		resp, err := client.client.Do(req)
		if err != nil {
			t.Error(err)
			close(began)
			return
		}
		began <- resp
	}()
	b.waitHeld(1)
	b.release()
	var back *bufio.Reader
	var resp *http.Response
	for i := range 20 {
		frame := append([]byte{0, 0, 0, 0, byte(i)}, bytes.Repeat([]byte{byte(i)}, i)...)
		if _, err := in.Write(frame); err != nil {
			t.Fatal(err)
		}
		if resp == nil {
			if resp = <-began; resp == nil {
				t.Fatal("no stream")
			}
			defer resp.Body.Close()
			back = bufio.NewReader(resp.Body)
		}
		if got, err := message(back); err != nil || !bytes.Equal(got, frame) {
			t.Fatalf("message %d came back as %v, %v", i, got, err)
		}
	}
	in.Close()
	if _, err := io.Copy(io.Discard, back); err != nil || resp.Trailer.Get("grpc-status") != "0" {
		t.Errorf("the stream's end: %v, trailers %v", err, resp.Trailer)
	}
	b.checkDrained(1)
}

// message reads one length-prefixed message with its prefix.
func message(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	_, err := io.ReadFull(r, body)
	return append(head, body...), err
}

// A WebSocket's upgrade is held like any request; then both sides send freely.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	b := startBacklog(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, rw)
	}, anyProtocol...)
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.front, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /socket HTTP/1.1\r\nhost: x\r\nx-tenant: acme\r\n"+
		"connection: Upgrade\r\nupgrade: websocket\r\n\r\n")
	b.waitHeld(1)
	b.release()
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade: %+v, %v", resp, err)
	}
	for i := range 20 {
		sent := fmt.Sprintf("message %d\n", i)
		fmt.Fprint(conn, sent)
		if received, err := in.ReadString('\n'); err != nil || received != sent {
			t.Fatalf("sent %q, received %q, %v", sent, received, err)
		}
	}
	conn.Close()
	b.checkDrained(1)
}
