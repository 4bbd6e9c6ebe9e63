package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var example = image{name: "titrate/titrate", version: "v1.2.3", revision: "0123abc", entrypoint: "/titrate",
	time: time.Unix(1700000000, 0).UTC()}

// untar returns the files of a tar by name.
func untar(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// blob returns the content that a descriptor names, decoded into to; its digest and size agree.
func blob(t *testing.T, files map[string][]byte, d descriptor, to any) []byte {
	t.Helper()
	content := files[d.path()]
	if digest(content) != d.Digest || len(content) != d.Size {
		t.Fatalf("%s: %d bytes with digest %s", d.Digest, len(content), digest(content))
	}
	if to != nil {
		if err := json.Unmarshal(content, to); err != nil {
			t.Fatal(err)
		}
	}
	return content
}

// The archive has a manifest for each architecture, with its own file and the labels.
func TestImageOfTwoArchitectures(t *testing.T) {
	dir := t.TempDir()
	var args []string
	for _, arch := range []string{"arm64", "amd64"} {
		file := filepath.Join(dir, arch)
		if err := os.WriteFile(file, []byte("program for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, arch+"=/titrate="+file)
	}
	archive, err := example.archive(args)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := example.archive(args); !bytes.Equal(again, archive) {
		t.Error("the same input gives other bytes")
	}
	files := untar(t, archive)
	var top, index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%v: %s", err, files["index.json"])
	}
	if name := top.Manifests[0].Annotations["io.containerd.image.name"]; name != "docker.io/titrate/titrate:v1.2.3" {
		t.Errorf("containerd imports the image as %q, which no pod that runs titrate/titrate:v1.2.3 finds", name)
	}
	blob(t, files, top.Manifests[0], &index)
	if len(index.Manifests) != 2 || index.Manifests[0].Platform.Architecture != "amd64" {
		t.Fatalf("%+v", index)
	}
	var docker []dockerImage
	if err := json.Unmarshal(files["manifest.json"], &docker); err != nil || len(docker) != 2 ||
		docker[1].RepoTags[0] != "titrate/titrate:v1.2.3-arm64" || files[docker[1].Layers[0]] == nil ||
		!strings.Contains(string(files[docker[1].Config]), `"architecture":"arm64"`) {
		t.Errorf("%v: %s", err, files["manifest.json"])
	}
	for _, m := range index.Manifests {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		blob(t, files, m, &manifest)
		var config struct {
			Architecture string
			Config       struct {
				Entrypoint []string
				User       string
				Labels     map[string]string
			}
			Rootfs struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		blob(t, files, manifest.Config, &config)
		unpack, err := gzip.NewReader(bytes.NewReader(blob(t, files, manifest.Layers[0], nil)))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(unpack)
		if err != nil || digest(layer) != config.Rootfs.DiffIDs[0] {
			t.Errorf("layer: %v, digest %s", err, digest(layer))
		}
		if got := string(untar(t, layer)["titrate"]); got != "program for "+m.Platform.Architecture {
			t.Errorf("%s has %q", m.Platform.Architecture, got)
		}
		if config.Architecture != m.Platform.Architecture || config.Config.Entrypoint[0] != "/titrate" ||
			config.Config.User != user || config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" {
			t.Errorf("%+v", config)
		}
	}
}

// The SBOM of a Go binary names it, Go and its modules; this test is one.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := sbom(self, "titrate", "v1.2.3", example.time)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		SPDXVersion   string
		Packages      []spdxPackage
		Relationships []spdxRelation
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	p := document.Packages
	if document.SPDXVersion != "SPDX-2.3" || p[0].Version != "v1.2.3" || len(p[0].Sums[0].Value) != 64 ||
		p[1].Name != "stdlib" || !strings.HasPrefix(p[1].Version, "1.") || len(document.Relationships) != len(p) {
		t.Errorf("%s", text)
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		nil,
		{"image", "-o", dir + "/x"},
		{"image", "-o", dir + "/x", "-name", "n", "-version", "v", "amd64"},
		{"image", "-o", dir + "/x", "-name", "n", "-version", "v", "amd64=/a=" + dir + "/none"},
		{"sbom", "-o", dir + "/x", "-name", "n", "-version", "v", "release_test.go"},
		{"other", "-o", dir + "/x", "-name", "n", "-version", "v", "y"},
	} {
		if err := run(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if files, _ := filepath.Glob(dir + "/*"); files != nil {
		t.Errorf("left behind: %v", files)
	}
}
