package rls

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

const perClient = `
domain: shop
descriptors: [{key: client, rate_limit: {unit: second, requests_per_unit: 4000000000}}]
`

// BenchmarkShouldRateLimit is a decision without the network.
func BenchmarkShouldRateLimit(b *testing.B) {
	for _, windows := range []Windows{Sliding, Fixed} {
		b.Run(string(windows), func(b *testing.B) {
			s, q := benchServer(b, windows), question()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.ShouldRateLimit(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDescriptors says what a descriptor costs in requests with few and with many of them, all of a
// limit that has a name.
func BenchmarkDescriptors(b *testing.B) {
	for _, n := range []int{16, maxDescriptors} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := benchServer(b, Sliding)
			write(b, s.o.Dir, shop)
			if err := s.watch.start(); err != nil {
				b.Fatal(err)
			}
			q := &api.RateLimitRequest{Domain: "shop", Descriptors: descriptors(n)}
			for b.Loop() {
				if _, err := s.ShouldRateLimit(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/descriptor")
		})
	}
}

// BenchmarkOverTCP is a caller like Envoy, which asks again when it has the answer: frames of
// HTTP/2 without a library's goroutines. p50-µs is the time of a call in the median, cpu-µs that
// of the process, caller included.
func BenchmarkOverTCP(b *testing.B) {
	s := benchServer(b, Sliding)
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s.o.Credentials = insecure.NewCredentials()
	server := s.grpc()
	go server.Serve(listener) // it ends with the benchmark
	b.Cleanup(server.Stop)
	c := dial(b, listener.Addr().String())
	for range 100 {
		c.call()
	}
	times, cpu := make([]time.Duration, 0, 1<<20), processTime(b)
	for b.Loop() {
		start := time.Now()
		c.call()
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/1e3, "p50-µs")
	b.ReportMetric(float64((processTime(b)-cpu).Microseconds())/float64(len(times)), "cpu-µs")
	b.ReportMetric(float64(c.pings)/float64(len(times)), "pings")
}

func benchServer(b *testing.B, windows Windows) *Server {
	b.Helper()
	o := Options{Dir: b.TempDir(), Name: "gw", Log: slog.New(slog.DiscardHandler), Windows: windows, Alone: true}
	write(b, o.Dir, perClient)
	s, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func question() *api.RateLimitRequest {
	return &api.RateLimitRequest{Domain: "shop", HitsAddend: 1,
		Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor("client=alice")}}
}

func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// caller asks one question after the other on one connection.
type caller struct {
	b       *testing.B
	conn    net.Conn
	framer  *http2.Framer
	out     bytes.Buffer
	fields  bytes.Buffer
	encoder *hpack.Encoder
	body    []byte
	stream  uint32
	pings   int
}

func dial(b *testing.B, address string) *caller {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	c := &caller{b: b, conn: conn, stream: 1}
	c.framer, c.encoder = http2.NewFramer(&c.out, conn), hpack.NewEncoder(&c.fields)
	text, err := proto.Marshal(question())
	if err != nil {
		b.Fatal(err)
	}
	c.body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
	c.out.WriteString(http2.ClientPreface)
	c.must(c.framer.WriteSettings())
	c.must(c.framer.WriteWindowUpdate(0, 1<<30))
	return c
}

func (c *caller) must(err error) {
	if err != nil {
		c.b.Fatal(err)
	}
}

// call asks, and returns when the answer has ended.
func (c *caller) call() {
	c.fields.Reset()
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "rls"},
		{":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"grpc-timeout", "250m"}} {
		c.must(c.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.fields.Bytes(),
		EndHeaders: true}))
	c.must(c.framer.WriteData(c.stream, true, c.body))
	c.flush()
	for {
		f, err := c.framer.ReadFrame()
		c.must(err)
		switch f := f.(type) {
		case *http2.PingFrame:
			if !f.IsAck() {
				c.pings++
				c.must(c.framer.WritePing(true, f.Data))
				c.flush()
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.must(c.framer.WriteSettingsAck())
			}
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				c.stream += 2
				return
			}
		}
	}
}

func (c *caller) flush() {
	_, err := io.Copy(c.conn, &c.out)
	c.must(err)
}
