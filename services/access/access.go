// Package access decides who may call what on a coordinator, by what the caller shows: a
// client certificate, a bearer token of a file, or a JWT.
//
// # Model
//
// A caller's credential gives it a name and roles. A call with a token (metadata
// "authorization: Bearer …") is that token's, whatever certificate its connection has; a
// token that is not good is refused, and the certificate does not help.
//
//	credential    name            roles
//	certificate   its URIs and    the roles that the policy grants to one of them
//	              DNS names
//	token         token:NAME      the role in the token file
//	JWT           jwt:SUBJECT     the roles of its claims, and those granted by the policy to
//	                              its subject
//
// The identities of a certificate are its URIs (SPIFFE) and DNS names. A policy file grants
// roles to identities and subjects:
//
//	grants:
//	  - {id: "spiffe://example.org/titrate/agent/*", role: agent}
//	  - {id: agents.example.org, role: agent, names: ["gateway-*"]}
//	  - {id: "spiffe://example.org/team/acme", role: editor, tenants: [acme]}
//	  - {subject: alice@example.org, role: editor, tenants: [acme]}
//	  - {subject: portal@acme.example, role: tenant-viewer, tenants: [acme]}
//	  - {id: "*", role: viewer}
//
//	role            may
//	agent           open the control stream, under its own name or one of names
//	tenant-viewer   read the named tenants with their quotas and limits: get, list, why, top, usage
//	viewer          read: get, list, why, top, usage, history
//	editor          read, and change the named tenants with their quotas and limits
//	admin           read and change everything, and roll back
//
// The grant of an editor may have a ceiling, see Ceiling. Of several grants for a resource it is
// enough that one allows a change.
//
// A star in an id, a subject or a name stands for anything; an id without "://" other than
// "*" is one of DNS names. An agent's own name is the last path segment of its URI, its DNS
// name, or the first label of that. Agents show certificates: no token makes an agent.
//
// Without a file a certificate is an agent's if its URI ends with /agent/NAME or its DNS name begins with NAME and
// "agent" as the first two labels. Of the other calls only those of the admins in the settings, and of callers with
// tokens, are allowed.
//
// # Invariants
//
//   - What no grant allows is refused; a method without a rule is refused to all.
//   - A file (policy, tokens, keys) that cannot be read leaves what was read before in
//     force; Trouble says so.
//   - No token is written anywhere, and the file of tokens has only their SHA-256.
//   - A stream ends within reviewEvery after its grant is gone, its certificate has
//     expired, or the CA of its certificate is no longer trusted.
package access

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// Role is the set of calls that a grant allows.
type Role string

// The roles.
const (
	Agent        Role = "agent"
	TenantViewer Role = "tenant-viewer"
	Viewer       Role = "viewer"
	Editor       Role = "editor"
	Admin        Role = "admin"
)

// Grant gives a role to the callers whose certificate has the identity, or whose JWT has the subject.
type Grant struct {
	ID      string   `yaml:"id"`
	Subject string   `yaml:"subject"`
	Role    Role     `yaml:"role"`
	Tenants []string `yaml:"tenants"` // of an editor or a tenant-viewer
	Ceiling *Ceiling `yaml:"ceiling"` // of an editor; nil = it may give anything
	// TakeOver lets an editor take resources from the set that owns them (apply --overwrite).
	TakeOver bool `yaml:"takeOver"`
	// Names that an agent may have; none = its own only.
	Names []string `yaml:"names"`
}

// withoutPolicy are the grants where there is no policy file.
var withoutPolicy = []Grant{{ID: "spiffe://*/agent/*", Role: Agent}, {ID: "*.agent.*", Role: Agent}}

// Policy is a list of grants. The zero value allows nothing.
type Policy struct {
	Grants []Grant `yaml:"grants"`
}

// Read reads a policy file. Unknown fields, roles and editors of nothing are errors.
func Read(path string) (*Policy, error) { return fromFile(path, parsePolicy) }

