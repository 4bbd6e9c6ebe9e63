package main

import (
	"bytes"
	"encoding/json"
	"maps"
)

// schemaFile is values.schema.json.
func (v *value) schemaFile() ([]byte, error) {
	schema := v.jsonSchema()
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["properties"].(map[string]any)["global"] = map[string]any{"type": "object",
		"description": "Helm's own: values of a chart that has this one as a part."}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(schema); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// jsonSchema allows the keys of a section, and refuses others.
func (v *value) jsonSchema() map[string]any {
	schema := map[string]any{"type": v.kind}
	if v.description != "" {
		schema["description"] = v.description
	}
	if v.children != nil {
		properties := map[string]any{}
		for _, c := range v.children {
			properties[c.name] = c.jsonSchema()
		}
		schema["properties"], schema["additionalProperties"] = properties, false
	}
	maps.Copy(schema, v.schema)
	return schema
}
