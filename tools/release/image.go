package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Media types of the OCI image format, version 1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// layoutVersion is the file oci-layout of an archive.
const layoutVersion = `{"imageLayoutVersion":"1.0.0"}`

// user is the user and group that the images run as, unless the pod sets another.
const user = "65532:65532"

// image is one name with a manifest for each architecture.
type image struct {
	name, version, revision, entrypoint, command string
	time                                         time.Time
}

// descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// dockerImage is one architecture of an image for engines without containerd's store: the file manifest.json of
// `docker save`, stored in the archive next to the OCI layout.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// blobs are the contents of an archive by digest.
type blobs map[string][]byte

// add keeps content and describes it.
func (b blobs) add(mediaType string, content []byte) descriptor {
	d := digest(content)
	b[d] = content
	return descriptor{MediaType: mediaType, Digest: d, Size: len(content)}
}

func (b blobs) addJSON(mediaType string, v any) (descriptor, error) {
	content, err := json.Marshal(v)
	return b.add(mediaType, content), err
}

// path returns the blob's path in an archive.
func (d descriptor) path() string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// archive is the image as a tar of an OCI image layout. Each argument is one file of one
// architecture: ARCH=PATH=FILE, such as amd64=/titrate=bin/titrate-amd64.
func (i image) archive(args []string) ([]byte, error) {
	files := map[string]map[string]string{} // by architecture and path
	for _, arg := range args {
		part := strings.SplitN(arg, "=", 3)
		if len(part) != 3 || !strings.HasPrefix(part[1], "/") {
			return nil, fmt.Errorf("%q: want ARCH=/PATH=FILE", arg)
		}
		if files[part[0]] == nil {
			files[part[0]] = map[string]string{}
		}
		files[part[0]][part[1]] = part[2]
	}
	all := blobs{}
	var manifests []descriptor
	var docker []dockerImage
	for _, arch := range slices.Sorted(maps.Keys(files)) {
		manifest, d, err := i.manifest(all, arch, files[arch])
		if err != nil {
			return nil, err
		}
		manifests, docker = append(manifests, manifest), append(docker, d)
	}
	index, err := all.addJSON(typeIndex, map[string]any{"schemaVersion": 2, "mediaType": typeIndex,
		"manifests": manifests, "annotations": i.labels()})
	if err != nil {
		return nil, err
	}
	// Kubernetes finds an image of containerd by its whole name, and containerd imports names as they are.
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": i.version,
		"io.containerd.image.name": "docker.io/" + i.name + ":" + i.version}
	return i.layout(all, index, docker)
}

// manifest is the image for one architecture: one layer with the files.
func (i image) manifest(all blobs, arch string, files map[string]string) (descriptor, dockerImage, error) {
	plain, packed, err := i.layer(files)
	if err != nil {
		return descriptor{}, dockerImage{}, err
	}
	layer := all.add(typeLayer, packed)
	config, err := all.addJSON(typeConfig, map[string]any{
		"created": i.time.Format(time.RFC3339), "architecture": arch, "os": "linux",
		"config": map[string]any{"Entrypoint": strings.Fields(i.entrypoint), "Cmd": strings.Fields(i.command),
			"User": user, "WorkingDir": "/", "Labels": i.labels()},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(plain)}},
		"history": []any{map[string]string{"created": i.time.Format(time.RFC3339), "created_by": "make release"}},
	})
	if err != nil {
		return descriptor{}, dockerImage{}, err
	}
	manifest, err := all.addJSON(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest,
		"config": config, "layers": []descriptor{layer}, "annotations": i.labels()})
	manifest.Platform = &platform{Architecture: arch, OS: "linux"}
	return manifest, dockerImage{Config: config.path(), RepoTags: []string{i.name + ":" + i.version + "-" + arch},
		Layers: []string{layer.path()}}, err
}

func (i image) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    i.name,
		"org.opencontainers.image.version":  i.version,
		"org.opencontainers.image.revision": i.revision,
		"org.opencontainers.image.created":  i.time.Format(time.RFC3339),
		"org.opencontainers.image.source":   "https://github.com/titrate/titrate",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// layer is a tar with the files, plain and packed.
func (i image) layer(files map[string]string) (plain, packed []byte, err error) {
	content := map[string][]byte{}
	for path, file := range files {
		if content[strings.TrimPrefix(path, "/")], err = os.ReadFile(file); err != nil {
			return nil, nil, err
		}
	}
	if plain, err = i.tar(content, 0o755); err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	if _, err := w.Write(plain); err != nil {
		return nil, nil, err
	}
	err = w.Close()
	return plain, out.Bytes(), err
}

// layout is the archive: each blob under its digest, and the index that names the image.
func (i image) layout(all blobs, index descriptor, docker []dockerImage) ([]byte, error) {
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex,
		"manifests": []descriptor{index}})
	if err != nil {
		return nil, err
	}
	older, err := json.Marshal(docker)
	if err != nil {
		return nil, err
	}
	content := map[string][]byte{"oci-layout": []byte(layoutVersion), "index.json": top,
		"manifest.json": older}
	for d, blob := range all {
		content[descriptor{Digest: d}.path()] = blob
	}
	return i.tar(content, 0o644)
}

// tar packs files in the order of their names, of root, with the time of the release.
func (i image) tar(content map[string][]byte, mode int64) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		header := &tar.Header{Name: name, Mode: mode, Size: int64(len(content[name])), ModTime: i.time}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
