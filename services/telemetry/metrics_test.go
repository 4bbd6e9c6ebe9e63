package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/grpc"

	"github.com/titrate/titrate/services/telemetry"
)

// lines is a log's output that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// metricReceiver is an OTLP receiver that takes what comes.
type metricReceiver struct {
	collector.UnimplementedMetricsServiceServer
}

func (metricReceiver) Export(context.Context, *collector.ExportMetricsServiceRequest) (
	*collector.ExportMetricsServiceResponse, error) {
	return &collector.ExportMetricsServiceResponse{}, nil
}

// A receiver of metrics that is dead is said once, with its address, in the format of the log, and so is its return.
// The SDK writes nothing next to the log: its line would be no JSON.
func TestADeadReceiverOfMetricsIsSaidOnce(t *testing.T) {
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "50")
	beside := make(chan error, 1000)
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if errors.Is(err, context.Canceled) {
			return // a push that Close has cut short; Log.Open's handler leaves it out, too
		}
		select {
		case beside <- err:
		default:
		}
	}))
	defer otel.SetErrorHandler(before)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // nobody listens

	var out lines
	log, err := telemetry.Log{Format: "json"}.Logger(&out)
	if err != nil {
		t.Fatal(err)
	}
	m := telemetry.Meters{Service: "titrate-agent", Instance: "one", Endpoint: "http://" + address, Log: log}
	metrics, err := m.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the receiver is not said to be dead", func() bool { return strings.Contains(out.String(), "WARN") })
	time.Sleep(300 * time.Millisecond) // several pushes more

	if l, err = net.Listen("tcp", address); err != nil {
		t.Skipf("the port was taken by somebody else: %v", err)
	}
	server := grpc.NewServer()
	collector.RegisterMetricsServiceServer(server, metricReceiver{})
	go func() { _ = server.Serve(l) }()
	within(t, "the receiver's return is not said", func() bool { return strings.Contains(out.String(), "again\"") })
	ended, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	metrics.Close(ended)
	server.Stop()

	text := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range text {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil || record["endpoint"] != "http://"+address {
			t.Errorf("%v: %s", err, line)
		}
	}
	if !strings.Contains(text[0], "is it running, and is --otlp-endpoint its gRPC port?") || len(text)%2 != 0 {
		t.Errorf("%d lines, want two for each time that the receiver was away:\n%s", len(text), out.String())
	}
	select {
	case err := <-beside:
		t.Errorf("the SDK wrote beside the log: %v", err)
	default:
	}
}

// within waits for something, 20 s at most.
func within(t *testing.T, otherwise string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}
