// Tenant: the sentences of why with their numbers, its quotas and limits, its clients, and what SHADOW would do.

import { h, type Content, type Tree } from "./dom";
import { duration, last, now, num, per, rate, time } from "./format";
import { badge, body, figures, known, link, meter, section, spark, Table, type Context, type Screen } from "./parts";
import { pictureLink } from "./picture";
import { limitName } from "./top";
import { blockButton } from "./block";
import { calendar, Left, usageTable } from "./usage";
import { t } from "./strings";
import type { Activity, Explanation, Limit, LimitExplanation, ListedOverride, Override, Quota, Tenant, TenantPlan,
  Usage, Why } from "./types";

export function tenant(c: Context, id: string, client: string | undefined): Screen {
  const name = `/tenants/${encodeURIComponent(id)}`;
  const why = `${name}:why${client ? `?client=${encodeURIComponent(client)}` : ""}`, shadow = `${name}:why?shadow=true`;
  const quotas = `${name}/quotas?page_size=100`, limits = `${name}/limits?page_size=100`;
  const apart = `${name}/overrides?page_size=100`;
  const used = `${name}/usage?period=present&page_size=200${client ? `&client=${encodeURIComponent(client)}` : ""}`;
  const tables = { quotas: quotaTable(c), limits: limitTable(c), clients: clientTable(c, id), overrides: overrideTable(c),
    gateways: gatewayTable(c), usage: usageTable(c), shadow: shadowTable(c) };
  const plan = () => body<Tenant>(c.live, name)?.plan ?? "", planPath = () => `/plans/${encodeURIComponent(plan())}`;
  const planQuotas = () => `${planPath()}/quotas?page_size=100`;
  const planLimits = () => `${planPath()}/limits?page_size=100`;
  return {
    title: `${t.tenant} ${id}`,
    paths: () => [why, quotas, limits, used, shadow, name, apart, ...plan() ? [planPath(), planQuotas(), planLimits()] : []],
    view: () => [
      h("h1", null, `${t.tenant} `, h("bdi", null, id)),
      client && h("p", null, t.ofClient(client), ". ", link(["tenant", id], t.allClients)),
      id !== "-" && known<Tenant>(c.live, name, (x) => figures([[t.displayName, x.displayName],
        [t.tenantPlan, x.plan], [t.weight, weight(x, body<TenantPlan>(c.live, planPath()))], [t.set, x.set],
        [t.updated, time(x.updateTime)]])),
      known<Why>(c.live, why, (w) => [
        section(t.why, sentences([...w.notes, ...w.limits.map((l) => l.sentence)], t.quiet),
          w.limits.map((l) => limitCard(l))),
        section(t.shares, w.explanations.map((e) => shareCard(e, tables.gateways)),
          w.explanations.length === 0 && h("p", { class: "quiet" }, t.none)),
        section(t.clients, w.clients.length === 0 ? h("p", { class: "quiet" }, t.noClients)
          : tables.clients.view(w.clients)),
      ]),
      section(t.quotas, known<{ quotas: Quota[] }>(c.live, quotas, (r) => {
        const all = withPlan(r.quotas, body<{ quotas: Quota[] }>(c.live, planQuotas())?.quotas);
        return [all.length === 0 ? h("p", { class: "quiet" }, t.noQuotas) : tables.quotas.view(all),
          plan() && known(c.live, planQuotas(), () => null)];
      })),
      section(t.limits, known<{ limits: Limit[] }>(c.live, limits, (r) => {
        const all = withPlan(r.limits, body<{ limits: Limit[] }>(c.live, planLimits())?.limits);
        return [all.length === 0 ? h("p", { class: "quiet" }, t.noLimits)
          : [tables.limits.view(all), overrides(all, body<{ overrides: Override[] }>(c.live, apart)?.overrides ?? [],
            tables.overrides)],
          plan() && known(c.live, planLimits(), () => null)];
      })),
      section(t.periods, known<{ usage: Usage[] }>(c.live, used, (r) => r.usage.length === 0
        ? h("p", { class: "quiet" }, t.noUsage) : tables.usage.view(r.usage))),
      section(t.shadow, known<Why>(c.live, shadow, (w) => {
        const all = shadowed(w);
        return [all.length > 0 && tables.shadow.view(all), sentences([...w.notes,
          ...w.explanations.map((e) => e.sentence), ...w.limits.map((l) => l.sentence)], t.none)];
      })),
    ],
  };
}

// weight is a tenant's own weight, or that of its plan.
function weight(x: Tenant, plan: TenantPlan | undefined): string {
  if (x.weight || !x.plan) return num(x.weight);
  return plan ? `${num(plan.weight)} (${t.ofPlan(x.plan)})` : t.ofPlan(x.plan);
}

