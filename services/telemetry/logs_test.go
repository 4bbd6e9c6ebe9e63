package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"

	"github.com/titrate/titrate/services/telemetry"
)

// logReceiver is an OTLP receiver that keeps the records.
type logReceiver struct {
	collector.UnimplementedLogsServiceServer
	mu       sync.Mutex
	records  []*logsv1.LogRecord
	services []string
}

func (r *logReceiver) Export(_ context.Context, m *collector.ExportLogsServiceRequest) (
	*collector.ExportLogsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range m.GetResourceLogs() {
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				r.services = append(r.services, a.GetValue().GetStringValue())
			}
		}
		for _, s := range of.GetScopeLogs() {
			r.records = append(r.records, s.GetLogRecords()...)
		}
	}
	return &collector.ExportLogsServiceResponse{}, nil
}

func openLogs(t *testing.T, endpoint string, to *bytes.Buffer) (*slog.Logger, *telemetry.Logs, *telemetry.Metrics) {
	t.Helper()
	m := telemetry.Meters{Service: "titrate-agent", Instance: "one"}
	metrics, err := m.Open(t.Context()) // without an endpoint: no push
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { metrics.Close(context.Background()) })
	m.Endpoint = endpoint
	log, err := telemetry.Log{Format: "json"}.Logger(to)
	if err != nil {
		t.Fatal(err)
	}
	log, logs, err := m.OpenLogs(t.Context(), log, metrics)
	if err != nil {
		t.Fatal(err)
	}
	return log, logs, metrics
}

// What is logged goes to the receiver in addition to the lines, with level and attributes; what the level leaves out
// goes nowhere.
func TestLogRecordsAreSent(t *testing.T) {
	r, s := &logReceiver{}, grpc.NewServer()
	collector.RegisterLogsServiceServer(s, r)
	var lines bytes.Buffer
	log, logs, _ := openLogs(t, serve(t, s), &lines)
	log.Debug("too much")
	log.With("agent", "a-1").Warn("it is slow", "ms", 7)
	if err := logs.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) != 1 || len(r.services) != 1 || r.services[0] != "titrate-agent" {
		t.Fatalf("%d records of %v", len(r.records), r.services)
	}
	got := r.records[0]
	if got.GetBody().GetStringValue() != "it is slow" ||
		got.GetSeverityNumber() != logsv1.SeverityNumber_SEVERITY_NUMBER_WARN || len(got.GetAttributes()) != 2 ||
		got.GetAttributes()[0].GetValue().GetStringValue() != "a-1" ||
		got.GetAttributes()[1].GetValue().GetIntValue() != 7 {
		t.Errorf("%v", got)
	}
	if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"msg":"it is slow"`) {
		t.Errorf("the lines are %s", text)
	}
}

// A receiver that does not answer holds nobody up, and puts no line into the log: records are
// dropped and counted.
func TestADeadReceiverOfLogsHoldsNobodyUp(t *testing.T) {
	var lines bytes.Buffer
	log, logs, metrics := openLogs(t, silent(t), &lines)
	const records = 10_000
	for range records {
		log.Info("one more")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = logs.Close(ended)
	if n := strings.Count(lines.String(), "\n"); n != records {
		t.Errorf("%d lines", n)
	}
	someLost(t, metrics, "titrate_log_records_lost_total")
}

// Without a receiver, and where the environment switches records off, the log is as it was.
func TestLogRecordsOff(t *testing.T) {
	var lines bytes.Buffer
	if _, logs, _ := openLogs(t, "", &lines); logs != nil {
		t.Error("records are sent nowhere")
	}
	t.Setenv("OTEL_LOGS_EXPORTER", "none")
	_, logs, _ := openLogs(t, "http://127.0.0.1:4317", &lines)
	if logs != nil {
		t.Error("records are sent, although the environment switches them off")
	}
	if err := logs.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
