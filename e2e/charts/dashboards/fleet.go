package main

// fleet is the first dashboard for a person on call.
func fleet() dashboard {
	return dashboard{name: "fleet", title: "Titrate: fleet",
		help: "Whether the installation is sound, and what all gateways do together.",
		rows: []row{{"Now", fleetNow()}, {"Requests", fleetRequests()}, {"Configuration and shares", fleetShares()},
			{"Agents among each other", fleetGossip()}, {"Sites", fleetSites()}}}
}

func fleetNow() []panel {
	return []panel{
		{"Leaders", "Coordinators that lead; right is 1, or all that share the pools. At 0 shares are frozen, and " +
			"changes are not delivered.",
			count,
			lacking, []query{{"leaders", sum("", in("titrate_leading"))}}},
		{"Gateways", "Gateways of which the leader has reports.", count, stat,
			[]query{{"gateways", most("", in("titrate_members"))}}},
		{"Agents", "Agents with a stream to a coordinator.", count, stat,
			[]query{{"agents", most("", in("titrate_control_streams"))}}},
		{"Held now", "Requests that wait at gateways at this moment.", count, stat,
			[]query{{"held", sum("", filter("titrate_held"))}}},
		{"Refusing", "Gateways that refuse the configuration and keep an older one; right is 0.", count, alarm,
			[]query{{"gateways", most("", in("titrate_gateways_refusing"))}}},
		{"Alerts", "Titrate's alerts that fire now; right is 0. 0 as well if Prometheus does not have the alerts.",
			count,
			alarm, []query{{"alerts",
				matching(`ALERTS{alertname=~"Titrate.+",alertstate="firing",namespace=~"$namespace"}`)}}},
	}
}

func fleetRequests() []panel {
	all := rate(filter("titrate_requests_total"))
	return []panel{
		{"Requests by outcome", "Each request has one outcome: admitted (also if it waited), cancelled by its " +
			"client while it waited, or a reason of refusal. Without a pool: booted, bypassed, unpooled, which are " +
			"admitted.",
			requestsPerSecond, stacked, []query{{"{{outcome}}", sum("outcome", all)}}},
		{"Refused", "Refused requests as a part of all requests to a pool, in the last five minutes. Pool - is no " +
			"pool: a request of an unknown tenant, or refused before its pool was known.", part, lines,
			[]query{{"{{pool}}", in("titrate:pool_refused:ratio_rate5m")}}},
		{"Requests by gateway", "Decided requests, whatever their outcome.", requestsPerSecond, lines,
			[]query{{"{{instance}}", sum("instance", all)}}},
		{"Held by gateway", "Requests that wait at a gateway.", count, lines,
			[]query{{"{{instance}}", filter("titrate_held")}}},
	}
}

func fleetShares() []panel {
	return []panel{
		{"Configuration in force", "Revision of the configuration, at coordinators, agents and gateways. All " +
			"should be the same within seconds of a change.", number, lines, []query{
			{"coordinator {{instance}}", in("titrate_configuration_revision")},
			{"agent {{instance}}", in("titrate_agent_config_revision")},
			{"gateway {{instance}}", filter("titrate_config_revision")}}},
		{"Configuration not in force", "Limits and quotas that are not enforced at the gateway with the most, and " +
			"resources in etcd that cannot be read. 1 if the configuration is held back because etcd has lost a " +
			"part. Right is 0.", count, lines, []query{
			{"not enforced", most("", in("titrate_limits_not_enforced"))},
			{"unreadable", most("", in("titrate_configuration_unreadable"))},
			{"held back", most("", in("titrate_configuration_held"))}}},
		{"Age of shares", "Time since an agent's shares were renewed; below 1 s while a coordinator leads. -1: never.",
			seconds, lines, []query{{"{{instance}}", in("titrate_agent_shares_age_seconds")}}},
		{"Cut off", "Agents without a coordinator, gateways without their agent, gateways whose shares are frozen. " +
			"Right is 0.", count, lines, []query{
			{"agents without a coordinator", matching(in("titrate_agent_stream_connected") + " == 0")},
			{"gateways without their agent", matching(filter("titrate_link_connected") + " == 0")},
			{"gateways with frozen shares", matching(filter("titrate_shares_stale") + " == 1")}}},
	}
}

func fleetGossip() []panel {
	return []panel{
		{"Lag", "Longest time until all agents know the use of a client. A limit over all gateways can be " +
			"exceeded by about what its clients use in that time.", seconds, lines,
			[]query{
				{"median of agents", in("titrate:agent_lag_seconds:p50")},
				{"99 % of agents", in("titrate:agent_lag_seconds:p99")},
				{"longest", most("", in("titrate_agent_lag_seconds"))}}},
		{"Delay between agents", "Largest delay of a packet from or to another agent, one way. Then the delay of " +
			"packets to the farthest one in the median, which EXACT limits wait for. -1: not measured yet.",
			seconds, lines,
			[]query{
				{"{{instance}}, largest", in("titrate_agent_gossip_delay_seconds")},
				{"{{instance}}, median", in("titrate_agent_way_seconds")}}},
		{"Unreachable", "Agents that failed or cannot be reached, and gateways of the fleet whose use is unknown, " +
			"at the agent with the most. Then the worst isolation: 0 none, 1 frozen, 2 split. Right is 0.",
			count, lines,
			[]query{
				{"agents missing", most("", in("titrate_agent_peers_missing"))},
				{"gateways unreachable", most("", in("titrate_agent_members_unheard"))},
				{"isolation", most("", in("titrate_agent_isolation"))}}},
		{"Traffic between agents", "Datagrams of all agents together, without the headers of IP and UDP.",
			bytesPerSecond,
			lines, []query{{"{{direction}}", sum("direction", rate(in("titrate_agent_gossip_bytes_total")))}}},
	}
}

func fleetSites() []panel {
	return []panel{
		{"Gateways by site", "Where agents have --site.", count,
			lines, []query{{"{{site}}", most("site", in("titrate_site_gateways"))}}},
		{"Sites cut off", "Agents that do not receive another site, and agents far from others of their own site. " +
			"Right is 0.", count, lines, []query{
			{"cut off, {{site}}", most("site", in("titrate_site_cut_off"))},
			{"too far, {{site}}", most("site", in("titrate_site_far"))}}},
		{"Keys used at two sites", "Summed over agents.", count, lines,
			[]query{{"with {{site}}", sum("site", in("titrate_agent_site_keys"))}}},
		{"Records waiting between sites", "While they wait, sites learn later what the others admit.", count, lines,
			[]query{{"to {{site}}", sum("site", in("titrate_agent_site_waiting"))}}},
	}
}
