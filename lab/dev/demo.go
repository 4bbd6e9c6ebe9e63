package dev

import _ "embed"

// DemoDocument is the configuration that is applied, as YAML documents.
//
//go:embed demo.yaml
var DemoDocument string

// DemoClasses is the class of requests that DemoDocument names, for installation.Envoy's Also.
const DemoClasses = `
                          classes:
                          - name: exact
                            match:
                            - headers: [{name: x-client, exact: exact}]
                            - headers: [{name: x-client, exact: within}]`
