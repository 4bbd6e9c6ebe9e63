// Who is limited: what became of requests, by tenant, pool, limit, client or gateway. All choices are in the address,
// so that it can be passed on.

import { h, type Content } from "./dom";
import { duration, now, num, per, rate, seconds } from "./format";
import { blockButton } from "./block";
import { pictureLink } from "./picture";
import { known, link, spark, Table, type Column, type Context, type Screen } from "./parts";
import { t } from "./strings";
import type { Activity, Top } from "./types";

const rows = 200;
const only = ["tenant", "pool", "limit", "client", "gateway", "site"] as const;

export function tenantName(name: string): string { return name === "-" ? t.unknownTenant : name; }

export function limitName(name: string): string { return name === "tenant-share" ? t.tenantShare : name; }

// top shows #/top/BY/ORDER/FIELD/NAME/FIELD/NAME…
export function top(c: Context, given: string[]): Screen {
  const by = Object.hasOwn(t.byOf, given[0] ?? "") ? given[0]! : "TENANT";
  const order = Object.hasOwn(t.orderOf, given[1] ?? "") ? given[1]! : "REFUSED";
  const filter: Record<string, string> = {};
  for (let i = 2; i + 1 < given.length; i += 2) filter[given[i]!] = given[i + 1]!;
  const query = new URLSearchParams({ "selection.by": by, "selection.order": order, "selection.most": String(rows) });
  for (const f of only) if (filter[f]) query.set(`selection.${f}`, filter[f]);
  const typed: Record<string, string> = { ...filter };
  const path = `:top?${query}`;
  const go = (b: string, o: string) => {
    location.hash = "/" + ["top", b, o, ...Object.entries(filter).flat()].map(encodeURIComponent).join("/");
  };
  const choice = (label: string, all: Record<string, string>, value: string, chosen: (v: string) => void) =>
    h("label", null, label, " ", h("select", { value, onchange: (e) => chosen((e.target as HTMLSelectElement).value) },
      Object.entries(all).map(([k, v]) => h("option", { key: k, value: k }, v))));
  const field = (f: string) => h("input", { key: f, type: "search", value: typed[f] ?? "",
    oninput: (e) => { typed[f] = (e.target as HTMLInputElement).value; },
    onchange: () => {
      filter[f] = typed[f]?.trim() ?? "";
      if (!filter[f]) delete filter[f];
      go(by, order);
    } });
  const table = new Table<Activity>(t.limited, columns(c, by), (a) =>
    `${a.tenant} ${a.pool} ${a.limit} ${a.client} ${a.gateway} ${a.site}`, c.changed);
  return {
    title: t.limited,
    key: "top",
    paths: () => [path],
    view: () => [
      h("h1", null, t.limited),
      h("div", { class: "controls" },
        choice(t.by, t.byOf, by, (v) => go(v, order)), choice(t.order, t.orderOf, order, (v) => go(by, v)),
        only.map((f) => h("label", null, `${t.only} ${t.byOf[f.toUpperCase()] ?? f} `,
          field(f)))),
      known<Top>(c.live, path, (r) => [
        r.silent.length > 0 && h("p", { class: "note warn" }, t.silent(r.silent.join(", "))),
        r.notes.map((n) => h("p", { class: "note warn" }, n)),
        r.rows.length === 0 ? h("p", { class: "quiet" }, t.idle)
          : table.view(r.other ? [...r.rows, { ...r.other, tenant: "", pool: t.other }] : r.rows),
      ]),
    ],
  };
}

function columns(c: Context, by: string): Column<Activity>[] {
  const name: Column<Activity> = { title: t.ofBy[by] ?? "", cell: (a) => named(a, by) };
  if (by === "CLIENT") {
    return [name, tenantColumn(), { title: t.limit, cell: (a) => pictureLink(a.tenant, a.limit, a.client, limitName(a.limit)) },
      { title: t.refusedCount, number: true, cell: (a) => num(Number(a.refused)) },
      { title: t.error, number: true, optional: true, cell: (a) => a.error === "0" ? "" : num(Number(a.error)) },
      { title: t.waited, number: true, cell: (a) => duration(a.waitedSeconds) },
      { title: t.action, optional: true, cell: (a) => a.client && a.tenant ? blockButton(c, a.tenant, a.client) : "" }];
  }
  return [name, ...by === "LIMIT" ? [tenantColumn()] : [],
    { title: t.nowRefused, number: true, cell: (a) => rate(now(a).refused) },
    { title: t.nowAdmitted, number: true, cell: (a) => by === "LIMIT" && a.limit !== "tenant-share" ? "" : rate(now(a).admitted) },
    { title: t.asked, cell: (a) => spark(a.admittedParts, a.refusedParts) },
    { title: t.minuteRefused, number: true, cell: (a) => rate(per(a, a.refused)) },
    { title: t.waited, number: true, cell: (a) => rate(per(a, a.waited)) },
    { title: t.marked, number: true, cell: (a) => rate(per(a, a.marked)) },
    { title: t.shadowed, number: true, cell: (a) => rate(per(a, a.shadowed)) },
    { title: t.since, number: true, cell: (a) => a.since ? duration(seconds(a.since)) : "" }];
}

function tenantColumn(): Column<Activity> {
  return { title: t.tenant, cell: (a) => a.tenant ? link(["tenant", a.tenant], tenantName(a.tenant)) : "" };
}

function named(a: Activity, by: string): Content {
  if (a.pool === t.other && !a.tenant && !a.client) return h("em", null, t.other);
  switch (by) {
    case "POOL": return link(["pool", a.pool], a.pool);
    case "LIMIT": return limitName(a.limit);
    case "CLIENT": return link(["tenant", a.tenant, a.client], a.client);
    case "SITE": return link(["top", "TENANT", "REFUSED", "site", a.site ?? ""], t.site(a.site ?? ""));
    case "GATEWAY": return link(["top", "TENANT", "REFUSED", "gateway", a.gateway], a.gateway);
    default: return link(["tenant", a.tenant], tenantName(a.tenant));
  }
}
