package secrets

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/titrate/titrate/services/kubernetes"
)

// keepPolicy makes Helm leave a secret alone that it once made itself.
const keepPolicy = "helm.sh/resource-policy"

// Kubernetes is the namespace of a cluster.
type Kubernetes struct {
	*kubernetes.Cluster
	Labels map[string]string // of the secrets
}

// object is a Secret as the API has it.
type object struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Type       string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"` // base64 in JSON
}

type metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Has reports whether the secret has the parts. A secret that Helm made, as the chart once did, is marked to be kept.
func (k *Kubernetes) Has(ctx context.Context, name string, parts ...string) (bool, error) {
	var there object
	err := k.Call(ctx, http.MethodGet, k.at(name), "", nil, &there)
	if kubernetes.Answered(err, http.StatusNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, part := range parts {
		if len(there.Data[part]) == 0 {
			return false, nil
		}
	}
	if there.Metadata.Annotations[keepPolicy] == "keep" {
		return true, nil
	}
	mark := map[string]any{"metadata": map[string]any{"annotations": map[string]string{keepPolicy: "keep"}}}
	return true, k.patch(ctx, name, kubernetes.MergePatch, "", mark)
}

// Put applies the secret, even if another manager had it before.
func (k *Kubernetes) Put(ctx context.Context, s Secret) error {
	o := object{APIVersion: "v1", Kind: "Secret", Data: s.Parts, Type: "Opaque",
		Metadata: metadata{Name: s.Name, Labels: k.Labels, Annotations: map[string]string{keepPolicy: "keep"}}}
	if _, is := s.Parts[certPart]; is {
		o.Type = "kubernetes.io/tls"
	}
	return k.patch(ctx, s.Name, kubernetes.ApplyPatch, "&force=true", o)
}

func (k *Kubernetes) patch(ctx context.Context, name, contentType, query string, change any) error {
	return k.Call(ctx, http.MethodPatch, k.at(name)+"?fieldManager=titrate"+query, contentType, change, nil)
}

func (k *Kubernetes) at(name string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/secrets/%s", url.PathEscape(k.Namespace), url.PathEscape(name))
}