// withPlan adds what a plan gives. What the tenant has under the same name takes its place.
function withPlan<T extends { name: string }>(own: T[], plan: T[] = []): T[] {
  return [...own, ...plan.filter((p) => !own.some((o) => last(o.name) === last(p.name)))];
}

// origin says who has given a quota or a limit.
function origin(x: { name: string }): string {
  const [kind, id] = x.name.split("/");
  return kind === "plans" ? t.ofPlan(id ?? "") : t.ofTenant;
}

function sentences(all: string[], none: string): Content {
  return all.length === 0 ? h("p", { class: "quiet" }, none)
    : h("ul", { class: "sentences" }, all.map((s) => h("li", null, s)));
}

interface Part { gateway: string; demand: number; admitted: number; share: number } // share over all gateways

function shareCard(e: Explanation, gateways: Table<Part>): Tree {
  return h("article", { key: e.pool, class: "card" },
    h("h3", null, link(["pool", last(e.pool)], last(e.pool)), " ", e.stale && badge("stale", "warn")),
    h("p", null, e.sentence),
    figures([[t.share, rate(e.share)], [t.demand, rate(e.demand)], [t.admitted, rate(e.admitted)],
      [t.boundBy, t.bound[e.boundBy] ?? e.boundBy], [t.fairLevel, e.fairRate > 0 ? rate(e.fairRate) : null],
      [t.weight, num(e.weight)], [t.guaranteed, e.guaranteed > 0 ? rate(e.guaranteed) : null],
      [t.max, e.max === undefined ? null : rate(e.max)], [t.capacity, rate(e.capacity)]]),
    e.activity && usage(e.activity),
    e.gateways.length > 0 && h("details", { open: e.gateways.length <= 10 }, h("summary", null, t.byGateway),
      gateways.view(e.gateways.map((g) => ({ ...g, share: e.share })))));
}

function usage(a: Activity): Tree {
  const n = now(a);
  return h("p", { class: "usage" }, `${t.usage} `, spark(a.admittedParts, a.refusedParts),
    ` ${t.admitted} ${rate(n.admitted)}, ${t.refusedRate} ${rate(n.refused)}`);
}

function limitCard(l: LimitExplanation): Content {
  const a = l.activity;
  return a && h("article", { key: l.limit, class: "card" }, h("h3", null, l.limit),
    figures([[t.mode, l.mode], [t.rate, Number(l.concurrency) ? t.concurrency(l.concurrency) : l.rate ? rate(l.rate) : null],
      [t.burst, l.burst ? num(l.burst) : null], [t.key, t.keyOf[l.key] ?? l.key],
      [t.refusedRate, rate(per(a, a.refused))], [t.waited, rate(per(a, a.waited))],
      [t.shadowed, a.shadowed === "0" ? null : rate(per(a, a.shadowed))]]),
    l.gateways.length > 0 && h("ul", { class: "sentences" }, l.gateways.map((g) => h("li", null,
      `${g.gateway}: ${t.refusedRate} ${rate(per(g, g.refused))}${
        g.shadowed === "0" ? "" : `, ${t.shadowed} ${rate(per(g, g.shadowed))}`}`))));
}

function gatewayTable(c: Context): Table<Part> {
  return new Table<Part>(t.byGateway, [
    { title: t.gateway, cell: (g) => g.gateway },
    { title: t.demand, number: true, cell: (g) => rate(g.demand) },
    { title: t.admitted, number: true, cell: (g) => meter(g.admitted, g.share, t.usedOf(num(g.admitted), rate(g.share))) },
  ], (g) => g.gateway, c.changed);
}

// Shadowed is what SHADOW has let pass of a limit or a share in the last minute.
interface Shadowed { what: string; activity: Activity; gateways: Activity[] }

function shadowed(w: Why): Shadowed[] {
  const shares = w.explanations.flatMap((e) => e.activity ? [{ what: last(e.pool), activity: e.activity, gateways: [],
    n: Number(e.activity.shadowed) - Number(e.activity.limitShadowed) }] : []);
  const limits = w.limits.flatMap((l) => l.activity ? [{ what: last(l.limit), activity: l.activity, gateways: l.gateways,
    n: Number(l.activity.shadowed) }] : []);
  return [...shares, ...limits].filter((s) => s.n > 0).map((s) => ({ ...s, activity: { ...s.activity,
    shadowed: String(s.n) } }));
}

function shadowTable(c: Context): Table<Shadowed> {
  const count = (a: Activity) => t.wouldCount(num(Number(a.shadowed)), rate(per(a, a.shadowed)));
  return new Table<Shadowed>(t.shadow, [
    { title: t.whatShadows, cell: (s) => s.what },
    { title: t.wouldRefuse, cell: (s) => count(s.activity) },
    { title: t.wouldAt, cell: (s) => s.gateways.filter((g) => g.shadowed !== "0").map((g) =>
      h("div", null, `${g.gateway}: ${num(Number(g.shadowed))}`)) },
  ], (s) => s.what, c.changed);
}

