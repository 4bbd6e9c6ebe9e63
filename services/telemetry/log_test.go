package telemetry_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"

	"github.com/titrate/titrate/services/telemetry"
)

// The level changes while the process runs: to debug by a signal, and back by the next one.
func TestTheLevelChangesByASignal(t *testing.T) {
	for _, usual := range []string{"info", "error"} {
		t.Run(usual, func(t *testing.T) {
			var out lines
			log, err := telemetry.Log{Level: usual, Format: "json"}.Open(t.Context(), &out)
			if err != nil {
				t.Fatal(err)
			}
			log.Debug("before")
			change := func(to string) {
				t.Helper()
				if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
					t.Fatal(err)
				}
				within(t, "no line says level "+to, func() bool { return strings.Contains(out.String(), `"level":"`+to+`"}`) })
			}
			change("DEBUG")
			within(t, "a record of level debug is not logged", func() bool {
				log.Debug("between")
				return strings.Contains(out.String(), "between")
			})
			change(strings.ToUpper(usual))
			within(t, "records of level debug are logged for ever", func() bool {
				before := out.String()
				log.Debug("after")
				return out.String() == before
			})
			if strings.Contains(out.String(), "before") {
				t.Errorf("logged before the signal:\n%s", out.String())
			}
		})
	}
}

// What OpenTelemetry's SDK writes is a line of the log, in its format, but for a push that the end cut short.
func TestWhatTheSDKSaysIsInTheLog(t *testing.T) {
	before := otel.GetErrorHandler()
	defer otel.SetErrorHandler(before)
	var out lines
	if _, err := (telemetry.Log{Format: "json"}).Open(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	otel.Handle(context.Canceled)
	otel.Handle(errors.New("a fault of the SDK"))
	var record map[string]any
	if err := json.Unmarshal([]byte(out.String()), &record); err != nil || record["error"] != "a fault of the SDK" {
		t.Errorf("%v: %s", err, out.String())
	}
}

// Whatever a library logs with (gRPC, packages log and slog), it is a line of the log, in its format. gRPC's errors are
// bounded.
func TestWhatLibrariesLogIsInTheLog(t *testing.T) {
	before := slog.Default()
	defer func() { slog.SetDefault(before); log.SetOutput(os.Stderr); log.SetFlags(log.LstdFlags) }()
	var out lines
	if _, err := (telemetry.Log{Format: "json"}).Open(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	log.Print("by package log")
	slog.Warn("by package slog")
	for range 1000 {
		grpclog.Error("by gRPC")
	}
	grpclog.Info("more than anybody wants to know")
	said := map[string]int{}
	for line := range strings.Lines(out.String()) {
		var record struct{ Msg, Says string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		said[cmp.Or(record.Says, record.Msg)]++
	}
	if want := map[string]int{"by package log": 1, "by package slog": 1, "by gRPC": 10}; !maps.Equal(said, want) {
		t.Errorf("%v, want %v", said, want)
	}
}
