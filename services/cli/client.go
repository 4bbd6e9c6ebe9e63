package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/pause"
	"github.com/titrate/titrate/services/telemetry"
)

const (
	defaultServer = "127.0.0.1:7400"
	serverEnv     = "TITRATE_SERVER"
	tokenEnv      = "TITRATE_TOKEN_FILE"
	// defaultTimeout bounds one request. It is above the time after which a coordinator without etcd says so
	// (store.Timeout). With a shorter --timeout the coordinator gives up earlier and still says so (quota.InTime).
	defaultTimeout = 5 * time.Second
)

// connection is the way to a coordinator, by the flags, and the additions of resolve.
type connection struct {
	settings
	named   string // context
	timeout time.Duration

	set  *pflag.FlagSet
	from map[string]string // what has said each setting, by its flag
}

func (c *connection) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	c.set = f
	f.StringVar(&c.named, "context", "",
		"context with the coordinator to ask, see titrate config; "+contextEnv+" sets the default")
	_ = cmd.RegisterFlagCompletionFunc("context", completeContexts)
	f.DurationVar(&c.timeout, "timeout", defaultTimeout, "longest wait for an answer")
	c.settingsFlags(f)
}

// settingsFlags adds the flags for the settings that a context has.
func (c *connection) settingsFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Server, "server", defaultServer, "coordinator to ask, host:port; "+serverEnv+" sets the default")
	f.StringVar(&c.Token, "token-file", "",
		"file with a token to send to the coordinator, over TLS or on this machine; "+tokenEnv+" sets the default")
	f.StringVar(&c.CA, "tls-ca", "",
		"PEM file with the CA that signed the coordinator's certificate (default the system's)")
	f.StringVar(&c.Cert, "tls-cert", "", "PEM file with the certificate to show to the coordinator")
	f.StringVar(&c.Key, "tls-key", "", "PEM file with the key of --tls-cert")
	f.BoolVar(&c.Insecure, "insecure", false, "speak without TLS to a coordinator that is not on this machine")
}

// client is a connected QuotaService that bounds and words its failures.
type client struct {
	quotav1.QuotaServiceClient
	access quotav1.AccessServiceClient
	conn   *grpc.ClientConn
	server string
	limit  time.Duration
	tls    bool
	shown  telemetry.Security // what is shown to the coordinator
	token  string             // file of the token that is sent; empty: none
}

// maxDetails bounds the status of a call, bytes: it names each document that was refused.
const maxDetails = "8000000"

// atLeader sends calls to the leader, of the coordinators that the name of --server stands for: only the leader serves
// the control stream, and says so as its health.
const atLeader = `{"loadBalancingConfig": [{"round_robin": {}}],
	"healthCheckConfig": {"serviceName": "titrate.control.v1alpha1.ControlService"}}`

// use opens a connection, calls do with it, and closes it.
func (c *connection) use(do func(*client) error) error {
	client, err := c.dial()
	if err != nil {
		return err
	}
	defer client.close()
	return do(client)
}

// dial makes a client; it connects with the first request.
func (c *connection) dial(more ...grpc.DialOption) (*client, error) {
	if err := c.resolve(); err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(c.Server); err != nil {
		return nil, command.Usagef("--server %q: want host:port, such as %s", c.Server, defaultServer)
	}
	if c.timeout <= 0 {
		return nil, command.Usagef("--timeout %s must be above 0", c.timeout)
	}
	security, err := c.credentials()
	if err != nil {
		return nil, command.Usage(err)
	}
	out := &client{server: c.target(), limit: c.timeout, token: c.Token,
		tls: security.Info().SecurityProtocol == "tls", shown: telemetry.Security{Cert: c.Cert, Key: c.Key}}
	options, err := c.tokenOptions(security)
	if err != nil {
		return nil, err
	}
	options = append(options, more...)
	out.conn, err = grpc.NewClient(c.Server, append(options, grpc.WithTransportCredentials(security),
		// that of the resolver: its DNS question hangs on networks that are cut off from the world
		grpc.WithDisableServiceConfig(),
		// an answer to apply echoes all with their status
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(4*maxApplyBytes)),
		grpc.WithUnaryInterceptor(out.bound))...)
	if err != nil {
		return nil, fmt.Errorf("--server %s: %w", c.Server, err)
	}
	out.QuotaServiceClient = quotav1.NewQuotaServiceClient(out.conn)
	out.access = quotav1.NewAccessServiceClient(out.conn)
	return out, nil
}

// credentials are TLS when TLS files are given or the coordinator is elsewhere,
// unless --insecure says otherwise.
func (c *connection) credentials() (credentials.TransportCredentials, error) {
	given, err := telemetry.Security{CA: c.CA, Cert: c.Cert, Key: c.Key}.TLSCredentials()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(c.Server)
	switch {
	case given != nil && c.Insecure:
		return nil, errors.New("--insecure contradicts the --tls flags: give one or the other")
	case given != nil:
		return given, nil
	case c.Insecure || telemetry.Loopback(host):
		return insecure.NewCredentials(), nil
	}
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), nil
}

func (c *client) close() { _ = c.conn.Close() }

