package document_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/operator"
	"github.com/titrate/titrate/services/store/resource"
)

var update = flag.Bool("update", false, "write the chart's definitions anew")

const definitions = "../../charts/titrate/files/crds.yaml"

// The chart has the definitions as the code has them.
func TestDefinitionsOfTheChart(t *testing.T) {
	want, err := makeDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(definitions, want, 0o644); err != nil { //nolint:gosec // no secret
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(definitions)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s is not as the code: write it anew with -update (%v)", definitions, err)
	}
}

type fields = map[string]any

// makeDefinitions returns the CustomResourceDefinitions of the kinds, in YAML. The schema of a spec is the schema of
// a document: it has fields and types. The operator checks the values, and reports the result in the condition InForce.
// Helm does not delete the definitions, since all custom resources would be deleted with them.
func makeDefinitions() ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	for _, kind := range operator.Kinds {
		if err := encoder.Encode(definition(kind)); err != nil {
			return nil, fmt.Errorf("definition of %s: %w", kind, err)
		}
	}
	return b.Bytes(), encoder.Close()
}

func definition(kind resource.Kind) fields {
	group, version, _ := strings.Cut(document.APIVersion, "/")
	column := func(name, path string) fields { return fields{"name": name, "type": "string", "jsonPath": path} }
	const condition = `.status.conditions[?(@.type=="` + operator.InForce + `")]`
	return fields{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": fields{"name": kind.Collection() + "." + group,
			"annotations": fields{"helm.sh/resource-policy": "keep"}},
		"spec": fields{
			"group": group, "scope": "Cluster",
			"names": fields{"kind": kind.String(), "listKind": kind.String() + "List", "plural": kind.Collection(),
				"singular": strings.ToLower(kind.String()), "categories": []string{"titrate"}},
			"versions": []fields{{"name": version, "served": true, "storage": true,
				"subresources": fields{"status": fields{}},
				"additionalPrinterColumns": []fields{column("Resource", ".name"),
					column("In force", condition+".status"), column("Reason", condition+".reason")},
				"schema": fields{"openAPIV3Schema": schema(kind)}}},
		},
	}
}

// schema returns the schema of a whole object.
func schema(kind resource.Kind) fields {
	text := fields{"type": "string"}
	number := fields{"type": "integer", "format": "int64"}
	condition := fields{"type": "object", "required": []string{"type", "status"}, "properties": fields{
		"type": text, "status": text, "reason": text, "message": text, "observedGeneration": number,
		"lastTransitionTime": fields{"type": "string", "format": "date-time"}}}
	return fields{"type": "object", "required": []string{"name"}, "properties": fields{
		"apiVersion": text, "kind": text, "metadata": fields{"type": "object"},
		"name": fields{"type": "string", "maxLength": 256,
			"description": "The resource that this object stands for, as titrate get shows it. It cannot be changed.",
			"x-kubernetes-validations": []fields{{"rule": "self == oldSelf",
				"message": "the name of a resource cannot be changed: make another object, and delete this one"}}},
		"spec": document.Schema(kind),
		"status": fields{"type": "object", "properties": fields{"observedGeneration": number,
			"conditions": fields{"type": "array", "items": condition}}},
	}}
}
