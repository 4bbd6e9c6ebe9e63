package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/grpclog"
)

// libraries is the log of gRPC. gRPC takes it before it is used, so it is there from the start, and writes nothing
// until a process has a log.
var libraries = &grpcLog{sometimes: rate.Sometimes{First: 10, Interval: 10 * time.Second}}

func init() { grpclog.SetLoggerV2(libraries) }

// grpcLog writes what gRPC says into the log of the process. gRPC returns its errors to callers, too; so they are
// warnings here, and bounded, and all else is debug.
type grpcLog struct {
	log       atomic.Pointer[slog.Logger] // nil: nothing is logged
	sometimes rate.Sometimes
}

func (g *grpcLog) write(level slog.Level, text string) {
	if log := g.log.Load(); log != nil {
		log.Log(context.Background(), level, "gRPC", "says", strings.TrimSpace(text))
	}
}

func (g *grpcLog) debug(text string) { g.write(slog.LevelDebug, text) }

func (g *grpcLog) warn(text string) {
	g.sometimes.Do(func() { g.write(slog.LevelWarn, text) })
}

// on reports whether debug lines are wanted: gRPC has many.
func (g *grpcLog) on() bool {
	log := g.log.Load()
	return log != nil && log.Enabled(context.Background(), slog.LevelDebug)
}

func (g *grpcLog) Info(args ...any) {
	if g.on() {
		g.debug(fmt.Sprint(args...))
	}
}

func (g *grpcLog) Infoln(args ...any) {
	if g.on() {
		g.debug(fmt.Sprintln(args...))
	}
}

func (g *grpcLog) Infof(format string, args ...any) {
	if g.on() {
		g.debug(fmt.Sprintf(format, args...))
	}
}

func (g *grpcLog) Warning(args ...any)                 { g.Info(args...) }
func (g *grpcLog) Warningln(args ...any)               { g.Infoln(args...) }
func (g *grpcLog) Warningf(format string, args ...any) { g.Infof(format, args...) }
func (g *grpcLog) Error(args ...any)                   { g.warn(fmt.Sprint(args...)) }
func (g *grpcLog) Errorln(args ...any)                 { g.warn(fmt.Sprintln(args...)) }
func (g *grpcLog) Errorf(format string, args ...any)   { g.warn(fmt.Sprintf(format, args...)) }

// Fatal and its likes end the process, as gRPC expects.
func (g *grpcLog) Fatal(args ...any) {
	g.write(slog.LevelError, fmt.Sprint(args...))
	os.Exit(1)
}

func (g *grpcLog) Fatalln(args ...any)               { g.Fatal(fmt.Sprintln(args...)) }
func (g *grpcLog) Fatalf(format string, args ...any) { g.Fatal(fmt.Sprintf(format, args...)) }

// V reports that nothing verbose is wanted.
func (g *grpcLog) V(int) bool { return false }