// bound gives each request its time, and its failure words.
func (c *client) bound(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	limited = metadata.AppendToOutgoingContext(limited, intake.DetailsKey, maxDetails)
	var answered peer.Peer
	err := invoke(limited, method, request, reply, conn, append(opts, grpc.Peer(&answered))...)
	if id := requestID(request); id != "" && answered.Addr != nil {
		err = c.again(limited, id, err, func() error {
			return invoke(limited, method, request, reply, conn, append(opts, grpc.WaitForReady(true))...)
		})
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	switch s := status.Convert(err); {
	case s.Code() == codes.DeadlineExceeded:
		return &unreachable{server: c.server, why: fmt.Sprintf("no answer within %s", c.limit)}
	case s.Code() == codes.Unavailable && conn.GetState() != connectivity.Ready:
		return &unreachable{server: c.server, why: cause(s.Message()), tls: c.tls, expired: c.expired()}
	case s.Code() == codes.Unauthenticated && c.token != "":
		return status.Errorf(s.Code(), "%s\n--token-file %s is refused by the coordinator at %s: ask its operators "+
			"for a token that is in its --tokens and has not ended, or for a JWT of its issuer.",
			s.Message(), c.token, c.server)
	default:
		return cmp.Or(c.guess(ctx, s), err)
	}
}

// requestID is the ID of a request that makes a change and can be repeated, "" of others.
func requestID(request any) string {
	if r, ok := request.(interface{ GetValidateOnly() bool }); ok && r.GetValidateOnly() {
		return ""
	}
	if r, ok := request.(interface{ GetRequestId() string }); ok {
		return r.GetRequestId()
	}
	return ""
}

// between is the time from a failure to the next attempt of a request that has an ID.
const between = 200 * time.Millisecond

// again repeats a request whose answer, err, was lost after it was sent, until it is answered or ctx ends.
// The coordinator knows it by its ID, so that it acts once.
func (c *client) again(ctx context.Context, id string, err error, repeat func() error) error {
	lost := &unsure{server: c.server, limit: c.limit, id: id}
	for ; ; err = repeat() {
		switch status.Code(err) {
		case codes.Unavailable:
			lost.why = cause(status.Convert(err).Message())
		case codes.DeadlineExceeded: // ctx says so, too
		default:
			return err
		}
		if !pause.For(ctx, between) {
			return lost
		}
	}
}

// unsure is the failure of a request of which it is not known whether it was carried out.
type unsure struct {
	server string
	limit  time.Duration
	why    string // of the last attempt, empty if the first one was not answered
	id     string // with which the command can be repeated
}

func (e *unsure) Error() string {
	again := ""
	if e.why != "" {
		again = ", though it was asked again: " + e.why
	}
	return fmt.Sprintf("whether the change was made is not known: the coordinator at %s took the request and could "+
		"not say within %s%s\nThe same command with --request-id %s makes the change if it was not made, and says "+
		"what it did if it was", e.server, e.limit, again, e.id)
}

// requestFlag is --request-id.
func requestFlag(f *pflag.FlagSet, id *string) {
	f.StringVar(id, "request-id", "", "ID of the change: repeated with it, the command answers as the first time and "+
		"changes nothing (default a new one)")
}

// expired says that the certificate which is shown has expired, empty if it has not. If a coordinator turns a
// certificate down, gRPC may report no more than a broken pipe.
func (c *client) expired() string {
	v, err := c.shown.Validity()
	if err != nil || v.File == "" || time.Now().Before(v.Until) {
		return ""
	}
	return fmt.Sprintf("%s expired at %s", v.File, v.Until.UTC().Format(time.RFC3339))
}

// unreachable is the failure to talk to a coordinator at all.
type unreachable struct {
	server, why string
	tls         bool   // TLS was tried
	expired     string // why the certificate that was shown is not good, empty if it may be
}

func (e *unreachable) Error() string {
	return fmt.Sprintf("cannot reach the coordinator at %s: %s\n%s", e.server, e.why, e.advice())
}

func (e *unreachable) advice() string {
	switch {
	case e.expired != "":
		return e.expired + ": give --tls-cert and --tls-key a certificate that is good now."
	case e.turnedDown():
		return "It wants a certificate that is signed by the CA in its own --tls-ca: give --tls-cert and --tls-key."
	case strings.Contains(e.why, "first record does not look like a TLS handshake"):
		return "It speaks without TLS: leave the --tls flags out, or say --insecure if it is not on this machine."
	case strings.Contains(e.why, "frame too large"):
		return "What answers there speaks no gRPC in the clear: name the coordinator's --listen port, not its " +
			"--admin; or give --tls-ca if it wants TLS."
	case strings.Contains(e.why, "server preface"):
		return "It may want TLS: give --tls-ca with the CA that signed its certificate."
	case strings.Contains(e.why, "certificate has expired or is not yet valid"):
		return "That is the coordinator's own certificate: renew the file of its --tls-cert, which it reads again " +
			"without a restart. If the time is wrong, look at the clocks."
	case strings.Contains(e.why, "certificate") || strings.Contains(e.why, "x509"):
		return "Give --tls-ca with the CA that signed its certificate, and --tls-cert and --tls-key if it wants yours."
	}
	return "Is it running? Start one with `titrate-lab dev --no-load` or `titrate coordinator`, or name another with " +
		"--server or " + serverEnv + "."
}

// turnedDown reports that the coordinator did not take the certificate, or the lack of one. Its alert may
// be lost when it closes the connection.
func (e *unreachable) turnedDown() bool {
	for _, alert := range []string{"certificate required", "unknown certificate authority", "bad certificate"} {
		if strings.Contains(e.why, "remote error: tls: "+alert) {
			return true
		}
	}
	return e.tls && (strings.Contains(e.why, "broken pipe") || strings.Contains(e.why, "connection reset"))
}

var lastCause = regexp.MustCompile(`desc = "?(?:transport: )?(?:[Ee]rror while dialing: )?` +
	`(?:dial tcp [^ ]*: )?(?:connect: )?(?:authentication handshake failed: )?([^"]*)"?$`)

// cause takes what happened out of gRPC's message.
func cause(message string) string {
	if strings.Contains(message, "health check failed") { // see atLeader
		return "no coordinator there leads"
	}
	if found := lastCause.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return message
}

// worded turns the status of a request into an error for a person.
func worded(err error) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(s.Message())
	}
	return err
}
