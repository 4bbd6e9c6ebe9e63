package gossip

import (
	"slices"
	"strings"

	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// lines passes memberlist's lines to slog: errors of unreachable peers are
// its daily work, so they are no louder than debug. It counts what memberlist only logs.
type lines struct{ m *Node }

// Write logs one line.
func (l lines) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	level, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "] ")
	if !ok {
		level, rest = "", text
	}
	rest = strings.TrimPrefix(rest, "memberlist: ")
	l.count(rest)
	log := l.m.o.Log
	switch level {
	case "WARN":
		log.Debug(rest, "from", "memberlist", "severity", "warning")
	case "ERR", "ERROR":
		log.Debug(rest, "from", "memberlist", "severity", "error")
	default:
		log.Debug(rest, "from", "memberlist")
	}
	return len(b), nil
}

// count counts packets and connections that memberlist refuses for their label or their key. It has no other way to
// say so: TestOtherKeyIsNotHeard finds a version of it that says it in other words.
func (l lines) count(line string) {
	what, from, is := strings.Cut(line, " from=")
	switch {
	case !is:
	case strings.Contains(what, "with unacceptable label"):
		l.m.dropped[schedule.Foreign].Add(1)
	case unopenable(what):
		l.m.noteUnopened(from)
	}
}

// unopenable reports whether an error of memberlist is about a gossip key.
func unopenable(text string) bool {
	return slices.ContainsFunc([]string{
		"Decrypt packet failed", "no installed keys could decrypt", "remote state is encrypted and encryption is not",
		"encryption is configured but remote state is not encrypted",
	}, func(part string) bool { return strings.Contains(text, part) })
}
