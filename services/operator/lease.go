package operator

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/titrate/titrate/services/kubernetes"
)

const (
	// leaseName is the name of the Lease in the operator's namespace.
	leaseName = "titrate-operator"
	// leaseTime is the time that a leader keeps the lead without renewing the Lease.
	leaseTime = 15 * time.Second
	// renewEvery is the interval at which a leader renews the Lease, and the others look.
	renewEvery = 5 * time.Second
)

// lease is the operators' Lease. Clocks of different machines are not compared: another operator's Lease has
// run out when it was seen unchanged for leaseTime.
type lease struct {
	cluster *kubernetes.Cluster
	holder  string

	held    bool
	version string // of the Lease as it was seen last
	seen    time.Time
}

// leaseObject is a Lease as the API has it.
type leaseObject struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   leaseMetadata `json:"metadata"`
	Spec       leaseSpec     `json:"spec"`
}

type leaseMetadata struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

type leaseSpec struct {
	HolderIdentity       string `json:"holderIdentity"`
	LeaseDurationSeconds int    `json:"leaseDurationSeconds"`
	RenewTime            string `json:"renewTime"`
}

func (l *lease) path() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(l.cluster.Namespace) + "/leases"
}

// hold takes the lead, or renews it if that is due, and reports whether it is held.
func (l *lease) hold(ctx context.Context, now time.Time) (bool, error) {
	if l.held && now.Sub(l.seen) < renewEvery {
		return true, nil
	}
	var err error
	l.held, err = l.take(ctx, now)
	return l.held, err
}

// renew renews the lead in the middle of a pass. It reports whether the lead was held all the time: no other
// operator has written the Lease since this one did.
func (l *lease) renew(ctx context.Context, now time.Time) (bool, error) {
	if now.Sub(l.seen) < renewEvery {
		return true, nil
	}
	var err error
	l.held, err = l.write(ctx, http.MethodPut, "/"+leaseName, l.version, now)
	return l.held, err
}

func (l *lease) take(ctx context.Context, now time.Time) (bool, error) {
	var there leaseObject
	err := l.cluster.Call(ctx, http.MethodGet, l.path()+"/"+leaseName, "", nil, &there)
	switch {
	case kubernetes.Answered(err, http.StatusNotFound):
		return l.write(ctx, http.MethodPost, "", "", now)
	case err != nil:
		return false, err
	}
	if there.Metadata.ResourceVersion != l.version {
		l.version, l.seen = there.Metadata.ResourceVersion, now
	}
	holder := there.Spec.HolderIdentity
	if holder != "" && holder != l.holder && now.Sub(l.seen) < leaseTime {
		return false, nil
	}
	return l.write(ctx, http.MethodPut, "/"+leaseName, l.version, now)
}

// write writes the Lease with this operator as its holder; false if another was faster.
func (l *lease) write(ctx context.Context, method, at, version string, now time.Time) (bool, error) {
	err := l.put(ctx, method, at, version, l.holder, now)
	if kubernetes.Answered(err, http.StatusConflict) {
		return false, nil
	}
	return err == nil, err
}

func (l *lease) put(ctx context.Context, method, at, version, holder string, now time.Time) error {
	const microTime = "2006-01-02T15:04:05.000000Z"
	var stored leaseObject
	err := l.cluster.Call(ctx, method, l.path()+at, kubernetes.JSON, leaseObject{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Metadata: leaseMetadata{Name: leaseName, ResourceVersion: version},
		Spec: leaseSpec{HolderIdentity: holder, LeaseDurationSeconds: int(leaseTime / time.Second),
			RenewTime: now.UTC().Format(microTime)}}, &stored)
	if err == nil {
		l.version, l.seen = stored.Metadata.ResourceVersion, now
	}
	return err
}

// release gives the lead up, so that another operator can take it at once.
func (l *lease) release(ctx context.Context, now time.Time) error {
	err := l.put(ctx, http.MethodPut, "/"+leaseName, l.version, "", now)
	if kubernetes.Answered(err, http.StatusConflict, http.StatusNotFound) {
		return nil
	}
	return err
}
