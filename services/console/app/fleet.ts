// Fleet: the pools as water, what check finds, the gateways.

import type { History } from "./chart";
import { h, type Content, type Tree } from "./dom";
import { Hour } from "./hour";
import { last, num, rate, time } from "./format";
import { badge, body, figures, known, link, section, Table, type Context, type Screen } from "./parts";
import { byTenant, picture, Weights } from "./pools";
import { t } from "./strings";
import type { Finding, Gateway, Gateways, Pool, Top } from "./types";

const poolsPath = "/pools?page_size=100";
const pictured = 3; // pools whose picture is drawn; the others are in the table

export function fleet(c: Context, history: History): Screen {
  const weights = new Weights(c.changed);
  const hour = new Hour(c.changed, history), gateways = gatewayTable(c);
  const findings = findingTable(c);
  const others = poolTable(c);
  const pools = () => body<{ pools: Pool[] }>(c.live, poolsPath)?.pools ?? [];
  return {
    title: t.fleet,
    heard: () => pools().slice(0, pictured).forEach((p) => remember(history, p)),
    paths: () => [poolsPath, "/gateways", ":check", ...pools().slice(0, pictured).map((p) => byTenant(last(p.name)))],
    view: () => [
      h("h1", null, t.fleet),
      section(t.pools, known<{ pools: Pool[] }>(c.live, poolsPath, ({ pools }) => pools.length === 0
        ? h("p", { class: "quiet" }, t.noPools)
        : [pools.slice(0, pictured).map((p) => poolCard(c, hour, weights, p)),
          pools.length > pictured && others.view(pools.slice(pictured))])),
      section(t.findings, known<{ findings: Finding[] }>(c.live, ":check", (r) => findings.view(r.findings))),
      section(t.gateways, known<Gateways>(c.live, "/gateways", (r) => r.gateways.length === 0
        ? h("p", { class: "quiet" }, t.noGateways) : gateways.view(r.gateways))),
    ],
  };
}

function poolCard(c: Context, hour: Hour, weights: Weights, p: Pool): Tree {
  const name = last(p.name);
  return h("article", { key: p.name, class: "card" },
    h("h3", null, link(["pool", name], name)), poolFigures(p),
    known<Top>(c.live, byTenant(name), (top) => picture(p, name, top, weights)),
    hour.view(p));
}

// poolFigures are the numbers of a pool, and what they mean.
export function poolFigures(p: Pool): Content {
  const s = p.status;
  if (!s) return figures([[t.capacity, rate(p.capacity)]]);
  return [
    figures([[t.admitted, rate(s.admitted)], [t.demand, rate(s.demand)], [t.capacity, rate(s.capacity || p.capacity)],
      [t.fairLevel, s.fairRate > 0 ? rate(s.fairRate) : null], [t.price, s.price > 0 ? num(s.price) : null],
      [t.inFlight, s.inFlight > 0 ? num(s.inFlight) : null], [t.leader, s.leader]]),
    h("p", null, s.fairRate > 0 ? t.full(rate(s.fairRate)) : t.slack),
    s.infeasibleGuarantees && h("p", { class: "note error" }, t.infeasible),
  ];
}

// remember keeps a pool's numbers of now.
export function remember(history: History, p: Pool): void {
  const s = p.status;
  if (s) history.add(p.name, [s.admitted, s.demand, s.capacity || p.capacity]);
}

function poolTable(c: Context): Table<Pool> {
  return new Table<Pool>(t.pools, [
    { title: t.pool, cell: (p) => link(["pool", last(p.name)], last(p.name)) },
    { title: t.admitted, number: true, cell: (p) => rate(p.status?.admitted ?? 0) },
    { title: t.demand, number: true, cell: (p) => rate(p.status?.demand ?? 0) },
    { title: t.capacity, number: true, cell: (p) => rate(p.status?.capacity || p.capacity) },
    { title: t.fairLevel, number: true, cell: (p) => p.status?.fairRate ? rate(p.status.fairRate) : "" },
  ], (p) => p.name, c.changed);
}

function findingTable(c: Context): Table<Finding> {
  const kind: Record<string, string> = { OK: "good", WARNING: "warn", FAILED: "bad" };
  return new Table<Finding>(t.findings, [
    { title: t.state, cell: (f) => badge(f.state, kind[f.state] ?? "") },
    { title: t.category, cell: (f) => f.category },
    { title: t.finding, cell: (f) => f.message },
    { title: t.advice, cell: (f) => f.advice },
  ], (f) => f.category + f.message, c.changed);
}

function gatewayTable(c: Context): Table<Gateway> {
  const state = (g: Gateway): Content => {
    if (g.heard) return badge(t.away(time(g.heard)), "warn");
    if (g.refused !== "0") return badge(t.refuses(g.refused, g.reason), "bad");
    if (g.behind > 0) return badge(t.behindBy(g.behind + (g.behindMore ? "+" : ""), time(g.behindSince)), "warn");
    if (g.leftOut > 0) return badge(t.leftOut(g.leftOut), "warn");
    return badge(t.current, "good");
  };
  return new Table<Gateway>(t.gateways, [
    { title: t.gateway, cell: (g) => link(["top", "TENANT", "REFUSED", "gateway", g.name], g.name) },
    { title: t.agent, cell: (g) => g.agent },
    { title: t.state, cell: state },
    { title: t.revision, number: true, cell: (g) => g.revision },
  ], (g) => `${g.name} ${g.agent} ${g.revision}`, c.changed);
}
