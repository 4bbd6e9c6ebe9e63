package dev

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/titrate/titrate/lab/dev/local"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

// DemoDocument is the configuration that is applied, as YAML documents.
//
//go:embed demo.yaml
var DemoDocument []byte

// DemoClasses is the class of requests that DemoDocument names, for local.Envoy's Also.
const DemoClasses = `
                          classes:
                          - name: exact
                            match:
                            - headers: [{name: x-client, exact: exact}]
                            - headers: [{name: x-client, exact: within}]`

// demoResources reads DemoDocument.
func demoResources() ([]*quotav1.Resource, error) {
	documents, err := document.Parse("demo.yaml", DemoDocument)
	if err != nil {
		return nil, err
	}
	var all []*quotav1.Resource
	for _, d := range documents {
		all = append(all, resource.Of(d.Resource))
	}
	return all, nil
}

// dial opens a connection to the coordinator.
func (w *Installation) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient(local.Address(w.ports.coordinator), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// configure applies the demo's documents as `titrate apply` does.
func (w *Installation) configure(ctx context.Context) error {
	resources, err := demoResources()
	if err != nil {
		return err
	}
	conn, err := w.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	applied, err := quotav1.NewQuotaServiceClient(conn).Apply(ctx, &quotav1.ApplyRequest{Resources: resources},
		grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("apply demo.yaml: %w", err)
	}
	w.revision = applied.GetRevision()
	return nil
}

// awaitEnforcement waits until every gateway has the configuration that was
// applied, and shares from a leader.
func (w *Installation) awaitEnforcement(ctx context.Context) error {
	return w.each(ctx, func(ctx context.Context, i int, _ string) error {
		return w.envoys[i].Ready(ctx, func(ctx context.Context) error {
			stats, err := w.stats(ctx, i)
			if err != nil {
				return err
			}
			revision, epoch := stats["titrate_config_revision"], stats["titrate_shares_epoch"]
			if revision < w.revision || epoch == 0 {
				return fmt.Errorf("the filter has revision %d of the configuration, want %d, and shares of "+
					"epoch %d, want above 0", revision, w.revision, epoch)
			}
			return nil
		})
	})
}

// stats are the filter's gauges and counters without labels, by name.
func (w *Installation) stats(ctx context.Context, gateway int) (map[string]int64, error) {
	page, err := w.rig.Get(ctx, "http://"+local.Address(w.ports.envoyAdmin[gateway])+"/stats?filter=titrate_")
	stats := map[string]int64{}
	for line := range strings.Lines(page) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if value, err := strconv.ParseInt(text, 10, 64); err == nil {
			stats[name[strings.Index(name, ".")+1:]] = value
		}
	}
	return stats, err
}
