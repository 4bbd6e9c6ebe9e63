package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// spdxPackage is a package of SPDX 2.3.
type spdxPackage struct {
	ID       string     `json:"SPDXID"`
	Name     string     `json:"name"`
	Version  string     `json:"versionInfo"`
	Download string     `json:"downloadLocation"`
	Analyzed bool       `json:"filesAnalyzed"`
	License  string     `json:"licenseDeclared"`
	Sums     []spdxSum  `json:"checksums,omitempty"`
	Refs     []spdxLink `json:"externalRefs,omitempty"`
}

type spdxSum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxLink struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// sbom is an SPDX document of what a Go binary says that it is made of. Licences of modules are
// not in the binary: NOASSERTION.
func sbom(binary, name, version string, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	packages := []spdxPackage{{ID: "SPDXRef-binary", Name: name, Version: version, Download: "NOASSERTION",
		License: "Apache-2.0", Sums: []spdxSum{{"SHA256", hex.EncodeToString(sum[:])}}}}
	relations := []spdxRelation{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-binary"}}
	all := append([]*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
	for i, m := range all {
		if m.Replace != nil && m.Replace.Version != "" {
			m = m.Replace
		}
		p := spdxPackage{ID: fmt.Sprintf("SPDXRef-module-%d", i), Name: m.Path, Version: m.Version,
			Download: "NOASSERTION", License: "NOASSERTION"}
		if m.Version != "" && m.Version != "(devel)" {
			p.Refs = []spdxLink{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}}
		}
		packages = append(packages, p)
		relations = append(relations, spdxRelation{"SPDXRef-binary", "CONTAINS", p.ID})
	}
	file := filepath.Base(binary)
	return json.MarshalIndent(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": file,
		"documentNamespace": "https://github.com/titrate/titrate/sbom/" + file + "-" + hex.EncodeToString(sum[:8]),
		"creationInfo": map[string]any{"created": at.Format(time.RFC3339),
			"creators": []string{"Tool: github.com/titrate/titrate/tools/release"}},
		"packages": packages, "relationships": relations,
	}, "", "  ")
}
