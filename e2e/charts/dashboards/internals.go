package main

// internals helps to find a fault, and to see how far a fleet can grow.
func internals() dashboard {
	return dashboard{name: "internals", title: "Titrate: limiter internals",
		help: "Tables, queues and messages inside filters, agents and coordinators: how near they are to their " +
			"bounds, and what was dropped.",
		rows: []row{{"Filter: keys", filterKeys()}, {"Filter: process", filterProcess()}, {"Agent: keys", agentKeys()},
			{"Agent: messages", agentMessages()}, {"Coordinator", coordinatorRounds()},
			{"etcd", etcd()}, {"Processes", processes()}}}
}

// ofGateway is a line for each gateway.
func ofGateway(metric string) []query { return []query{{"{{instance}}", filter(metric)}} }

// counts returns the rates of counters per second; each is a legend and a selector.
func counts(by string, metrics ...[2]string) []query {
	var all []query
	for _, m := range metrics {
		all = append(all, query{m[0], sum(by, rate(m[1]))})
	}
	return all
}

func filterKeys() []panel {
	return []panel{
		{"Keys", "Clients and limits that a filter remembers something of, counted every ten seconds.", count, lines,
			ofGateway("titrate_keys")},
		{"Contended keys of filters", "Keys whose use is reported to other gateways, as a part of the filter's " +
			"budget (contended_keys).",
			part, lines, []query{{"{{instance}}", filter("titrate_keys_contended") + " / " +
				filter("titrate_keys_contended_budget")}}},
		{"Beyond the budget", "Requests of keys beyond the budget, which this gateway held to its part of the " +
			"limit; and contended keys that others replaced. Right is 0.", perSecond, lines, counts("instance",
			[2]string{"{{instance}} parted", filter("titrate_keys_parted_total")},
			[2]string{"{{instance}} displaced", filter("titrate_keys_displaced_total")})},
		{"Claims that came late", "Claims of contended keys that reached the agent a period late or more.", perSecond,
			lines,
			counts("instance", [2]string{"{{instance}}", filter("titrate_claims_delayed_total")})},
		{"Flows", "Pairs of a tenant and a pool that it used in the last one or two minutes.", count, lines,
			ofGateway("titrate_flows")},
		{"Shared keys", "Decisions with a key that clients share which have none of their own. Right is 0.", perSecond,
			lines, counts("instance", [2]string{"{{instance}}", filter("titrate_overflow_total")})},
	}
}

func filterProcess() []panel {
	return []panel{
		{"Faults", "Recovered panics, connections that ended by malformed bytes, refused configurations, unusable " +
			"costs in responses, answers without readable usage. Right is 0.", perSecond, lines, counts("",
			[2]string{"panics", filter("titrate_panics_total")},
			[2]string{"malformed links", filter("titrate_link_malformed_total")},
			[2]string{"refused configurations", filter("titrate_config_refused_total")},
			[2]string{"unusable costs", filter("titrate_response_cost_refused_total")},
			[2]string{"answers without usage", filter("titrate_response_usage_total", `outcome=~"encoded|missing"`)})},
		{"Connections to the agent", "New connections of filters to their agents.", perSecond, lines,
			counts("instance",
				[2]string{"{{instance}}", filter("titrate_link_sessions_total")})},
		{"Goroutines", "Of the filter inside Envoy.", count, lines, ofGateway("titrate_goroutines")},
		{"Epoch of shares", "Leadership whose shares are in force; the same everywhere within seconds of an election.",
			number, lines, []query{{"coordinator {{instance}}", in("titrate_epoch")},
				{"agent {{instance}}", in("titrate_agent_epoch")},
				{"gateway {{instance}}", filter("titrate_shares_epoch")}}},
	}
}

func agentKeys() []panel {
	return []panel{
		{"Contended keys of agents", "Keys that gateways of this agent use, or that other agents report.", count, lines,
			[]query{{"{{instance}}", in("titrate_agent_contended_keys")}}},
		{"Owned keys", "Keys of which this agent adds up the claims of all replicas.", count, lines,
			[]query{{"{{instance}}", in("titrate_agent_owned_keys")}}},
		{"Use that is remembered", "Keys whose use is remembered for a gateway that starts again; and how many a " +
			"second are not remembered, since too many have spent something.", count, lines, []query{
			{"{{instance}}", in("titrate_agent_spent_keys")},
			{"{{instance}} lost per second", sum("instance", rate(in("titrate_agent_spent_lost_total")))}}},
		{"Rows of activity", "Pairs of tenant and pool, and limits, that titrate top and why know of; and reports " +
			"a second that found no row.", count, lines, []query{
			{"{{instance}}", in("titrate_agent_activity_rows")},
			{"{{instance}} lost per second", sum("instance", rate(in("titrate_agent_activity_lost_total")))}}},
	}
}

