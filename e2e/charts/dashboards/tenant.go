package main

const (
	ofTenants = `tenant=~"$tenant"`
	// stopped are the outcomes of an agent's counts that are refusals. decided are the outcomes that every
	// request has one of. waited, marked and shadowed are counted in addition to admitted.
	stopped = `outcome=~"client_limit|tenant_share|queue_full|queue_timeout"`
	decided = `outcome=~"admitted|client_limit|tenant_share|queue_full|queue_timeout"`
)

// tenant shows the share of one tenant, and its reasons.
func tenant() dashboard {
	return dashboard{name: "tenant", title: "Titrate: tenants",
		help: "What tenants ask for and get, and which limits stop them. The coordinator has series of the tenants " +
			"with the highest demand and of those with the highest guarantees, agents of the first that were " +
			"limited; all others are tenant _other. titrate why TENANT knows every tenant.",
		variables: []variable{{"tenant", "titrate_flow_demand"}, {"pool", "titrate_pool_capacity"}},
		rows:      []row{{"Shares", tenantShares()}, {"Requests", tenantRequests()}, {"Limits", tenantLimits()}}}
}

func ofTenant(metric string) string { return most("tenant, pool", in(metric, ofTenants, ofPools)) }

func guarantee(metric string) string {
	return sum("tenant, pool", rate(in(metric, ofTenants, ofPools)))
}

func tenantShares() []panel {
	return []panel{
		{"Demand, share, admitted", "What the tenant asks for, what it may use over all gateways, and what is " +
			"admitted.",
			costPerSecond, lines, []query{
				{"{{tenant}} {{pool}} demand", ofTenant("titrate_flow_demand")},
				{"{{tenant}} {{pool}} share", ofTenant("titrate_flow_share")},
				{"{{tenant}} {{pool}} admitted", ofTenant("titrate_flow_admitted")}}},
		{"Part of the demand that is admitted", "100 % is all that the tenant asks for.", part, lines, []query{
			{"{{tenant}} {{pool}}", "clamp_max(" + ofTenant("titrate_flow_admitted") + " / " +
				ofTenant("titrate_flow_demand") + ", 1)"}}},
		{"Part of the guarantee that is admitted", "Of tenants with a guarantee: what is admitted, as a part of " +
			"what the guarantee entitles to. That is the guarantee, or the demand if that is less. 100 %: it is " +
			"kept.",
			part, lines, []query{{"{{tenant}} {{pool}}", "clamp_max(" + guarantee("titrate_flow_cost_admitted_total") +
				" / (" + guarantee("titrate_flow_cost_guaranteed_total") + " > 0), 1)"}}},
	}
}

func tenantRequests() []panel {
	requests := func(outcomes string) string {
		return rate(in("titrate_agent_requests_total", ofTenants, ofPools, outcomes))
	}
	return []panel{
		{"Requests by outcome", "Each request is admitted (also if it waited) or has a reason of refusal: " +
			"client_limit, tenant_share, queue_full, queue_timeout.", requestsPerSecond, stacked,
			[]query{{"{{tenant}} {{outcome}}", sum("tenant, outcome", requests(decided))}}},
		{"Refused", "Refused requests as a part of all requests of the tenant, over all pools, in the last five " +
			"minutes. Above 20 % the alert TitrateManyRefused fires.", part, lines,
			[]query{{"{{tenant}}", in("titrate:tenant_refused:ratio_rate5m", ofTenants)}}},
		{"Refused by gateway", "Refused requests of the tenants, by gateway.", requestsPerSecond, lines,
			[]query{{"{{gateway}}", sum("gateway", requests(stopped))}}},
		{"Waits of the tenant", "How long its requests waited that were held in the last five minutes. Half of " +
			"them waited at most the first time, 99 of 100 at most the second.", seconds, lines, []query{
			{"{{tenant}} median", in("titrate:tenant_wait_seconds:p50_rate5m", ofTenants)},
			{"{{tenant}} 99 %", in("titrate:tenant_wait_seconds:p99_rate5m", ofTenants)}}},
		{"Waited, marked, shadowed", "Requests that waited, that were admitted with a congestion mark, and that " +
			"passed only because of a mode SHADOW.", requestsPerSecond, lines, []query{{"{{tenant}} {{outcome}}",
			sum("tenant, outcome", requests(`outcome=~"waited|marked|shadowed"`))}}},
	}
}

func tenantLimits() []panel {
	limits := func(outcomes string) string {
		return sum("tenant, limit", rate(in("titrate_agent_limit_requests_total", ofTenants, outcomes)))
	}
	return []panel{
		{"Refused by limit", "Requests that a limit refused.", requestsPerSecond, lines,
			[]query{{"{{tenant}} {{limit}}", limits(stopped)}}},
		{"Would be refused or held", "Requests that a limit in SHADOW let pass and would refuse or hold if it were " +
			"enforced.", requestsPerSecond, lines, []query{{"{{tenant}} {{limit}}", limits(`outcome="shadowed"`)}}},
		{"Held by limit", "Requests that waited for a limit with a queue.", requestsPerSecond, lines,
			[]query{{"{{tenant}} {{limit}}", limits(`outcome="waited"`)}}},
	}
}
