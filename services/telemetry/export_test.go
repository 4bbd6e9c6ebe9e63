package telemetry

import (
	"io"
	"log/slog"
)

// Logger is Open for a test: the process and its libraries keep their loggers.
func (l Log) Logger(w io.Writer) (*slog.Logger, error) {
	level, err := l.level()
	if err != nil {
		return nil, err
	}
	return l.logger(w, level)
}