func agentMessages() []panel {
	return []panel{
		{"Claims sent", "Claims and sums that were sent to other agents, and claims that did not fit into the " +
			"budget of packets, once for each half period. Then limits lag.", perSecond, lines, counts("instance",
			[2]string{"{{instance}} sent", in("titrate_agent_gossip_records_total")},
			[2]string{"{{instance}} deferred", in("titrate_agent_gossip_deferred_total")})},
		{"Claims that wait", "Claims and sums that wait to be sent.", count, lines,
			[]query{{"{{instance}}", in("titrate_agent_gossip_waiting")}}},
		{"Packets", "Datagrams of all agents together.", perSecond, lines, counts("direction",
			[2]string{"{{direction}}", in("titrate_agent_gossip_packets_total")})},
		{"Dropped packets", "Packets of other agents that were dropped, by reason; and messages that did not " +
			"decode, by source.", perSecond, lines, []query{
			{"{{reason}}", sum("reason", rate(in("titrate_agent_gossip_dropped_total")))},
			{"malformed, {{source}}", sum("source", rate(in("titrate_agent_malformed_total")))}}},
		{"Refused by agents", "Claims with unusable numbers or beyond a budget, states that two agents claim, " +
			"links that were turned away, configurations that were sent again whole. Right is 0.", perSecond, lines,
			counts("",
				[2]string{"claims", in("titrate_agent_claims_refused_total")},
				[2]string{"of gateways", in("titrate_agent_link_dropped_total")},
				[2]string{"conflicts", in("titrate_agent_conflicts_total")},
				[2]string{"links", in("titrate_agent_link_refused_total")},
				[2]string{"configurations sent again", in("titrate_agent_config_resent_total")})},
		{"Streams to coordinators", "Streams that ended, streams that brought nothing, and links of filters that " +
			"were opened.",
			perSecond, lines, counts("",
				[2]string{"ended", in("titrate_agent_streams_total")},
				[2]string{"brought nothing", in("titrate_agent_stream_failures_total")},
				[2]string{"links opened", in("titrate_agent_link_accepted_total")})},
	}
}

func coordinatorRounds() []panel {
	return []panel{
		{"Time of a round", "Time to compute one round of shares: half of the rounds at most the first time, 99 of " +
			"100 at most the second. A round is due each 250 ms (--round).", seconds, lines, []query{
			{"median", in("titrate:round_duration_seconds:p50_rate5m")},
			{"99 %", in("titrate:round_duration_seconds:p99_rate5m")}}},
		{"Leases", "Leases that were sent to agents, and moves of a share that waited for a later round.", perSecond,
			lines,
			counts("", [2]string{"sent", in("titrate_leases_sent_total")},
				[2]string{"deferred", in("titrate_leases_deferred_total")})},
		{"Sent whole", "Complete sets of leases, for new streams and for agents that had missed some; whole " +
			"configurations; streams that went on with what was lacking.", perSecond, lines, counts("",
			[2]string{"leases", in("titrate_leases_whole_total")},
			[2]string{"leases, some missed", in("titrate_leases_missed_total")},
			[2]string{"configurations", in("titrate_configurations_whole_total")},
			[2]string{"configurations resumed", in("titrate_configurations_resumed_total")})},
		{"Refused by coordinators", "Configurations that agents refused, streams beyond the most that may be open, " +
			"impossible numbers and unknown pools in reports, losses of etcd's history. Right is 0.", perSecond,
			lines, counts("",
				[2]string{"configurations", in("titrate_configuration_refusals_total")},
				[2]string{"streams", in("titrate_control_streams_refused_total")},
				[2]string{"impossible numbers", in("titrate_report_bounded_total")},
				[2]string{"unknown pools", in("titrate_report_unknown_pools_total")},
				[2]string{"losses of history", in("titrate_etcd_history_lost_total")})},
		{"Refused calls", "Calls to coordinators that were refused, by reason. Callers are not known " +
			"(no_credentials, certificate, token), or known and without a role that allows the call. Right is 0.",
			perSecond, lines, counts("reason", [2]string{"{{reason}}", in("titrate_calls_refused_total")})},
		{"Refused messages", "Messages that coordinators refused before they were decoded, by reason, handlers that " +
			"panicked, and audit lines that could not be written. Right is 0.", perSecond, lines,
			append(counts("reason", [2]string{"{{reason}}", in("titrate_messages_refused_total")}),
				counts("", [2]string{"panics", in("titrate_handler_panics_total")},
					[2]string{"audit lines lost", in("titrate_audit_lines_lost_total")})...)},
		{"Access policy", "1 while the access policy, the token file or the key set cannot be read; what was read " +
			"before is in force. Right is 0.", count, lines,
			[]query{{"{{instance}}", in("titrate_access_stale")}}},
	}
}

// etcd are the coordinators' figures of etcd.
func etcd() []panel {
	calls := "titrate_etcd_call_duration_seconds"
	return []panel{
		{"Calls to etcd", "How long calls of coordinators took, by method of etcd's API: 99 of 100 at most so long.",
			seconds, lines, []query{{"{{method}}", in("titrate:etcd_call_duration_seconds:p99_rate5m")}}},
		{"Calls that failed", "Calls to etcd whose code was not OK. Right is 0.", perSecond, lines, []query{
			{"failed", sum("", rate(in(calls+"_count"))) + " - (" + sum("", rate(in(calls+"_count", `code="OK"`))) +
				" or vector(0))"}}},
		{"Watch and elections", "Watches of the configuration that ended and were opened again, with the whole " +
			"configuration or where they were. Then elections that coordinators won, and lost again without " +
			"giving the lead back. In the last hour.", count, lines, []query{
			{"watch, {{how}}", sum("how", "increase("+in("titrate_etcd_watch_resets_total")+"[1h])")},
			{"elections {{outcome}}", sum("outcome", "increase("+in("titrate_elections_total")+"[1h])")}}},
	}
}

// processes are agents and coordinators; Envoy has its own metrics of gateways' processes.
func processes() []panel {
	ours := " and on (namespace, instance) (" + in("titrate_agent_gateways") + " or " + in("titrate_leading") + ")"
	return []panel{
		{"Cores", "Processor time of agents and coordinators: seconds in each second.", unit{"short", "cores"}, lines,
			[]query{{"{{instance}}", rate("process_cpu_seconds_total{"+namespaces+"}") + ours}}},
		{"Memory", "Resident memory of agents and coordinators.", bytes, lines,
			[]query{{"{{instance}}", "process_resident_memory_bytes{" + namespaces + "}" + ours}}},
	}
}
