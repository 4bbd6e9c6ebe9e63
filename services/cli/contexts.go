package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/wording"
)

const (
	contextEnv  = "TITRATE_CONTEXT"
	contextsEnv = "TITRATE_CONFIG"
)

// settings are the way to one coordinator. The names in YAML equal the names of the flags.
type settings struct {
	Server   string `yaml:"server"`
	CA       string `yaml:"tls-ca,omitempty"`
	Cert     string `yaml:"tls-cert,omitempty"`
	Key      string `yaml:"tls-key,omitempty"`
	Token    string `yaml:"token-file,omitempty"`
	Insecure bool   `yaml:"insecure,omitempty"`
}

// setting is one of them that is a text.
type setting struct {
	flag, env string // that say it; "" = none does
	value     *string
}

// texts are the settings that are texts, all but the first names of files.
func (s *settings) texts() []setting {
	return []setting{{"server", serverEnv, &s.Server}, {"tls-ca", "", &s.CA}, {"tls-cert", "", &s.Cert},
		{"tls-key", "", &s.Key}, {"token-file", tokenEnv, &s.Token}}
}

// check reports what is wrong with settings by themselves.
func (s *settings) check() error {
	_, _, err := net.SplitHostPort(s.Server)
	switch {
	case err != nil:
		return fmt.Errorf("server %q: want host:port, such as %s", s.Server, defaultServer)
	case (s.Cert == "") != (s.Key == ""):
		return errors.New("tls-cert and tls-key belong together: give both or neither")
	case s.Insecure && (s.CA != "" || s.Cert != ""):
		return errors.New("insecure contradicts the tls settings: give one or the other")
	}
	return nil
}

// contexts is the file of named settings.
type contexts struct {
	path string

	Current  string               `yaml:"current,omitempty"`
	Contexts map[string]*settings `yaml:"contexts,omitempty"`
}

// errNoDirectory says that this user has no place for a file of contexts, and so has none.
var errNoDirectory = errors.New("no directory for contexts")

// contextsPath returns the path of the file: TITRATE_CONFIG, or titrate/config.yaml in the user's directory for
// configuration (XDG_CONFIG_HOME, by default ~/.config).
func contextsPath() (string, error) {
	if path := os.Getenv(contextsEnv); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w; %s can name a file", errNoDirectory, err, contextsEnv)
	}
	return filepath.Join(dir, "titrate", "config.yaml"), nil
}

// readContexts reads the file; without a file there are no contexts.
func readContexts() (*contexts, error) {
	path, err := contextsPath()
	if err != nil {
		return nil, err
	}
	c := &contexts{path: path, Contexts: map[string]*settings{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // a service user's HOME is no directory
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("contexts: %s: %w", path, err)
	}
	for _, name := range c.names() {
		if c.Contexts[name] == nil {
			c.Contexts[name] = &settings{}
		}
		if err := c.Contexts[name].check(); err != nil {
			return nil, fmt.Errorf("contexts: %s: contexts.%s: %w", path, name, err)
		}
	}
	return c, nil
}

// readContext reads the file, and finds a context in it.
func readContext(name string) (*contexts, *settings, error) {
	c, err := readContexts()
	if err != nil {
		return nil, nil, err
	}
	s, err := c.find(name)
	return c, s, err
}

// names lists the names of all contexts, in order.
func (c *contexts) names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

// find returns the settings of a context.
func (c *contexts) find(name string) (*settings, error) {
	if s := c.Contexts[name]; s != nil {
		return s, nil
	}
	if len(c.Contexts) == 0 {
		return nil, fmt.Errorf("context %q: %s has none yet; titrate config set %s --server HOST:PORT makes it", name,
			c.path, name)
	}
	return nil, fmt.Errorf("context %q is none of those in %s: %s", name, c.path, wording.Few(c.names(), 10))
}

// write replaces the file.
func (c *contexts) write() error {
	err := os.MkdirAll(filepath.Dir(c.path), 0o700)
	if err == nil {
		err = writeWhole(c.path, func(w io.Writer) error {
			e := yaml.NewEncoder(w)
			e.SetIndent(2)
			return e.Encode(c)
		})
	}
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}

var contextName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// checkName refuses names of contexts that a shell or YAML would not take as they are.
func checkName(name string) error {
	if contextName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%q is no name of a context: want letters, digits and . _ - between them, at most 63", name)
}

// resolve fills in what flags leave open: from the context that is meant, and from the environment.
func (c *connection) resolve() error {
	name, in, err := c.context()
	if err != nil {
		return err
	}
	of, source := &settings{Server: defaultServer}, "default"
	if name != "" {
		if of, err = in.find(name); err != nil {
			return command.Usage(err)
		}
		source = "context " + name
	}
	c.from = map[string]string{}
	for i, one := range c.settings.texts() {
		switch env := os.Getenv(one.env); {
		case c.given(one.flag):
			c.from[one.flag] = "--" + one.flag
		case env != "" && (one.env != serverEnv || name == ""):
			*one.value, c.from[one.flag] = env, one.env
		default:
			*one.value, c.from[one.flag] = *of.texts()[i].value, source
		}
	}
	c.from["insecure"] = "--insecure"
	if !c.given("insecure") {
		// TLS files of flags take the context's insecure away.
		c.Insecure = of.Insecure && !c.given("tls-ca") && !c.given("tls-cert")
		c.from["insecure"] = source
	}
	return nil
}

// given reports whether the command line has a flag.
func (c *connection) given(flag string) bool { return c.set.Changed(flag) }

// context is the context that is meant: that of the command line, of the environment, or the
// current one. It is "" if a flag or the environment names a coordinator: then nothing of a
// context counts, so that no token goes to a coordinator that it is not for.
func (c *connection) context() (name string, in *contexts, err error) {
	server, name := os.Getenv(serverEnv), os.Getenv(contextEnv)
	switch {
	case c.given("server") && c.given("context"):
		return "", nil, command.Usagef("--server and --context both say which coordinator is meant: give one")
	case c.given("server"):
		return "", nil, nil
	case c.given("context"):
		name = c.named
	case server != "" && name != "":
		return "", nil, command.Usagef("%s and %s are both set, and both say which coordinator is meant: unset one",
			serverEnv, contextEnv)
	case server != "":
		return "", nil, nil
	}
	in, err = readContexts()
	switch {
	case name == "" && errors.Is(err, errNoDirectory):
		return "", nil, nil
	case err != nil:
		return "", nil, command.Usage(err)
	case name == "":
		name = in.Current
	}
	return name, in, nil
}

// target is the coordinator, for errors.
func (c *connection) target() string {
	if strings.HasPrefix(c.from["server"], "context ") {
		return c.Server + " (" + c.from["server"] + ")"
	}
	return c.Server
}
