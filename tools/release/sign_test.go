package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// anImage is an archive for two architectures.
func anImage(t *testing.T, text string) []byte {
	t.Helper()
	var args []string
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(t.TempDir(), arch)
		if err := os.WriteFile(file, []byte(text+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, arch+"=/titrate="+file)
	}
	archive, err := example.archive(args)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func changed(content []byte, from, to string) []byte {
	return bytes.ReplaceAll(content, []byte(from), []byte(to))
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Index and architectures are signed, by tags that cosign looks for, and the same each time.
func TestSignatures(t *testing.T) {
	archive, key := anImage(t, "program for "), newKey(t)
	signatures, err := example.signatures(archive, key)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := example.signatures(archive, key); !bytes.Equal(again, signatures) {
		t.Error("the same input gives other bytes")
	}
	digests, err := verify(archive, signatures, &key.PublicKey)
	if err != nil || len(digests) != 3 {
		t.Fatalf("%d digests, want those of the index and of two architectures: %v", len(digests), err)
	}
	_, top, err := openLayout(signatures)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range top.Manifests {
		if want := "sha256-" + strings.TrimPrefix(digests[i], "sha256:") + ".sig"; m.Annotations[refName] != want {
			t.Errorf("tag %q, want %s", m.Annotations[refName], want)
		}
	}
	if got := string(untar(t, signatures)["oci-layout"]); got != layoutVersion {
		t.Errorf("layout %s", got)
	}
}

func TestWhatIsNotSigned(t *testing.T) {
	archive, key, other := anImage(t, "program for "), newKey(t), newKey(t)
	signatures, err := example.signatures(archive, key)
	if err != nil {
		t.Fatal(err)
	}
	byOther, err := example.signatures(archive, other)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		archive, signatures []byte
		want                string
	}{
		"another image": {anImage(t, "another program for "), signatures, "has no signature"},
		"another key":   {archive, byOther, "another key has made it"},
		"a changed one": {archive,
			changed(signatures, `"docker-reference":"t`, `"docker-reference":"x`), "has another digest"},
		"a changed image": {changed(archive, "v1.2.3", "v6.6.6"), signatures, "has another digest"},
		"no signatures":   {archive, []byte("none"), "no OCI archive"},
		"no image":        {nil, signatures, "no OCI archive"},
	} {
		if _, err := verify(c.archive, c.signatures, &key.PublicKey); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want that it %s", name, err, c.want)
		}
	}
	moved := slices.Clone(signatures) // the signature of one manifest under the tag of another
	_, top, _ := openLayout(signatures)
	a, b := top.Manifests[0].Annotations[refName], top.Manifests[1].Annotations[refName]
	moved = bytes.Replace(moved, []byte(a), []byte(b), 1)
	if i := bytes.LastIndex(moved, []byte(b)); i > 0 {
		copy(moved[i:], a)
	}
	if _, err := verify(archive, moved, &key.PublicKey); err == nil || !strings.Contains(err.Error(), "it is of") {
		t.Errorf("signatures that are exchanged: %v", err)
	}
}

func TestKeys(t *testing.T) {
	dir, key := t.TempDir(), newKey(t)
	file := func(name, kind string, content []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	modern := file("pkcs8", "PRIVATE KEY", pkcs8, err)
	sec1, err := x509.MarshalECPrivateKey(key)
	older := file("sec1", "EC PRIVATE KEY", sec1, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	pub := file("pub", "PUBLIC KEY", public, err)
	for _, path := range []string{modern, older} {
		if got, err := privateKey(path); err != nil || !got.Equal(key) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got, err := publicKey(pub); err != nil || !got.Equal(&key.PublicKey) {
		t.Error(err)
	}
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err = x509.MarshalPKCS8PrivateKey(strange)
	other := file("rsa", "PRIVATE KEY", pkcs8, err)
	if _, err := privateKey(other); err == nil || !strings.Contains(err.Error(), "want an EC private key") {
		t.Errorf("an RSA key: %v", err)
	}
	for curve, named := range map[elliptic.Curve]string{elliptic.P224(): "P-224", elliptic.P384(): "P-384"} {
		strange, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(strange)
		private := file("private "+named, "PRIVATE KEY", pkcs8, err)
		public, err := x509.MarshalPKIXPublicKey(&strange.PublicKey)
		pub := file("public "+named, "PUBLIC KEY", public, err)
		_, errPrivate := privateKey(private)
		_, errPublic := publicKey(pub)
		for _, err := range []error{errPrivate, errPublic} {
			if err == nil || !strings.Contains(err.Error(), "of the curve "+named+", want P-256") {
				t.Errorf("a key of %s: %v", named, err)
			}
		}
	}
	if _, err := publicKey(modern); err == nil || !strings.Contains(err.Error(), "want an EC public key") {
		t.Errorf("a private key as the public one: %v", err)
	}
}

// TestCosignVerifies has cosign check the signatures in a registry, as a user does. COSIGN_BIN is
// the program: go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3.
func TestCosignVerifies(t *testing.T) {
	cosign := os.Getenv("COSIGN_BIN")
	if cosign == "" {
		t.Skip("COSIGN_BIN is not set")
	}
	archive, key := anImage(t, "program for "), newKey(t)
	signatures, err := example.signatures(archive, key)
	if err != nil {
		t.Fatal(err)
	}
	registry := httptest.NewServer(registryOf(t, archive, signatures))
	defer registry.Close()
	for name, c := range map[string]struct {
		key *ecdsa.PrivateKey
		ok  bool
	}{"the key": {key, true}, "another key": {newKey(t), false}} {
		public, err := x509.MarshalPKIXPublicKey(&c.key.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "pub.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), cosign, "verify", "--key", file, "--insecure-ignore-tlog=true",
			"--allow-insecure-registry", strings.TrimPrefix(registry.URL, "http://")+"/titrate/titrate:v1.2.3").
			CombinedOutput()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// registryOf returns a handler that answers as a registry with the contents of archives.
func registryOf(t *testing.T, archives ...[]byte) http.Handler {
	t.Helper()
	blobs, tags := map[string][]byte{}, map[string]string{}
	for _, archive := range archives {
		files, top, err := openLayout(archive)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			blobs[strings.Replace(strings.TrimPrefix(name, "blobs/"), "/", ":", 1)] = content
		}
		for _, m := range top.Manifests {
			tags[m.Annotations[refName]] = m.Digest
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of, ref := path.Split(r.URL.Path)
		if d, ok := tags[ref]; ok {
			ref = d
		}
		content, ok := blobs[ref]
		switch {
		case r.URL.Path == "/v2/":
			return
		case !ok:
			http.NotFound(w, r)
			return
		}
		var m manifest
		if strings.HasSuffix(of, "/manifests/") && json.Unmarshal(content, &m) == nil {
			w.Header().Set("Content-Type", m.MediaType)
		}
		w.Header().Set("Docker-Content-Digest", ref)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}
