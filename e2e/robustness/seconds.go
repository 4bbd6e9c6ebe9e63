package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// seconds writes the requests of each client in each second, at all gateways and at each, to help find the
// cause of a failure. Columns: second, pool, tenant, client, gateway, sent, admitted, refused, failed.
func (s *scene) seconds(file string) error {
	type key struct {
		second                        time.Duration
		pool, tenant, client, gateway string
	}
	type counts struct{ sent, admitted, refused, failed int }
	all := map[key]*counts{}
	at := func(when time.Duration, k key) *counts {
		k.second = when / time.Second
		if all[k] == nil {
			all[k] = &counts{}
		}
		return all[k]
	}
	records := s.load.Records()
	for i := range records {
		r := &records[i]
		k := key{pool: r.Client.Pool, tenant: r.Client.Tenant, client: r.Client.Name, gateway: r.Gateway}
		at(r.Sent, k).sent++
		switch {
		case r.Err != "":
			at(r.Sent+r.Took, k).failed++
		case r.Status == 429:
			at(r.Sent+r.Took, k).refused++
		}
		if r.Arrived > 0 {
			at(r.Arrived, k).admitted++
		}
	}
	var b strings.Builder
	b.WriteString("second,pool,tenant,client,gateway,sent,admitted,refused,failed\n")
	for k, c := range all {
		fmt.Fprintf(&b, "%d,%s,%s,%s,%s,%d,%d,%d,%d\n", k.second, k.pool, k.tenant, k.client, k.gateway,
			c.sent, c.admitted, c.refused, c.failed)
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}
