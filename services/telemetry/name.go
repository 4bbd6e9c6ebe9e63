package telemetry

import (
	"fmt"
	"os"
	"regexp"
)

// processName is the form of a name: as of hosts, pods and their certificates. A name is a label of metrics, a part of
// log lines, the key of an agent at the others, and the last segment of a certificate's URI.
var processName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,126}[a-zA-Z0-9])?$`)

// IsName reports whether a text may name a process or a site.
func IsName(text string) bool { return processName.MatchString(text) }

// ProcessName returns the name of this process: the given one, from --name, or the name of the host.
func ProcessName(given string) (string, error) {
	name, from := given, "--name"
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("--name is not given and the host has no name: %w", err)
		}
		from = "--name is not given and that of the host is"
	}
	if !processName.MatchString(name) {
		return "", fmt.Errorf("%s %.140q: want 1 to 128 of a-z A-Z 0-9 . _ -, with a letter or digit at both ends",
			from, name)
	}
	return name, nil
}
