package access

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// What a caller is known by; "" = nothing.
const (
	ByCertificate = "certificate"
	ByToken       = "token"
	ByJWT         = "JWT"
)

// Caller is the caller's name and rights, by its credential.
type Caller struct {
	Name    string    // for people, the history and the audit log
	By      string    // ByCertificate, ByToken, ByJWT or ""
	Expires time.Time // of a token; zero = never

	ids     []string // of a certificate
	subject string   // of a JWT
	own     []Grant  // that the token itself has
	grants  []Grant  // all that it had when its call was let through
	lacks   string   // why a JWT itself has no grant
}

// sentToken reports whether the caller is known by a token, and not by its connection.
func (c *Caller) sentToken() bool { return c.By == ByToken || c.By == ByJWT }

// callerKey is the key of the Caller in the context of a call that was let through.
type callerKey struct{}

// Who names a caller for people.
func Who(ctx context.Context) string { return callerOf(ctx).Name }

// Minor reports whether the caller changes things as an editor, and not as an administrator.
func Minor(ctx context.Context) bool {
	has := func(role Role) bool {
		return slices.ContainsFunc(callerOf(ctx).grants, func(g Grant) bool { return g.Role == role })
	}
	return has(Editor) && !has(Admin)
}

// callerOf is the caller of a call that was let through; without a guard, what is known of the connection.
func callerOf(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return connected(ctx)
}

// connected is the caller that the certificate of a connection names.
func connected(ctx context.Context) *Caller {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return &Caller{Name: "unknown"}
	}
	if c := chain(ctx); len(c) > 0 {
		if ids := identities(c[0]); len(ids) > 0 {
			return &Caller{Name: strings.Join(ids, " "), By: ByCertificate, ids: ids}
		}
	}
	if p.Addr == nil {
		return &Caller{Name: "unknown"}
	}
	return &Caller{Name: "no certificate, " + p.Addr.String()}
}

// chain returns a caller's verified certificate and its signers' certificates, nil without one.
func chain(ctx context.Context) []*x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0]
}

// bearer is the token that a call carries; given is false if it carries none.
func bearer(ctx context.Context) (token string, given bool, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	if len(values) == 0 {
		return "", false, nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case len(values) > 1:
		return "", true, errors.New("the call carries more than one authorization: want one")
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", true, errors.New("the call's authorization is not \"Bearer TOKEN\"")
	}
	return token, true, nil
}

// byToken is the caller whose token it is. An error says why the token is not good, and does not repeat it.
func (g *Guard) byToken(token string) (*Caller, error) {
	now := time.Now()
	if g.tokens != nil {
		if t := find(g.tokens.current(), token); t != nil {
			return t.caller(now)
		}
	}
	switch {
	case g.jwts != nil:
		c, err := g.jwts.caller(token, now)
		if err == nil {
			c.Name = strings.Map(visible, c.Name)
		}
		return c, err
	case g.tokens != nil:
		return nil, errors.New("the token is none of the coordinator's --tokens")
	}
	return nil, errors.New("this coordinator takes no tokens: it has neither --tokens nor --jwks")
}

// visible replaces what logs and terminals would not show.
func visible(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}
