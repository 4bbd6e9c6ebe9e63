// Fleet: the pools as water, what check finds, the gateways.

import type { History } from "./chart";
import { h, type Content, type Tree } from "./dom";
import { Hour } from "./hour";
import { duration, last, num, rate, seconds, time } from "./format";
import { badge, body, figures, fresh, known, link, section, Table, type Context, type Screen } from "./parts";
import { byTenant, picture, Weights } from "./pools";
import { t } from "./strings";
import type { Finding, Gateway, Gateways, Pool, Top } from "./types";

const poolsPath = "/pools?page_size=100";
const pictured = 3; // pools whose picture is drawn; the others are in the table

export function fleet(c: Context, history: History): Screen {
  const weights = new Weights(c.changed);
  const hour = new Hour(c.changed, history), gateways = new Sites(c);
  const findings = findingTable(c);
  const others = poolTable(c);
  const pools = () => body<{ pools: Pool[] }>(c.live, poolsPath)?.pools ?? [];
  return {
    title: t.fleet,
    heard: () => (fresh<{ pools: Pool[] }>(c.live, poolsPath)?.pools ?? []).slice(0, pictured).forEach((p) => remember(history, p)),
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
export function poolFigures(p: Pool, more: [string, string][] = []): Content {
  const s = p.status;
  if (!s) return figures([[t.capacity, rate(p.capacity)], ...more]);
  return [
    figures([[t.admitted, rate(s.admitted)], [t.demand, rate(s.demand)], [t.capacity, rate(s.capacity || p.capacity)],
      [t.fairLevel, s.fairRate > 0 ? rate(s.fairRate) : null], [t.price, s.price > 0 ? num(s.price) : null],
      [t.inFlight, s.inFlight > 0 ? num(s.inFlight) : null], [t.leader, s.leader], ...more]),
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

// Sites has a table of gateways for each site. Without sites it is one table.
class Sites {
  private readonly tables = new Map<string, Table<Gateway>>();

  constructor(private readonly c: Context) {}

  view(all: Gateway[]): Content {
    const sites = new Map<string, Gateway[]>();
    for (const g of all) sites.set(g.site ?? "", [...sites.get(g.site ?? "") ?? [], g]);
    return [
      h("p", { class: "quiet" }, t.ownedHelp),
      [...sites.keys()].sort().map((site) => h("div", { key: site }, (sites.size > 1 || site) &&
        [h("h3", null, t.site(site)), h("p", { class: "quiet" }, sum(sites.get(site)!))],
        this.table(site).view(sites.get(site)!))),
    ];
  }

  private table(site: string): Table<Gateway> {
    const known = this.tables.get(site) ?? gatewayTable(this.c, site ? `${t.gateways}, ${t.site(site)}` : t.gateways);
    this.tables.set(site, known);
    return known;
  }
}

// sum says how the gateways of a site are. An agent has its keys once, however many gateways it has.
function sum(gateways: Gateway[]): string {
  const agents = new Map(gateways.map((g) => [g.agent, g.owned]));
  return t.siteSum(num(gateways.length), num(gateways.filter((g) => kindOf(g) !== "good").length),
    num([...agents.values()].reduce((a, b) => a + b, 0)));
}

function kindOf(g: Gateway): string {
  return g.refused !== "0" && !g.heard ? "bad" : g.heard || g.behind > 0 || g.leftOut > 0 ? "warn" : "good";
}

function stateOf(g: Gateway): string {
  if (g.heard) return t.away(time(g.heard));
  if (g.refused !== "0") return t.refuses(g.refused, g.reason);
  if (g.behind > 0) return t.behindBy(num(g.behind) + (g.behindMore ? "+" : ""));
  return g.leftOut > 0 ? t.leftOut(g.leftOut) : t.current;
}

function gatewayTable(c: Context, title: string): Table<Gateway> {
  const lag = (since: string | undefined) => since ? duration(Math.max(0, Date.now() - Date.parse(since)) / 1000) : "";
  return new Table<Gateway>(title, [
    { title: t.gateway, cell: (g) => link(["top", "TENANT", "REFUSED", "gateway", g.name], g.name) },
    { title: t.agent, cell: (g) => g.agent },
    { title: t.state, cell: (g) => badge(stateOf(g), kindOf(g)) },
    { title: t.revision, number: true, cell: (g) => g.revision },
    { title: t.lag, number: true, optional: true, cell: (g) => lag(g.behindSince ?? g.heard) },
    { title: t.claimsAge, number: true, cell: (g) => g.delay ? duration(seconds(g.delay)) : "" },
    { title: t.owned, number: true, cell: (g) => g.heard ? "" : num(g.owned) },
  ], (g) => `${g.name} ${g.agent} ${g.revision}`, c.changed);
}
