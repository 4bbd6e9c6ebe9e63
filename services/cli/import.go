package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/rls/translate"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

const importLong = `import turns the configuration of another rate limiter into documents for apply. It
needs no server, and changes nothing.`

const importRatelimitLong = `ratelimit reads the YAML of envoyproxy/ratelimit and writes documents for apply, for
gateways that have the filter. (Envoys without the filter need no import: an agent with
--rls and --rls-config serves these files as they are.)

  ratelimit                         documents
  domain: shop                      Tenant tenants/shop
  a descriptor with a rate_limit    Limit tenants/shop/limits/DESCRIPTOR
    600 per minute                  rate: 600/min (a bucket of 600, not a fixed window)
    7000 per week, month or year    quota: 7000 per WEEK, MONTH or YEAR of the calendar, in UTC
    key without value               key: CLIENT, identity: KEY
    key with value, or value*       classes: [KEY-VALUE]; without another key: key: TENANT
    value beside the bare key       an override of that key's limit
    shadow_mode                     mode: SHADOW

Where in a request an identity or a class is, Envoy's rate limit actions say for
descriptors and the filter's settings for Titrate: stderr lists the names to define there.
Then it lists, with file and line, the limits that mean something else or are
left out, and says how many they are. --strict makes that an error. A file without any
limit, and a directory without a file, are errors.

ratelimit knows no capacity of an upstream. With --pool and --capacity the pool is written
too, and the limits apply to it only.`

const importRatelimitExample = `  titrate import ratelimit config/*.yaml > limits.yaml
  titrate import ratelimit config/ --pool api --capacity 300 | titrate apply -f -
  titrate import ratelimit shop.yaml -o json --strict`

// newImport has a command for each rate limiter whose configuration can be read.
func newImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Turn another rate limiter's configuration into documents (no server needed)",
		Long:  importLong,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImportRatelimit())
	return cmd
}

func newImportRatelimit() *cobra.Command {
	var (
		output  command.Format
		options translate.Options
		read    ratelimitconfig.Options
		strict  bool
	)
	cmd := &cobra.Command{
		Use:     "ratelimit FILE|DIR...",
		Short:   "Turn the YAML of envoyproxy/ratelimit into documents",
		Long:    importRatelimitLong,
		Example: importRatelimitExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usage(fmt.Errorf("which files? give the YAML files of ratelimit, or their directory"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := checkPool(cmd.Flags(), &options); err != nil {
				return command.Usage(err)
			}
			if output == command.AsTable {
				return command.Usage(fmt.Errorf("-o table: documents are written as yaml or json"))
			}
			files, err := ratelimitFiles(cmd.ErrOrStderr(), files)
			if err != nil {
				return err
			}
			c, err := ratelimitconfig.ReadFiles(files, read)
			if err != nil {
				return fmt.Errorf("nothing was written:\n%w", err)
			}
			result := translate.Resources(c, options)
			if result.Limits == 0 {
				return fmt.Errorf("nothing was written: %s has no limit", strings.Join(files, ", "))
			}
			report(cmd.ErrOrStderr(), result)
			if strict && len(result.Notes) > 0 {
				return fmt.Errorf("nothing was written, as --strict wants: not all limits mean the same")
			}
			if err := checkResources(result.Resources); err != nil {
				return fmt.Errorf("nothing was written:\n%w", err)
			}
			if output == command.AsJSON {
				return document.WriteJSON(cmd.OutOrStdout(), result.Resources...)
			}
			return document.WriteYAML(cmd.OutOrStdout(), result.Resources...)
		},
	}
	output.Flag(cmd)
	output = command.AsYAML
	f := cmd.Flags()
	f.StringVar(&options.Pool, "pool", "", "ID of a pool that the limits apply to (default all pools)")
	f.Float64Var(&options.Capacity, "capacity", 0, "capacity of --pool, in requests per second")
	f.BoolVar(&read.MergeDomains, "merge-domains", false, "let several files have one domain")
	f.BoolVar(&strict, "strict", false, "write nothing if something has no counterpart")
	return cmd
}

// checkPool checks the flags of the pool, as the API checks a pool.
func checkPool(f *pflag.FlagSet, o *translate.Options) error {
	pool, capacity := f.Changed("pool"), f.Changed("capacity")
	switch {
	case !pool && !capacity:
		return nil
	case !pool || !capacity:
		return errors.New("--pool and --capacity belong together: a pool's ID, and its requests per second")
	}
	name := resource.Ref{Kind: resource.Pool, ID: o.Pool}.String()
	if _, err := resource.Parse(name); err != nil {
		return fmt.Errorf("--pool: %w", err)
	}
	wrong := new(valid.Error)
	if err := valid.Resource(&quotav1.Pool{Name: name, Capacity: o.Capacity}); errors.As(err, &wrong) {
		return fmt.Errorf("--capacity %s: %s", wording.Number(o.Capacity), wrong.Violations[0].Message)
	}
	return nil
}

// checkResources checks what is to be written as the API does, for apply must take it.
func checkResources(all []resource.Message) error {
	var errs []error
	for _, m := range all {
		if err := valid.Resource(m); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// ratelimitFiles replaces directories by the configuration files in them, and says what it leaves out.
func ratelimitFiles(w io.Writer, paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		inside, leftOut, err := ratelimitconfig.List(path)
		if err != nil {
			return nil, err
		}
		for _, name := range leftOut {
			fmt.Fprintf(w, "not read: %s\n", name)
		}
		files = append(files, inside...)
	}
	return files, nil
}

// report says what the filter must define, and which limits mean something else.
func report(w io.Writer, r *translate.Result) {
	for _, n := range r.Identities {
		fmt.Fprintf(w, "define in the filter: identity %s: %s\n", n.Name, n.Of)
	}
	for _, n := range r.Classes {
		fmt.Fprintf(w, "define in the filter: class %s: %s\n", n.Name, n.Of)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
	changed, leftOut := r.Count()
	fmt.Fprintf(w, "%s read: %d changed in meaning, %d left out; N per unit is a bucket of N that refills evenly, "+
		"not a fixed window\n", wording.Count(r.Limits, "limit"), changed, leftOut)
}
