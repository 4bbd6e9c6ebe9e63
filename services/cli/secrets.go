package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/secrets"
)

const secretsLong = `secrets makes certificates of one new CA, and gossip keys, and puts them into
Kubernetes' secrets or into files. The CA's key is kept nowhere. What is there already stays
as it is; if one of the certificates is missing, all of them are made anew.

The Helm chart runs it in a Job before each install and upgrade.`

const secretsExample = `  titrate secrets --dir secrets \
    --certificate coordinator=localhost,coordinator.example.org,10.0.0.7 \
    --certificate agent=agents.example.org --certificate admin=ops.example.org \
    --gossip-key gossip`

// newSecrets is the hidden command that the chart's Job runs.
func newSecrets() *cobra.Command {
	var (
		certificates []string
		wanted       secrets.Wanted
		labels       map[string]string
		dir          string
		cluster      bool
	)
	cmd := &cobra.Command{
		Use:     "secrets",
		Short:   "Make the certificates and the gossip key of an installation",
		Long:    secretsLong,
		Example: secretsExample,
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (dir == "") == !cluster {
				return command.Usagef("give one of --dir and --kubernetes")
			}
			for _, text := range certificates {
				name, names, ok := strings.Cut(text, "=")
				if !ok || name == "" || names == "" {
					return command.Usagef("--certificate %q: want SECRET=NAME,NAME…, such as agent=agents.example.org",
						text)
				}
				wanted.Certificates = append(wanted.Certificates,
					secrets.Certificate{Secret: name, Names: strings.Split(names, ",")})
			}
			return runSecrets(cmd, dir, labels, wanted)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&certificates, "certificate", nil,
		"SECRET=NAME,NAME…: a certificate for these DNS names and IP addresses; may be repeated, all are of one CA")
	f.StringArrayVar(&wanted.GossipKeys, "gossip-key", nil, "SECRET: a gossip key; may be repeated")
	f.StringVar(&dir, "dir", "", "directory that gets a directory for each secret")
	f.BoolVar(&cluster, "kubernetes", false, "put secrets into this pod's namespace")
	f.StringToStringVar(&labels, "labels", nil, "labels of Kubernetes' secrets, NAME=VALUE")
	return cmd
}

func runSecrets(cmd *cobra.Command, dir string, labels map[string]string, wanted secrets.Wanted) error {
	var place secrets.Place = secrets.Files(dir)
	if dir == "" {
		cluster, err := kubernetes.InCluster()
		if err != nil {
			return err
		}
		place = &secrets.Kubernetes{Cluster: cluster, Labels: labels}
	}
	made, kept, err := secrets.Make(cmd.Context(), place, wanted)
	for _, name := range made {
		fmt.Fprintln(cmd.OutOrStdout(), "made", name)
	}
	for _, name := range kept {
		fmt.Fprintln(cmd.OutOrStdout(), "kept", name)
	}
	return err
}
