// Limit as picture: the bucket of a client, at its owner and at each gateway, with the tokens that are on their way.

import { kinds, overTime, type History, type Line } from "./chart";
import { h, type Content, type Tree } from "./dom";
import { duration, num, rate, seconds } from "./format";
import { known, link, section, Table, type Context, type Screen } from "./parts";
import { t } from "./strings";
import { limitName } from "./top";
import type { Activity, Bucket, GatewayBucket, Owner, Top } from "./types";

const choices = ":top?selection.by=CLIENT&selection.order=REFUSED&selection.most=20";
const drawn = 12; // gateways with a picture

// pictureLink leads from a client's row to its picture. A share of a pool is no bucket.
export function pictureLink(tenant: string, limit: string, client: string, text: string): Content {
  return isBucket(tenant, limit) ? link(["limit", tenant, limit, client], text) : text;
}

// isBucket is false of a share of a pool.
export function isBucket(tenant: string, limit: string): boolean {
  return tenant !== "" && tenant !== "-" && limit !== "" && limit !== "tenant-share" && limit !== "other";
}

// picture shows #/limit/TENANT/LIMIT/CLIENT, without them the choice.
export function picture(c: Context, history: History, given: string[]): Screen {
  const [tenant, limit, client] = [given[0] ?? "", given[1] ?? "", given[2] ?? ""];
  return tenant && limit ? bucketScreen(c, history, tenant, limit, client) : choiceScreen(c);
}

function choiceScreen(c: Context): Screen {
  const typed: Record<string, string> = { tenant: "", limit: "", client: "" };
  const field = (name: string, label: string, required: boolean) => h("label", null, `${label} `, h("input", {
    type: "text", value: typed[name] ?? "", required, maxlength: 1024,
    oninput: (e) => { typed[name] = (e.target as HTMLInputElement).value; } }));
  const table = new Table<Activity>(t.picture, [
    { title: t.client, cell: (a) => pictureLink(a.tenant, a.limit, a.client, a.client) },
    { title: t.tenant, cell: (a) => a.tenant },
    { title: t.limit, cell: (a) => limitName(a.limit) },
    { title: t.refusedCount, number: true, cell: (a) => num(Number(a.refused)) },
  ], (a) => `${a.tenant} ${a.limit} ${a.client} ${a.pool}`, c.changed);
  return {
    title: t.picture,
    paths: () => [choices],
    view: () => [
      h("h1", null, t.picture), h("p", { class: "quiet" }, t.pictureHelp),
      h("form", { class: "controls", onsubmit: (e) => {
        e.preventDefault();
        location.hash = "/" + ["limit", typed["tenant"]!, typed["limit"]!, typed["client"]!].map((p) =>
          encodeURIComponent(p.trim())).join("/");
      } }, field("tenant", t.tenant, true), field("limit", t.limit, true), field("client", t.client, false),
      h("button", { type: "submit", class: "primary" }, t.pictureShow)),
      known<Top>(c.live, choices, (r) => {
        const rows = r.rows.filter((a) => a.client && a.limit && a.limit !== "tenant-share");
        return rows.length === 0 ? h("p", { class: "quiet" }, t.noClients) : table.view(rows);
      }),
    ],
  };
}

// Rates has what was granted to each gateway, per second, between the last two answers.
class Rates {
  private before = new Map<string, { at: number; granted: number; returned: number }>();
  private readonly of = new Map<string, { granted: number; returned: number }>();

  take(b: Bucket): void {
    const at = Date.now(), next = new Map<string, { at: number; granted: number; returned: number }>();
    for (const g of b.gateways) {
      const was = this.before.get(id(g)), s = was ? (at - was.at) / 1000 : 0;
      next.set(id(g), s < .4 && was ? was : { at, granted: g.granted, returned: g.returned });
      if (was && s >= .4) {
        this.of.set(id(g), { granted: Math.max(0, g.granted - was.granted) / s,
          returned: Math.max(0, g.returned - was.returned) / s });
      }
    }
    this.before = next;
  }

  granted(g: GatewayBucket): number { return this.of.get(id(g))?.granted ?? 0; }

  returned(g: GatewayBucket): number { return this.of.get(id(g))?.returned ?? 0; }
}

function id(g: GatewayBucket): string { return `${g.gateway} ${g.agent}`; }

function isUsed(g: GatewayBucket): boolean {
  return g.free !== undefined || g.tokens > 0 || g.whole || g.need > 0 || g.recalled || g.granted > 0;
}

