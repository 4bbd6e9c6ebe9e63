package main

const ofPools = `pool=~"$pool"`

// pool is about upstreams and how their capacity is shared.
func pool() dashboard {
	return dashboard{name: "pool", title: "Titrate: pools",
		help:      "How the capacity of a pool is shared among tenants, and what that does to requests.",
		variables: []variable{{"pool", "titrate_pool_capacity"}},
		rows: []row{{"Capacity", poolCapacity()}, {"Tenants", poolTenants()}, {"Requests", poolRequests()},
			{"Adaptive pools", poolAdaptive()}}}
}

// ofPool is a gauge of the coordinator that leads.
func ofPool(metric string) string { return most("pool", in(metric, ofPools)) }

func ofFlow(metric string) string { return most("pool, tenant", in(metric, ofPools)) }

func poolCapacity() []panel {
	return []panel{
		{"Capacity, demand, admitted", "What the pool is said or believed to serve, what all tenants ask for, and " +
			"what is admitted. A pool whose demand is above its capacity is shared by weights.", costPerSecond, lines,
			[]query{
				{"{{pool}} capacity", ofPool("titrate_pool_capacity")},
				{"{{pool}} demand", ofPool("titrate_pool_demand")},
				{"{{pool}} admitted", ofPool("titrate_pool_admitted")}}},
		{"Use of the capacity", "What is asked for and what is admitted, as a part of the capacity. A demand above " +
			"100 % means that somebody gets less than asked for.", part, lines, []query{
			{"{{pool}} asked for", in("titrate:pool_demand:ratio", ofPools)},
			{"{{pool}} admitted", in("titrate:pool_use:ratio", ofPools)}}},
		{"Fair rate", "Share of a tenant of weight 1 that asks for more; 0 while everybody gets all.", costPerSecond,
			lines,
			[]query{{"{{pool}}", ofPool("titrate_pool_fair_rate")}}},
		{"Price", "Price of the pool; 0 while everybody gets all.", count, lines,
			[]query{{"{{pool}}", ofPool("titrate_pool_price")}}},
		{"Leased beyond the capacity", "The margin that is leased, and guarantees that are not used; and whether " +
			"the guarantees exceed the capacity (1; right is 0).", costPerSecond, lines, []query{
			{"{{pool}} leased beyond", ofPool("titrate_pool_standing")},
			{"{{pool}} guarantees exceed", ofPool("titrate_pool_infeasible")}}},
	}
}

func poolTenants() []panel {
	const legend = "{{tenant}} {{pool}}"
	return []panel{
		{"Admitted by tenant", "Of the tenants with the highest demand (--metrics-tenants).", costPerSecond, stacked,
			[]query{{legend, ofFlow("titrate_flow_admitted")}}},
		{"Demand by tenant", "What tenants ask for.", costPerSecond, stacked,
			[]query{{legend, ofFlow("titrate_flow_demand")}}},
		{"Share by tenant", "What tenants may use, over all gateways.", costPerSecond, lines,
			[]query{{legend, ofFlow("titrate_flow_share")}}},
		{"Not admitted by tenant", "Demand that is not admitted: it waits, is refused or slows down.", costPerSecond,
			lines,
			[]query{{legend, "clamp_min(" + ofFlow("titrate_flow_demand") + " - " + ofFlow("titrate_flow_admitted") +
				", 0)"}}},
	}
}

func poolRequests() []panel {
	return []panel{
		{"Requests by outcome", "Each request has one outcome: admitted (also if it waited), cancelled by its " +
			"client while it waited, or a reason of refusal.", requestsPerSecond, stacked, []query{{"{{outcome}}",
			sum("outcome", rate(filter("titrate_requests_total", ofPools)))}}},
		{"Held", "Requests that wait at gateways for their tenant's share or their client's limit.", count, lines,
			[]query{{"{{pool}} {{instance}}", filter("titrate_pool_held", ofPools)}}},
		{"Waits", "How long requests waited that were held in the last five minutes: half of them at most the " +
			"first time, 99 of 100 at most the second. By outcome.", seconds, lines, []query{
			{"{{pool}} {{outcome}} median", in("titrate:pool_wait_seconds:p50_rate5m", ofPools)},
			{"{{pool}} {{outcome}} 99 %", in("titrate:pool_wait_seconds:p99_rate5m", ofPools)}}},
		{"Held, marked, shadowed", "Requests that were held, that were admitted with a congestion mark, and that " +
			"passed only because of a mode SHADOW.", requestsPerSecond, lines, []query{
			{"{{pool}} held", sum("pool", rate(filter("titrate_waited_total", ofPools)))},
			{"{{pool}} marked", sum("pool", rate(filter("titrate_marked_total", ofPools)))},
			{"{{pool}} shadowed", sum("pool", rate(filter("titrate_shadowed_total", ofPools)))}}},
	}
}

func poolAdaptive() []panel {
	return []panel{
		{"Estimate", "What an adaptive pool is believed to serve, and the capacity that is shared.", costPerSecond,
			lines,
			[]query{{"{{pool}} estimate", ofPool("titrate_pool_estimate")},
				{"{{pool}} capacity", ofPool("titrate_pool_capacity")}}},
		{"At the upstream", "Cost of requests at the upstream of an adaptive pool, by the coordinator. Then its " +
			"part that waits there or was turned away, and the count of the gateways. In cost units.", count, lines,
			[]query{
				{"{{pool}} at the upstream", ofPool("titrate_pool_at_upstream")},
				{"{{pool}} waits there", ofPool("titrate_pool_backlog")},
				{"{{pool}} by the gateways", sum("pool", filter("titrate_pool_in_flight", ofPools))}}},
		{"Stay", "Mean time at the upstream of an adaptive pool when nothing waits there.", seconds, lines,
			[]query{{"{{pool}}", ofPool("titrate_pool_stay_seconds")}}},
	}
}
