package guide

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	lab "github.com/titrate/titrate/lab/cli"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/cli"
	"github.com/titrate/titrate/services/document"
)

// pages are all documents that people read.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../charts/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) < 20 {
		t.Fatalf("found only %v", all)
	}
	return all
}

// programs are the programs that pages call.
var programs = map[string]func() *cobra.Command{"titrate": cli.Root, "titrate-lab": lab.Root}

// The programs understand each of their commands on a page: they know the flags, and the arguments have the
// right number and form. The tests that run pages check that commands do what the page says.
func TestCommandsAreUnderstood(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		for _, b := range Read(t, page) {
			if b.Language != "" && b.Language != "sh" {
				continue
			}
			for name, root := range programs {
				for _, args := range Commands(b.shell(), name) {
					if slices.Contains(args, "$@") || len(args) > 0 && strings.HasSuffix(args[0], ":") {
						continue // a function of the page; a complaint
					}
					n++
					if err := understood(root(), args); err != nil {
						t.Errorf("%s:%d: %s %s: %v", b.Page, b.Line, name, strings.Join(args, " "), err)
					}
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("found only %d commands", n)
	}
}

// shell returns the shell part of a block. In the reference a block of one line is the usage of a command, and
// an example may be followed by words.
func (b Block) shell() string {
	if filepath.Base(b.Page) != "cli.md" {
		return b.Text
	}
	if strings.Count(b.Text, "\n") == 1 {
		return ""
	}
	return behind.ReplaceAllString(b.Text, "$1")
}

var behind = regexp.MustCompile(`(?m)(\S) {3,}.*$`)

// placeholder stands for a number or a text that a reader puts in.
var placeholder = regexp.MustCompile(`^(\$\w+|REVISION)$`)

// understood parses a command and does not run it.
func understood(root *cobra.Command, args []string) error {
	var given []string
	for _, arg := range args {
		switch {
		case arg == "…" || arg == "...":
		case placeholder.MatchString(arg):
			given = append(given, "1")
		default:
			given = append(given, arg)
		}
	}
	root.SetErr(io.Discard)
	cmd, rest, err := root.Find(given)
	if err != nil {
		return err
	}
	if cmd == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") &&
		rest[0] != "help" && rest[0] != "completion" {
		return errors.New("there is no such command")
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if asksHelp(cmd) {
		return nil
	}
	return errors.Join(cmd.ValidateArgs(cmd.Flags().Args()), cmd.ValidateRequiredFlags())
}

func asksHelp(cmd *cobra.Command) bool {
	for _, name := range []string{"help", "version"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return true
		}
	}
	return false
}

func TestUnknownFlagsAreFound(t *testing.T) {
	for _, wrong := range []string{"titrate get --serve x", "titrate aply -f x", "FOO=1 titrate history --n 3 | head",
		"until titrate check --no; do sleep 1; done", "titrate plan", "titrate why"} {
		found := Commands(wrong, "titrate")
		if len(found) != 1 || understood(cli.Root(), found[0]) == nil {
			t.Errorf("%q: %v is understood", wrong, found)
		}
	}
}

func TestCommands(t *testing.T) {
	const text = `export A=1 titrate=2   # titrate in a comment
titrate apply -f - <<'YAML' 2>err.log
titrate: not a command
YAML
first=$(titrate history | awk '/two tenants/ {print $1}')
bin/titrate agent --socket $PWD/a.sock \
  --join x,y >agent.log 2>&1 &
until titrate get >/dev/null 2>&1; do sleep 0.2; done
echo "titrate in quotes" && titrate plan -f x -m "two words"
`
	var got []string
	for _, args := range Commands(text, "titrate") {
		got = append(got, strings.Join(args, "|"))
	}
	want := []string{"apply|-f|-", "history", "agent|--socket|$PWD/a.sock|--join|x,y", "get", "plan|-f|x|-m|two words"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var (
	hereDocument = regexp.MustCompile(`(?ms)<<'?YAML'?.*?\n(.*?)^YAML$`)
	metadata     = regexp.MustCompile(`(?m)^metadata: .*\n`) // of a custom resource, which is a document without it
	ownKind      = regexp.MustCompile(`(?m)^\{?(?:apiVersion: titrate\.dev|kind: (?:Pool|Tenant|Quota|Limit)\b)`)
)

// Each YAML block can be read. Documents for titrate apply are valid by apply's rules, policies and files of
// tokens by the coordinator's.
func TestConfigurationsAreValid(t *testing.T) {
	own := 0
	for _, page := range pages(t) {
		for _, b := range Read(t, page) {
			texts := []string{b.Text}
			if b.Language == "sh" || b.Language == "" {
				texts = nil
				for _, found := range hereDocument.FindAllStringSubmatch(b.Text, -1) {
					texts = append(texts, found[1])
				}
			} else if b.Language != "yaml" {
				continue
			}
			for _, text := range texts {
				if err := validYAML(t, text); err != nil {
					t.Errorf("%s:%d: %v", b.Page, b.Line, err)
				}
				if ownKind.MatchString(text) {
					own++
				}
			}
		}
	}
	if own < 10 {
		t.Errorf("found only %d blocks with resources", own)
	}
}

// validYAML checks a text by its kind. A text with shell variables cannot be checked.
func validYAML(t *testing.T, text string) error {
	t.Helper()
	switch {
	case strings.Contains(text, "$("):
		return nil
	case ownKind.MatchString(text):
		if !strings.Contains(text, "apiVersion:") {
			text = "apiVersion: " + document.APIVersion + "\n" + text
		}
		_, err := document.Parse("page", metadata.ReplaceAll([]byte(text), nil))
		return err
	case strings.HasPrefix(text, "grants:"):
		_, err := access.Read(file(t, text))
		return err
	case strings.HasPrefix(text, "tokens:"):
		_, err := access.ReadTokens(file(t, text))
		return err
	}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var node yaml.Node
		if err := d.Decode(&node); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a how-to shows of Envoy's configuration stands so in the file that its commands start Envoy with.
func TestHowTosQuoteEnvoysConfiguration(t *testing.T) {
	raw, err := os.ReadFile("../../docs/how-to/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Join(linesOf(string(raw)), "\n")
	quoted := 0
	for _, page := range pages(t) {
		for _, b := range Read(t, page) {
			if b.Language != "yaml" || b.Word != "envoy" {
				continue
			}
			quoted++
			if !strings.Contains(whole, strings.Join(linesOf(b.Text), "\n")) {
				t.Errorf("%s:%d: the block is not in docs/how-to/envoy.yaml", b.Page, b.Line)
			}
		}
	}
	if quoted == 0 {
		t.Error("no page quotes docs/how-to/envoy.yaml")
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// A link leads to a file of the repository and, if it names one, to a heading there.
func TestLinksLead(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			name, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(name, ":") {
				continue
			}
			target := page
			if name != "" {
				target = filepath.Join(filepath.Dir(page), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, found[1])
			} else if anchor != "" && !anchors(t, target)[anchor] {
				t.Errorf("%s: the link %s: there is no such heading", page, found[1])
			}
		}
	}
}

// anchors returns the names of a page's headings in links.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(found[1]), "")
		all[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return all
}
