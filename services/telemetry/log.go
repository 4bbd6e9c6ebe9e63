package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
)

// Log says how a process logs. The zero value logs text from level info.
type Log struct {
	Level  string // debug, info, warn or error; default info
	Format string // text or json; default text
}

// Flags adds --log-level and --log-format.
func (l *Log) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&l.Level, "log-level", "info", "least level that is logged: debug, info, warn or error; "+
		"the signal USR1 changes it to debug while the process runs, and back")
	fs.StringVar(&l.Format, "log-format", "text", "how a log line looks: text or json")
}

// Open makes the one logger of a process, writing to w, also for gRPC, OpenTelemetry's SDK and packages log and slog.
// It fails on an unknown level or format. Until ctx ends each SIGUSR1 changes the level, to debug and back.
func (l Log) Open(ctx context.Context, w io.Writer) (*slog.Logger, error) {
	usual, err := l.level()
	if err != nil {
		return nil, err
	}
	var level slog.LevelVar
	level.Set(usual)
	log, err := l.logger(w, &level)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(log) // for packages that use the default log, also package log
	libraries.log.Store(log)
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		at := slog.LevelWarn
		if errors.Is(err, context.Canceled) { // a push that the end of the process has cut short
			at = slog.LevelDebug
		}
		log.Log(context.WithoutCancel(ctx), at, "OpenTelemetry", "error", err)
	}))
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		defer signal.Stop(asked)
		for {
			select {
			case <-ctx.Done():
				return
			case <-asked:
			}
			next := slog.LevelDebug
			if level.Level() == slog.LevelDebug {
				next = usual
			}
			level.Set(slog.LevelDebug) // so that this line is there whatever the level
			log.Info("log level changed by SIGUSR1", "level", next)
			level.Set(next)
		}
	}()
	return log, nil
}

func (l Log) level() (level slog.Level, err error) {
	if l.Level == "" {
		return slog.LevelInfo, nil
	}
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return 0, fmt.Errorf("--log-level %q: want debug, info, warn or error", l.Level)
	}
	return level, nil
}

func (l Log) logger(w io.Writer, level slog.Leveler) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch strings.ToLower(l.Format) {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("--log-format %q: want text or json", l.Format)
	}
}
