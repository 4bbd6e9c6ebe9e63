// Pool: its water, its history, its tenants, and what another capacity or weight would do.

import { post, problemOf } from "./api";
import type { History } from "./chart";
import { h, type Content } from "./dom";
import { last, now, num, per, rate } from "./format";
import { poolFigures, remember } from "./fleet";
import { Hour } from "./hour";
import { body, failed, fresh, known, link, loading, section, spark, Table, type Context, type Screen } from "./parts";
import { Effects, stored } from "./plan";
import { byTenant, found, picture, Weights } from "./pools";
import { t } from "./strings";
import { tenantName } from "./top";
import type { Activity, Plan, Pool, Problem, Tenant, Top } from "./types";

export function pool(c: Context, history: History, id: string): Screen {
  const path = `/pools/${encodeURIComponent(id)}`, top = byTenant(id);
  const weights = new Weights(c.changed), try_ = new WhatIf(c, id), hour = new Hour(c.changed, history);
  const table = new Table<Activity>(t.tenants, [
    { title: t.tenant, cell: (a) => a.tenant ? link(["tenant", a.tenant], tenantName(a.tenant)) : h("em", null, t.other) },
    { title: t.weight, number: true, cell: (a) => a.tenant ? num(weights.of(a.tenant, id)) : "" },
    { title: t.nowAdmitted, number: true, cell: (a) => rate(now(a).admitted) },
    { title: t.nowRefused, number: true, cell: (a) => rate(now(a).refused) },
    { title: t.asked, cell: (a) => spark(a.admittedParts, a.refusedParts) },
    { title: t.waited, number: true, cell: (a) => rate(per(a, a.waited)) },
    { title: t.marked, number: true, cell: (a) => rate(per(a, a.marked)) },
  ], (a) => a.tenant, c.changed);
  return {
    title: `${t.pool} ${id}`,
    heard: () => {
      const p = fresh<Pool>(c.live, path);
      if (p) remember(history, p);
    },
    paths: () => [path, top],
    view: () => [
      h("h1", null, `${t.pool} `, h("bdi", null, id)),
      known<Pool>(c.live, path, (p) => [
        poolFigures(p, [[t.sharing, p.sharing]]),
        known<Top>(c.live, top, (r) => picture(p, id, r, weights)),
        hour.view(p, true),
        section(t.tenants, known<Top>(c.live, top, (r) => r.rows.length === 0 ? h("p", { class: "quiet" }, t.idle)
          : table.view(r.other ? [...r.rows, { ...r.other, tenant: "" }] : r.rows)),
          h("p", null, link(["top", "TENANT", "REFUSED", "pool", id], t.limited))),
        section(t.whatIf, try_.view(p, body<Top>(c.live, top)?.rows.map((a) => a.tenant) ?? [])),
      ]),
    ],
  };
}

// WhatIf plans a change and never makes it.
class WhatIf {
  private capacity = "";
  private tenant = "";
  private weight = "";
  private more = "";
  private asks = "";
  private plan: Plan | null = null;
  private problem: Problem | null = null;
  private busy = false;
  private readonly effects: Effects;

  constructor(private readonly c: Context, private readonly id: string) { this.effects = new Effects(c); }

  private async ask(): Promise<void> {
    if (this.busy || !this.asked()) return;
    this.busy = true;
    this.plan = this.problem = null;
    this.c.changed();
    try {
      const resources: unknown[] = [];
      if (this.capacity) {
        const p = await stored<Pool>(`/pools/${encodeURIComponent(this.id)}`);
        resources.push({ pool: { ...p, capacity: Number(this.capacity) } });
      }
      if (this.tenant && this.weight) {
        const x = await stored<Tenant>(`/tenants/${encodeURIComponent(this.tenant)}`);
        resources.push({ tenant: { ...x, weight: Number(this.weight) } });
      }
      const suppose: unknown[] = [];
      if (this.more && this.asks) {
        const tenant = `tenants/${await unused()}`;
        resources.push({ tenant: { name: tenant, weight: Number(this.more) } });
        suppose.push({ tenant, pool: `pools/${this.id}`, demand: Number(this.asks) });
      }
      this.plan = await post<Plan>(":plan", { apply: { resources }, suppose });
    } catch (e) {
      this.problem = problemOf(e);
    }
    this.busy = false;
    this.c.changed();
  }

  private asked(): boolean {
    return Boolean(this.capacity || this.tenant && this.weight || this.more && this.asks);
  }

  view(p: Pool, tenants: string[]): Content {
    const number = (label: string, value: string, placeholder: string, typed: (v: string) => void) =>
      h("label", null, `${label} `, h("input", { type: "number", min: 0, step: "any", value, placeholder,
        oninput: (e) => { typed((e.target as HTMLInputElement).value); this.c.changed(); } }));
    return [
      h("p", { class: "quiet" }, t.whatIfHelp),
      h("form", { class: "controls", onsubmit: (e) => { e.preventDefault(); void this.ask(); } },
        number(t.capacity, this.capacity, num(p.capacity), (v) => { this.capacity = v; }),
        h("label", null, `${t.addTenant} `, h("select", { value: this.tenant, onchange: (e) => {
          this.tenant = (e.target as HTMLSelectElement).value;
          this.c.changed();
        } }, h("option", { value: "" }, t.noneSelected), tenants.filter((x) => x !== "-").sort().map((x) =>
          h("option", { key: x, value: x }, last(x))))),
        number(t.weight, this.weight, "", (v) => { this.weight = v; }),
        h("fieldset", null, h("legend", null, t.oneMore),
          number(t.oneMoreWeight, this.more, "", (v) => { this.more = v; }),
          number(t.oneMoreDemand, this.asks, "", (v) => { this.asks = v; })),
        h("button", { type: "submit", class: "primary", "aria-disabled": this.busy || !this.asked() ? "true" : null }, t.plan)),
      this.problem && failed(this.problem), this.busy && loading(), this.plan && this.effects.view(this.plan),
    ];
  }
}

// unused is a name that no tenant has.
async function unused(): Promise<string> {
  for (let n = 0; ; n++) {
    const name = t.oneMoreName(n);
    if (!await found<Tenant>(`/tenants/${name}`)) return name;
  }
}