function clientTable(c: Context, id: string): Table<Activity> {
  const left = new Left(c, id);
  return new Table<Activity>(t.clients, [
    { title: t.client, cell: (a) => link(["tenant", id, a.client], a.client) },
    { title: t.limit, cell: (a) => pictureLink(id, a.limit, a.client, limitName(a.limit)) },
    { title: t.pool, cell: (a) => a.pool },
    { title: t.refusedCount, number: true, cell: (a) => num(Number(a.refused)) },
    { title: t.error, number: true, optional: true, cell: (a) => a.error === "0" ? "" : num(Number(a.error)) },
    { title: t.waited, number: true, cell: (a) => duration(a.waitedSeconds) },
    { title: t.left, number: true, optional: true, cell: (a) => left.view(a) },
    { title: t.action, optional: true, cell: (a) => blockButton(c, a.tenant || id, a.client) },
  ], (a) => `${a.client} ${a.limit} ${a.pool}`, c.changed);
}

function quotaTable(c: Context): Table<Quota> {
  return new Table<Quota>(t.quotas, [
    { title: t.pool, cell: (q) => link(["pool", last(q.name)], last(q.name)) },
    { title: t.origin, cell: origin },
    { title: t.guaranteed, number: true, cell: (q) => rate(q.guaranteed) },
    { title: t.max, number: true, optional: true, cell: (q) => q.max === undefined ? "" : rate(q.max) },
    { title: t.weight, number: true, optional: true, cell: (q) => q.weight === undefined ? "" : num(q.weight) },
    { title: t.mode, cell: (q) => badge(q.mode, q.mode === "ENFORCE" ? "" : "warn") },
    { title: t.until, optional: true, cell: (q) => time(q.until) },
    { title: t.share, number: true, cell: (q) => q.status
      ? meter(q.status.admitted, q.status.share, `${rate(q.status.admitted)} / ${rate(q.status.share)}`) : "" },
    { title: t.warnings, optional: true, cell: (q) => q.status?.warnings.join(" ") },
  ], (q) => q.name, c.changed);
}

function limitTable(c: Context): Table<Limit> {
  return new Table<Limit>(t.limits, [
    { title: t.limit, cell: (l) => last(l.name) },
    { title: t.origin, cell: origin },
    { title: t.rate, cell: allowed },
    { title: t.burst, number: true, optional: true, cell: (l) => l.burst ? num(l.burst) : "" },
    { title: t.key, cell: (l) => t.keyOf[l.key] ?? l.key },
    { title: t.mode, cell: (l) => badge(l.mode, l.mode === "ENFORCE" ? "" : "warn") },
    { title: t.precision, cell: (l) => h("span", { title: l.status?.precisionWhy ?? null }, precision(l)) },
    { title: t.until, optional: true, cell: (l) => time(l.until) },
    { title: t.warnings, optional: true, cell: (l) => l.status?.warnings.join(" ") },
  ], (l) => l.name, c.changed);
}

function precision(l: Limit): string {
  return l.status?.precision === "PRECISION_UNSPECIFIED" ? "" : l.status?.precision ?? "";
}

// allowed is what a limit lets a client have.
function allowed(l: Limit): string {
  if (l.quota) return calendar(l.quota);
  return Number(l.concurrency) ? t.concurrency(l.concurrency) : l.rate;
}

type Own = ListedOverride & { limit: string };

function overrideTable(c: Context): Table<Own> {
  return new Table<Own>(t.overrides, [
    { title: t.client, cell: (o) => o.client },
    { title: t.limit, cell: (o) => o.limit },
    { title: t.rate, cell: (o) => o.rate === "0" ? badge("0", "bad") : o.rate },
    { title: t.burst, number: true, optional: true, cell: (o) => o.burst ? num(o.burst) : "" },
    { title: t.until, optional: true, cell: (o) => time(o.until) },
  ], (o) => `${o.limit} ${o.client}`, c.changed);
}

// overrides are those in limits, and the first of those that are apart.
function overrides(limits: Limit[], apart: Override[], table: Table<Own>): Content {
  const own = (o: ListedOverride | Override, limit: string, client: string): Own => ({ ...o, limit, client,
    rate: o.rate || (Number(o.concurrency) ? t.concurrency(o.concurrency) : num(o.amount)) });
  const all = [...limits.flatMap((l) => l.overrides.map((o) => own(o, last(l.name), o.client))),
    ...apart.map((o) => own(o, o.name.split("/")[3] ?? "", decodeURIComponent(last(o.name))))];
  return all.length > 0 && h("details", { open: all.length <= 10 }, h("summary", null, t.overrides), table.view(all));
}

