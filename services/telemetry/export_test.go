package telemetry

import (
	"io"
	"log/slog"
)

// Logger makes the logger, writing to w. It fails on an unknown level or format.
func (l Log) Logger(w io.Writer) (*slog.Logger, error) {
	level, err := l.level()
	if err != nil {
		return nil, err
	}
	return l.logger(w, level)
}