func parsePolicy(text []byte) (*Policy, error) {
	p := &Policy{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(p); err != nil {
		return nil, err
	}
	for i := range p.Grants {
		if err := p.Grants[i].check(); err != nil {
			return nil, fmt.Errorf("grants[%d]: %w", i, err)
		}
	}
	return p, nil
}

// check reports what is wrong with a grant of a policy.
func (g *Grant) check() error {
	switch {
	case g.ID == "" && g.Subject == "":
		return errors.New("id is missing: want a URI or DNS name of a certificate, or subject, that of a JWT")
	case g.ID != "" && g.Subject != "":
		return errors.New("id is of certificates and subject of JWTs: want one of them")
	case !slices.Contains([]Role{Agent, TenantViewer, Viewer, Editor, Admin}, g.Role):
		return fmt.Errorf("role %q: want agent, tenant-viewer, viewer, editor or admin", g.Role)
	case g.Role == Agent && g.ID == "":
		return errors.New("an agent shows a certificate: want id")
	case g.Role != Agent && len(g.Names) > 0:
		return errors.New("only an agent has names")
	}
	return checkTenants(g.Role, g.Tenants, g.Ceiling, g.TakeOver)
}

// checkTenants refuses a role of named tenants that names none, and what another role does not have.
func checkTenants(role Role, tenants []string, ceiling *Ceiling, takeOver bool) error {
	switch {
	case (role == Editor || role == TenantViewer) != (len(tenants) > 0):
		return errors.New("an editor and a tenant-viewer have tenants, and nobody else")
	case role == TenantViewer && slices.ContainsFunc(tenants, notTenant):
		return fmt.Errorf("a tenant-viewer of %s: want IDs of tenants (%s)", wording.Quote(strings.Join(tenants, ", ")),
			resource.IDRule)
	case takeOver && role != Editor:
		return errors.New("takeOver is of an editor: an administrator may take over anything, and nobody else")
	}
	return ceiling.check(role)
}

// of returns the grants of a caller.
func (p *Policy) of(c *Caller) []Grant {
	out := slices.Clone(c.own)
	for _, g := range p.Grants {
		if slices.ContainsFunc(c.ids, g.matches) || g.Subject != "" && c.subject != "" && like(g.Subject, c.subject) {
			out = append(out, g)
		}
	}
	return out
}

// matches reports whether a grant is for an identity of a certificate.
func (g *Grant) matches(id string) bool {
	if g.ID == "" || g.ID != "*" && strings.Contains(id, "://") != strings.Contains(g.ID, "://") {
		return false
	}
	return like(g.ID, id)
}

// like reports whether s is as the pattern says, in which a star stands for anything.
func like(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return s == pattern
	}
	rest, ok := strings.CutPrefix(s, parts[0])
	for _, part := range parts[1:last] {
		if i := strings.Index(rest, part); ok && i >= 0 {
			rest = rest[i+len(part):]
		} else {
			ok = false
		}
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

// mayBe reports whether a caller with the identities may be the agent called name.
func (p *Policy) mayBe(ids []string, name string) bool {
	for _, g := range p.Grants {
		for _, id := range ids {
			if g.Role != Agent || !g.matches(id) {
				continue
			}
			if len(g.Names) == 0 && ownName(id, name) ||
				name != "" && slices.ContainsFunc(g.Names, func(pattern string) bool { return like(pattern, name) }) {
				return true
			}
		}
	}
	return false
}

// identities are the URIs and DNS names of a certificate.
func identities(c *x509.Certificate) (ids []string) {
	for _, u := range c.URIs {
		ids = append(ids, u.String())
	}
	return append(ids, c.DNSNames...)
}

// ownName reports whether an identity belongs to the agent called name.
func ownName(id, name string) bool {
	if name == "" {
		return false
	}
	if scheme, path, is := strings.Cut(id, "://"); is && scheme != "" {
		return path[strings.LastIndexByte(path, '/')+1:] == name
	}
	label, _, _ := strings.Cut(id, ".")
	return id == name || label == name
}

// allowed reports whether the grants allow what a method needs on the named resources.
func allowed(grants []Grant, need Role, names []string) bool {
	for _, g := range grants {
		switch {
		case g.Role == need, need == Viewer && (g.Role == Editor || g.Role == Admin), need == Editor && g.Role == Admin:
			if g.Role != Editor || need == Viewer {
				return true
			}
		}
	}
	return need == Editor && len(names) > 0 &&
		!slices.ContainsFunc(names, func(name string) bool { return !edits(grants, name) })
}

// edits reports whether an editor's grant covers a resource.
func edits(grants []Grant, name string) bool {
	parts := strings.Split(name, "/")
	return len(parts) >= 2 && parts[0] == "tenants" && slices.ContainsFunc(grants, func(g Grant) bool {
		return g.Role == Editor && slices.Contains(g.Tenants, parts[1])
	})
}
