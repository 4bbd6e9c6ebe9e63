package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// Log says how a process logs. The zero value logs text from level info.
type Log struct {
	Level  string // debug, info, warn or error; default info
	Format string // text or json; default text
}

// Flags adds --log-level and --log-format.
func (l *Log) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&l.Level, "log-level", "info", "least level that is logged: debug, info, warn or error")
	fs.StringVar(&l.Format, "log-format", "text", "how a log line looks: text or json")
}

// Logger makes the logger, writing to w. It fails on an unknown level or format.
func (l Log) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if l.Level != "" {
		if err := level.UnmarshalText([]byte(l.Level)); err != nil {
			return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", l.Level)
		}
	}
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
