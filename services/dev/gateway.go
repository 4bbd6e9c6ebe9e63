package dev

import (
	_ "embed"
	"encoding/json"
	"os"
	"text/template"

	"github.com/titrate/titrate/services/dev/load"
)

//go:embed gateway.yaml.tmpl
var gatewayTemplate string

// A JSON string is a YAML string, whatever is in it.
var gatewayBootstrap = template.Must(template.New("gateway.yaml").Funcs(template.FuncMap{
	"json": func(s string) (string, error) {
		b, err := json.Marshal(s)
		return string(b), err
	},
}).Parse(gatewayTemplate))

// gateway is what an Envoy's bootstrap depends on.
type gateway struct {
	Name, Socket, Pool    string
	Port, Admin, Upstream int
}

// TenantHeader and ClientHeader are those that the load sends.
func (gateway) TenantHeader() string { return load.TenantHeader }

// ClientHeader is described at TenantHeader.
func (gateway) ClientHeader() string { return load.ClientHeader }

// write writes the bootstrap to a file.
func (g gateway) write(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := gatewayBootstrap.Execute(f, g); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
