package local

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/titrate/titrate/services/dev/load"
)

//go:embed gateway.yaml.tmpl
var gatewayTemplate string

// A JSON string is a YAML string, whatever is in it.
var bootstrap = template.Must(template.New("gateway.yaml").Funcs(template.FuncMap{
	"json": func(s string) (string, error) {
		b, err := json.Marshal(s)
		return string(b), err
	},
}).Parse(gatewayTemplate))

// Gateway is what the bootstrap of an Envoy depends on.
type Gateway struct {
	Name, Socket, Pool    string
	Port, Admin, Upstream int
}

// TenantHeader and ClientHeader are those that the load sends.
func (Gateway) TenantHeader() string { return load.TenantHeader }

// ClientHeader is described at TenantHeader.
func (Gateway) ClientHeader() string { return load.ClientHeader }

// Bootstrap is the Envoy's configuration.
func (g Gateway) Bootstrap() (string, error) {
	var b strings.Builder
	err := bootstrap.Execute(&b, g)
	return b.String(), err
}

// Modules makes a directory in which Envoy finds the filter by its name, whatever the
// module's file is called, and returns what Envoy's environment needs for that. It may
// be called again for the same directory.
func Modules(dir, module string) (environment string, err error) {
	dir = filepath.Join(dir, "modules")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	err = os.Symlink(module, filepath.Join(dir, "libtitrate.so"))
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return "ENVOY_DYNAMIC_MODULES_SEARCH_PATH=" + dir, err
}
