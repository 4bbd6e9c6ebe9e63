package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/telemetry"
	"github.com/titrate/titrate/services/wording"
)

// tokenFile sends the token of a file with each call, as the file is at that moment.
type tokenFile string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (f tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := f.read()
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. tokenOptions sees to it.
func (tokenFile) RequireTransportSecurity() bool { return false }

// read returns the token. An error does not repeat what the file has.
func (f tokenFile) read() (string, error) {
	text, err := os.ReadFile(string(f))
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	words := strings.Fields(string(text))
	if len(words) != 1 {
		return "", fmt.Errorf("--token-file %s: %s in it: want the token and nothing else", f,
			wording.Count(len(words), "word"))
	}
	return words[0], nil
}

// tokenOptions make a connection send the token. Without TLS a token does not leave this machine.
func (c *connection) tokenOptions(security credentials.TransportCredentials) ([]grpc.DialOption, error) {
	if c.Token == "" {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(c.Server)
	if security.Info().SecurityProtocol == "insecure" && !telemetry.Loopback(host) {
		return nil,
			command.Usagef("--token-file: a token is not sent to %s without TLS, where anybody on the way could read "+
				"it: leave --insecure out, and give --tls-ca if the system does not know the coordinator's CA",
				c.Server)
	}
	if _, err := tokenFile(c.Token).read(); err != nil {
		return nil, command.Usage(err)
	}
	return []grpc.DialOption{grpc.WithPerRPCCredentials(tokenFile(c.Token))}, nil
}