function bucketScreen(c: Context, history: History, tenant: string, limit: string, client: string): Screen {
  const path = `/tenants/${encodeURIComponent(tenant)}/limits/${encodeURIComponent(limit)}:bucket?client=${
    encodeURIComponent(client)}`;
  const rates = new Rates(), lines: string[] = []; // gateways that have a line, in the order in which they came
  const heard = () => {
    const a = c.live.answer(path), b = a?.status === 200 ? a.body as Bucket : undefined;
    if (!b) return;
    rates.take(b);
    const has = (g: GatewayBucket) => b.owners.length > 0 ? isUsed(g) && !g.whole ? g.tokens : undefined : g.free;
    const owners = b.owners.slice(1); // of other sites
    for (const o of owners) if (lines.length < kinds.length && !lines.includes(ownerId(o))) lines.push(ownerId(o));
    for (const g of b.gateways) {
      if (has(g) !== undefined && lines.length < kinds.length && !lines.includes(id(g))) lines.push(id(g));
    }
    const of = (l: string) => owners.find((o) => ownerId(o) === l)?.free ??
      b.gateways.filter((g) => id(g) === l).map(has)[0] ?? NaN;
    history.add(path, [b.owners[0]?.free ?? NaN, ...lines.map(of)]);
  };
  return {
    title: `${t.picture} ${limit}`,
    heard,
    paths: () => [path],
    view: () => [
      h("h1", null, h("bdi", null, client || t.whole)),
      h("p", null, link(["tenant", tenant], t.pictureOf(limit, tenant))),
      known<Bucket>(c.live, path, (b) => {
        const used = b.gateways.filter(isUsed);
        return [
          b.silent.length > 0 && h("p", { class: "note warn" }, t.silent(b.silent.join(", "))),
          h("p", null, b.sentence),
          h("div", { class: "flows" }, b.exact && b.owners.map((o) => ownerPicture(b, o)),
            h("div", { class: "row" }, used.slice(0, drawn).map((g) => gatewayPicture(b, g, rates)))),
          b.gateways.length > Math.min(used.length, drawn) &&
            h("p", { class: "quiet" }, t.pictureMore(num(b.gateways.length - Math.min(used.length, drawn)))),
          h("p", { class: "quiet" }, b.exact ? t.howExact : t.howLocal),
          section(t.tokensOver, overTime(b.owners.length > 0 ? t.tokensTitle : t.viewsTitle, history.of(path), legend(b, lines))),
        ];
      }),
    ],
  };
}

function legend(b: Bucket, lines: string[]): Line[] {
  const name = (l: string) => l.startsWith(" ") ? t.tokensAtOwner(l.slice(1)) : l.split(" ")[0] ?? l;
  return [{ name: t.tokensAtOwner(b.owners[0]?.agent ?? ""), kind: "admitted", text: num },
    ...lines.map((l, i) => ({ name: name(l), kind: kinds[i]!, text: num }))];
}

function level(value: number, burst: number): Tree {
  const part = burst > 0 ? Math.min(1, Math.max(0, value / burst)) : 0;
  return h("div", { class: "bucket", "aria-hidden": "true" },
    h("div", { class: "admitted", css: { height: `${(part * 100).toFixed(1)}%` } }));
}

// ownerId names the line of an owner: no gateway's begins with a space.
const ownerId = (o: Owner) => ` ${o.agent}`;

function ownerPicture(b: Bucket, o: Owner): Tree {
  return h("article", { key: ownerId(o), class: "card keeper" }, h("h2", null, t.tokensAtOwner(o.agent)), level(o.free, b.burst),
    h("p", null, o.free < 0 ? t.debt(num(-o.free)) : t.tokens(num(o.free), num(b.burst)), h("br", null),
      t.outside(num(o.out)), h("br", null), t.refill(rate(b.rate))));
}

// gatewayPicture is a gateway below its pipe: down are tokens that come, up are those that go back, or announcements.
function gatewayPicture(b: Bucket, g: GatewayBucket, rates: Rates): Tree {
  const down = b.exact && !g.whole && rates.granted(g) > 0, up = b.exact ? rates.returned(g) > 0 || g.recalled : g.rate > 0;
  const has = g.whole ? b.burst : b.exact && b.owners.length > 0 ? g.tokens : g.free ?? b.burst;
  return h("article", { key: id(g), class: "card gate" },
    h("svg", { class: "pipe", viewBox: "0 0 40 44", "aria-hidden": "true" },
      h("path", { class: down ? "flow down" : "flow", d: "M14 2V42" }),
      h("path", { class: up ? "flow up" : "flow", d: "M26 42V2" }),
      down && h("path", { class: "head", d: "M9 36l5 6 5-6" }), up && h("path", { class: "head", d: "M21 8l5-6 5 6" })),
    h("h2", null, g.gateway || t.unnamed(g.agent)), level(has, b.burst),
    h("p", null, says(b, g, rates).flatMap((s) => [s, h("br", null)])));
}

function says(b: Bucket, g: GatewayBucket, rates: Rates): string[] {
  const out: string[] = [];
  if (g.whole) out.push(t.hasBucket);
  else if (b.exact && b.owners.length > 0) out.push(t.hasTokens(num(g.tokens)));
  if (!b.exact || b.owners.length === 0 || g.whole) out.push(g.free === undefined ? t.knowsFull : t.knowsLeft(num(g.free)));
  if (rates.granted(g) > 0) out.push(t.granting(rate(rates.granted(g))));
  if (g.need > 0) out.push(t.asksFor(num(g.need)));
  if (g.recalled) out.push(t.givesBack);
  if (g.rate > 0) out.push(t.claims(rate(g.rate)));
  if (!b.exact && g.reported) out.push(t.announcing(duration(seconds(g.reported))));
  return out;
}
