package envoytest

import (
	"debug/elf"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// functions returns the functions that Envoy's binary exports to modules.
func functions(t *testing.T) map[string]bool {
	t.Helper()
	f, err := elf.Open(needEnvoy(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{}
	for _, s := range symbols {
		if name, ok := strings.CutPrefix(s.Name, "envoy_dynamic_module_callback_"); ok {
			exported[name] = s.Section != elf.SHN_UNDEF
		}
	}
	return exported
}

// declared returns the functions of one list in abi.h.
func declared(t *testing.T, list string) (names []string) {
	t.Helper()
	header, err := os.ReadFile("../shim/abi.h")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(header), "#define "+list+"(X)")
	text, _, _ = strings.Cut(text, "\n\n")
	for _, m := range regexp.MustCompile(`(?m)^  X\([^,]+, (\w+),`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	if !found || len(names) == 0 {
		t.Fatalf("abi.h has no list %s that the pattern fits", list)
	}
	return names
}

// version is the Envoy's, such as "1.40".
func version(t *testing.T) string {
	t.Helper()
	said, err := exec.Command(needEnvoy(t), "--version").Output()
	found := regexp.MustCompile(`/(\d+\.\d+)\.\d+`).FindSubmatch(said)
	if err != nil || found == nil {
		t.Fatalf("envoy --version: %q, %v", said, err)
	}
	return string(found[1])
}

// Envoy exports each function that abi.h declares; Envoys before 1.40 lack the optional ones only.
func TestSymbols(t *testing.T) {
	t.Parallel()
	exported := functions(t)
	for _, name := range declared(t, "TITRATE_ABI") {
		if !exported[name] {
			t.Errorf("this Envoy does not export %s", name)
		}
	}
	for list, since := range map[string]string{"TITRATE_ABI_OPTIONAL": "1.40", "TITRATE_ABI_OPTIONAL_1_39": "1.39"} {
		want := version(t) >= since
		for _, name := range declared(t, list) {
			if exported[name] != want {
				t.Errorf("this Envoy exports %s: %v, want %v", name, exported[name], want)
			}
		}
	}
}

// before140 returns whether the Envoy is older than 1.40.
func before140(t *testing.T) bool { return version(t) < "1.40" }

// needPeer skips a test that needs an Envoy that gives modules the peer's address.
func needPeer(t *testing.T) {
	t.Helper()
	if before140(t) {
		t.Skip("this Envoy does not give modules the peer's address (TestOlderEnvoysRefuse)")
	}
}

// needRedirects skips a test that needs an Envoy in which the streams of an internal redirect can be
// recognised. Before 1.39 each stream is charged.
func needRedirects(t *testing.T) {
	t.Helper()
	if version(t) < "1.39" {
		t.Skip("in this Envoy each stream of an internal redirect is charged (docs/compatibility.md)")
	}
}

// withoutVirtualHost replaces the virtual host's name by a literal in an Envoy that does not give it to
// modules.
func withoutVirtualHost(t *testing.T) []edit {
	t.Helper()
	if !before140(t) {
		return nil
	}
	return []edit{{"tenant: { virtual_host: true }", "tenant: { literal: shop }"}}
}

// ofPeers are the fields of identity-address.yaml that need the peer's address.
var ofPeers = []edit{
	{"address: { source_address: {} }", "address: { header: x-address }"},
	{"network: { source_address: { ipv4_prefix: 24, ipv6_prefix: 48 } }", "network: { header: x-network }"},
	{"forwarded: { source_address: { trusted_hops: 2 } }", "forwarded: { header: x-forwarded-for }"},
}

// An Envoy before 1.40 refuses each field that needs 1.40, by its name.
func TestOlderEnvoysRefuse(t *testing.T) {
	t.Parallel()
	if !before140(t) {
		t.Skip("this Envoy is not older than 1.40")
	}
	for field, l := range map[string]launch{
		"identities.address.source_address":   {example: "identity-address.yaml", edits: ofPeers[1:]},
		"identities.network.source_address":   {example: "identity-address.yaml", edits: []edit{ofPeers[0], ofPeers[2]}},
		"identities.forwarded.source_address": {example: "identity-address.yaml", edits: ofPeers[:2]},
		"tenant.virtual_host":                 {example: "overrides.yaml"},
	} {
		l.concurrency = 1
		e := l.spawn(t)
		select {
		case <-e.exited:
		case <-time.After(30 * time.Second):
			t.Fatalf("Envoy runs with %s, which it cannot serve:\n%s", field, e.log)
		}
		if !strings.Contains(e.log.String(), "titrate: field "+field+" ") {
			t.Errorf("the log does not name %s:\n%s", field, e.log)
		}
	}
}

// The advice in the refusal works in every Envoy: from: ENVOY, together with use_remote_address.
func TestEnvoysAddress(t *testing.T) {
	t.Parallel()
	s := scenario{
		example: "identity-address.yaml",
		edits:   append([]edit{{"tenant: { literal: acme }", "tenant: { header: x-tenant }"}}, ofPeers...),
		tenants: []config.Tenant{tenant("envoy", by("envoy", 1))},
		steps: []step{
			{"an address", "/", headers("x-tenant", "envoy", "x-forwarded-for", "192.0.2.1"), 200, "127.0.0.1"},
			{"the same, whatever it says", "/", headers("x-tenant", "envoy", "x-forwarded-for", "192.0.2.2"), 429,
				"127.0.0.1"},
			{"another one", "/", headers("x-tenant", "envoy"), 200, "127.0.0.2"},
		},
	}
	s.run(t, 1)
}
