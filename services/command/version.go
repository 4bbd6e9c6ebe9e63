package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Release is the release that this source becomes. No other file states it: `make release` reads it here.
const Release = "0.1.0"

// built is the version of a build, set by the linker: -ldflags "-X
// github.com/titrate/titrate/services/command.built=v1.2.3". Without it the version is Release and the source revision.
var built string

func newVersion(program string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd, program) },
	}
}

// versionFlag adds --version, which says what the command says. Cobra's own takes a template, and a program that
// executes templates keeps every exported method of every type: 7 MB.
func versionFlag(root *cobra.Command) *bool {
	return root.Flags().BoolP("version", "v", false, "version for "+root.Name())
}

func printVersion(cmd *cobra.Command, program string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s, %s/%s)\n",
		program, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// Version returns the version of this program.
func Version() string {
	if built != "" {
		return built
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
