package dev

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/dev/load"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

// DemoDocument is the configuration that is applied, as YAML documents.
//
//go:embed demo.yaml
var DemoDocument []byte

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
func (w *World) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient(loopback(w.ports.coordinator), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// configure applies the demo's documents as `titrate apply` does.
func (w *World) configure(ctx context.Context) error {
	resources, err := demoResources()
	if err != nil {
		return err
	}
	conn, err := w.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = quotav1.NewQuotaServiceClient(conn).Apply(ctx, &quotav1.ApplyRequest{Resources: resources}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("apply demo.yaml: %w", err)
	}
	return nil
}

// awaitEnforcement waits until every gateway has the configuration: from then
// on, and not before, it refuses a tenant that does not exist.
func (w *World) awaitEnforcement(ctx context.Context) error {
	urls := w.URLs()
	return w.each(ctx, func(ctx context.Context, i int, _ string) error {
		return w.envoys[i].Ready(ctx, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, urls[i], nil)
			if err != nil {
				return err
			}
			req.Header.Set(load.TenantHeader, "nobody")
			return w.expect(req, http.StatusTooManyRequests)
		})
	})
}
