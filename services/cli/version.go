package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Release is the release that this source becomes. No other file states it: `make release` reads it here.
const Release = "0.1.0"

// Version is the version of a build, set by the linker:
// -ldflags "-X github.com/titrate/titrate/services/cli.Version=v1.2.3".
// Without it the version is Release and the source revision.
var Version string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("titrate %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func version() string {
	if Version != "" {
		return Version
	}
	const development = "v" + Release + "-dev"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return development
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return development
	}
	return development + "+" + revision + dirty
}
