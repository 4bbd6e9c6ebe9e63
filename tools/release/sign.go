package main

import (
	"archive/tar"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// Signatures of images have cosign's format. For each manifest sha256:X a repository has an image with the tag
// sha256-X.sig; its one layer is the signed payload, with the signature as an annotation. They need a key only:
// no service, no log, no certificate. cosign itself is not used, since cosign signs images in a registry, and a
// release is made without a registry.
const (
	typeSigned      = "application/vnd.dev.cosign.simplesigning.v1+json"
	signature       = "dev.cosignproject.cosign/signature"
	signedType      = "cosign container image signature"
	refName         = "org.opencontainers.image.ref.name"
	signatureSuffix = ".sig"
)

// signed is the payload of a signature: it binds a manifest to an image name.
type signed struct {
	Critical struct {
		Identity struct {
			DockerReference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			DockerManifestDigest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional any `json:"optional"`
}

// manifest is the manifest of an image, or the index of several.
type manifest struct {
	MediaType string
	Manifests []descriptor
	Layers    []descriptor
}

// signatures is an archive with the signature of each manifest of an image's archive, the index
// first. It is an OCI layout in which each has the tag by which it is published.
func (i image) signatures(archive []byte, key *ecdsa.PrivateKey) ([]byte, error) {
	digests, err := manifestsOf(archive)
	if err != nil {
		return nil, err
	}
	all := blobs{}
	var tags []descriptor
	for _, digest := range digests {
		tag, err := i.sign(all, digest, key)
		if err != nil {
			return nil, err
		}
		tags = append(tags, tag)
	}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": tags})
	if err != nil {
		return nil, err
	}
	content := map[string][]byte{"oci-layout": []byte(layoutVersion), "index.json": top}
	for d, blob := range all {
		content[descriptor{Digest: d}.path()] = blob
	}
	return i.tar(content, 0o644)
}

// sign makes the image that is the signature of a manifest.
func (i image) sign(all blobs, of string, key *ecdsa.PrivateKey) (descriptor, error) {
	var s signed
	s.Critical.Identity.DockerReference, s.Critical.Image.DockerManifestDigest = i.name, of
	s.Critical.Type = signedType
	layer, err := all.addJSON(typeSigned, s)
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(all[layer.Digest])
	value, err := key.Sign(nil, sum[:], crypto.SHA256) // without randomness: the same bytes each time
	if err != nil {
		return descriptor{}, err
	}
	layer.Annotations = map[string]string{signature: base64.StdEncoding.EncodeToString(value)}
	config, err := all.addJSON(typeConfig, map[string]any{"architecture": "", "os": "", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}}})
	if err != nil {
		return descriptor{}, err
	}
	m, err := all.addJSON(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config,
		"layers": []descriptor{layer}})
	m.Annotations = map[string]string{refName: signatureTag(of)}
	return m, err
}

// signatureTag is the tag under which a registry has the signature of a manifest.
func signatureTag(digest string) string {
	return strings.Replace(digest, ":", "-", 1) + signatureSuffix
}

// verify checks that each manifest of an image's archive has a signature in another archive that a
// key has made. It returns their digests.
func verify(archive, signatures []byte, key *ecdsa.PublicKey) ([]string, error) {
	digests, err := manifestsOf(archive)
	if err != nil {
		return nil, err
	}
	files, top, err := openLayout(signatures)
	if err != nil {
		return nil, fmt.Errorf("signatures: %w", err)
	}
	for _, digest := range digests {
		tag := signatureTag(digest)
		at := slices.IndexFunc(top.Manifests, func(d descriptor) bool { return d.Annotations[refName] == tag })
		if at < 0 {
			return nil, fmt.Errorf("%s has no signature: there is no %s", digest, tag)
		}
		if err := verifyOne(files, top.Manifests[at], digest, key); err != nil {
			return nil, fmt.Errorf("the signature of %s: %w", digest, err)
		}
	}
	return digests, nil
}

// verifyOne checks one signature.
func verifyOne(files map[string][]byte, of descriptor, digest string, key *ecdsa.PublicKey) error {
	var m manifest
	if _, err := read(files, of, &m); err != nil {
		return err
	}
	if len(m.Layers) != 1 || m.Layers[0].MediaType != typeSigned {
		return fmt.Errorf("%s: want one layer of type %s", of.Digest, typeSigned)
	}
	var s signed
	payload, err := read(files, m.Layers[0], &s)
	if err != nil {
		return err
	}
	value, err := base64.StdEncoding.DecodeString(m.Layers[0].Annotations[signature])
	if err != nil {
		return fmt.Errorf("its annotation %s: %w", signature, err)
	}
	sum := sha256.Sum256(payload)
	switch {
	case !ecdsa.VerifyASN1(key, sum[:], value):
		return errors.New("another key has made it, or it was changed")
	case s.Critical.Image.DockerManifestDigest != digest || s.Critical.Type != signedType:
		return fmt.Errorf("it is of %s %q", s.Critical.Type, s.Critical.Image.DockerManifestDigest)
	}
	return nil
}

// manifestsOf are the digests of an archive's image and of what is in it for each architecture.
func manifestsOf(archive []byte) (digests []string, err error) {
	files, top, err := openLayout(archive)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	for open := top.Manifests; len(open) > 0; open = open[1:] {
		var m manifest
		if _, err := read(files, open[0], &m); err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
		digests, open = append(digests, open[0].Digest), append(open, m.Manifests...)
	}
	if len(digests) == 0 {
		return nil, errors.New("image: it names no manifest")
	}
	return digests, nil
}

// openLayout returns the files of an archive by name, and its index.
func openLayout(archive []byte) (files map[string][]byte, top manifest, err error) {
	files = map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, top, fmt.Errorf("no OCI archive: %w", err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			return nil, top, fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	if err := json.Unmarshal(files["index.json"], &top); err != nil {
		return nil, top, fmt.Errorf("no OCI archive: index.json: %w", err)
	}
	return files, top, nil
}

// read returns the content that a descriptor names, which has its digest, decoded into to.
func read(files map[string][]byte, d descriptor, to any) ([]byte, error) {
	content, ok := files[d.path()]
	if !ok || digest(content) != d.Digest {
		return nil, fmt.Errorf("%s is missing, or has another digest; there are %q", d.Digest,
			slices.Sorted(maps.Keys(files)))
	}
	if err := json.Unmarshal(content, to); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Digest, err)
	}
	return content, nil
}

// privateKey reads the first EC key of a PEM file, PKCS #8 or SEC 1.
func privateKey(path string) (*ecdsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for rest := content; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("%s: want an EC private key as PEM, without a passphrase", path)
		}
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			modern, _ := x509.ParsePKCS8PrivateKey(block.Bytes)
			key, _ = modern.(*ecdsa.PrivateKey)
		}
		if key != nil {
			return key, checkCurve(path, &key.PublicKey)
		}
	}
}

// publicKey reads an EC key from a PEM file.
func publicKey(path string) (*ecdsa.PublicKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(content); block != nil {
		if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
			if ec, ok := key.(*ecdsa.PublicKey); ok {
				return ec, checkCurve(path, ec)
			}
		}
	}
	return nil, fmt.Errorf("%s: want an EC public key as PEM", path)
}

// checkCurve refuses keys of other curves than cosign's own have: what cosign does with them is not tested.
func checkCurve(path string, key *ecdsa.PublicKey) error {
	if key.Curve != elliptic.P256() {
		return fmt.Errorf("%s: the key is of the curve %s, want P-256", path, key.Curve.Params().Name)
	}
	return nil
}
