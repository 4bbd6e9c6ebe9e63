// A change in three steps: plan, show, confirm. Nothing else in the console changes the configuration.

import { get, post, problemOf } from "./api";
import { h, type Content } from "./dom";
import { last, num, rate, time } from "./format";
import { failed, loading, Table, type Context } from "./parts";
import { t } from "./strings";
import type { Change, FlowEffect, Plan, PoolEffect, Problem } from "./types";

// Proposal is a change that may be confirmed. ask makes the question of Plan; the effects are for the demand of then.
// commit makes the change, if the configuration has still the revision of the plan.
export interface Proposal {
  title: string;
  ask(): Promise<unknown>;
  commit(revision: string, message: string): Promise<{ revision: string }>;
}

// propose opens the dialog of a proposal.
export function propose(c: Context, p: Proposal): void {
  let plan: Plan | null = null, problem: Problem | null = null, busy = false, message = "", done = "";
  const ticked = new Set<number>(); // guards, by place in the plan
  const planned = async () => {
    plan = problem = null;
    ticked.clear();
    c.changed();
    try {
      plan = await post<Plan>(":plan", await p.ask());
    } catch (e) {
      problem = problemOf(e);
    }
    c.changed();
  };
  const commit = async () => {
    if (!plan || busy || ticked.size < plan.guards.length) return;
    busy = true;
    c.changed();
    try {
      done = (await p.commit(plan.revision, message)).revision;
      problem = null;
    } catch (e) {
      problem = problemOf(e);
    }
    busy = false;
    c.changed();
  };
  const effects = new Effects(c);
  c.dialog(() => [
    h("h2", null, p.title),
    problem && (problem.status === 409 ? h("p", { class: "note error", role: "alert" }, t.conflict, " ",
      h("button", { type: "button", onclick: () => void planned() }, t.plan)) : failed(problem)),
    done ? h("p", { class: "note good", role: "status" }, t.done(done))
      : plan ? effects.view(plan, ticked) : !problem && loading(),
    !done && plan && plan.changes.length > 0 && h("label", { class: "block" }, t.reason, " ", h("input", { type: "text",
      maxlength: 1000, value: message, oninput: (e) => { message = (e.target as HTMLInputElement).value; } })),
    h("div", { class: "controls" },
      !done && plan && plan.changes.length > 0 && h("button", { type: "button", class: "primary",
        key: "confirm", "aria-disabled": busy || ticked.size < plan.guards.length ? "true" : null, onclick: () => void commit() },
        busy ? t.applying : t.confirm),
      h("button", { key: "close", type: "button", onclick: () => c.dialog(null) }, done ? t.close : t.cancel)),
  ]);
  void planned();
}

// requestID is new for each change that is meant.
export function requestID(): string { return crypto.randomUUID(); }

const shown = 100; // changes of a plan

// Effects shows a plan.
export class Effects {
  private readonly pools: Table<PoolEffect>;
  private readonly flows: Table<FlowEffect>;

  constructor(private readonly c: Context) {
    const arrow = (a: number, b: number) => a === b ? rate(a) : `${rate(a)} → ${rate(b)}`;
    this.pools = new Table<PoolEffect>(t.pools, [
      { title: t.pool, cell: (p) => last(p.pool) },
      { title: t.capacity, number: true, cell: (p) => arrow(p.capacityBefore, p.capacityAfter) },
      { title: t.fairLevel, number: true, cell: (p) => arrow(p.fairRateBefore, p.fairRateAfter) },
      { title: t.guaranteed, number: true, cell: (p) => arrow(p.guaranteedBefore, p.guaranteedAfter) },
    ], (p) => p.pool, c.changed);
    this.flows = new Table<FlowEffect>(t.shares, [
      { title: t.tenant, cell: (f) => last(f.tenant) },
      { title: t.pool, cell: (f) => last(f.pool) },
      { title: t.demand, number: true, cell: (f) => arrow(f.demandBefore, f.demandAfter) },
      { title: t.share, number: true, cell: (f) => arrow(f.shareBefore, f.shareAfter) },
    ], (f) => `${f.tenant} ${f.pool}`, c.changed);
  }

  // view shows a plan. With ticked each guard has a box, and ticked has those that the reader has ticked.
  view(p: Plan, ticked?: Set<number>): Content {
    if (p.changes.length === 0) return h("p", { class: "quiet" }, t.planNothing);
    return [
      p.guards.length > 0 && h("div", { class: "note warn", role: "alert" },
        h("strong", null, ticked ? t.guardsTick : t.guards),
        h("ul", null, p.guards.map((g, i) => h("li", null, ticked ? h("label", null, h("input", { type: "checkbox",
          checked: ticked.has(i), onchange: (e) => {
            if ((e.target as HTMLInputElement).checked) ticked.add(i);
            else ticked.delete(i);
            this.c.changed();
          } }), " ", g.message) : g.message)))),
      p.warnings.map((w) => h("p", { class: "note warn" }, `${w.resource}: ${w.message}`)),
      h("h3", null, t.planTitle), p.changes.slice(0, shown).map(diff),
      p.changes.length > shown && h("p", { class: "note warn" }, t.diffMore(num(p.changes.length - shown))),
      h("h3", null, t.effects),
      p.effectsUnknown ? h("p", { class: "note warn" }, t.effectsUnknown(p.effectsUnknown))
        : p.flows.length + p.pools.length === 0 ? h("p", { class: "quiet" }, t.noEffects)
          : [p.pools.length > 0 && this.pools.view(p.pools), p.flows.length > 0 && this.flows.view(p.flows)],
    ];
  }
}

const unsaid = new Set(["name", "etag", "updateTime", "status"]);

// diff shows what becomes of one resource.
export function diff(change: Change): Content {
  const before = fields(change.before), after = fields(change.after);
  const names = [...new Set([...before.keys(), ...after.keys()])].filter((k) => before.get(k) !== after.get(k));
  const how = !change.before ? t.created : !change.after ? t.deleted : t.changed;
  return h("div", { key: change.name, class: "diff" }, h("p", null, h("strong", null, change.name), ` ${how}`),
    h("dl", null, names.map((k) => h("div", { key: k }, h("dt", null, k), h("dd", null,
      before.has(k) && h("del", null, before.get(k)), " ", after.has(k) && h("ins", null, after.get(k)))))));
}

// fields are the fields of a resource that somebody has said, as path and text.
function fields(resource: Record<string, unknown> | undefined): Map<string, string> {
  const out = new Map<string, string>();
  const walk = (path: string, v: unknown) => {
    if (Array.isArray(v)) v.forEach((one, i) => walk(`${path}[${named(one) ?? i}]`, one));
    else if (v && typeof v === "object") {
      for (const [k, one] of Object.entries(v)) if (path || !unsaid.has(k)) walk(path ? `${path}.${k}` : k, one);
    } else out.set(path, readable(v));
  };
  for (const one of Object.values(said(resource ?? {}))) walk("", one); // the kind of resource is the only field
  return out;
}

// readable is a value for people, as exact as it is: a time in the reader's zone, a large number in groups.
function readable(v: unknown): string {
  if (typeof v === "number" && Number.isInteger(v)) return num(v);
  return typeof v === "string" && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(v) ? time(v) : String(v);
}

function named(v: unknown): unknown {
  return v && typeof v === "object" && "client" in v ? v.client : undefined;
}

// stored reads a resource as it can be applied again: without its status, and without fields that nobody has said. The
// API answers those by their zero, which it does not take for all of them.
export async function stored<T extends object>(path: string): Promise<T> {
  const { status: _, ...rest } = await get<T & { status?: unknown }>(path);
  return said(rest) as T;
}

export function said(v: object): object {
  return Object.fromEntries(Object.entries(v).map(([k, one]: [string, unknown]): [string, unknown] =>
    [k, Array.isArray(one) ? one.map((x) => x && typeof x === "object" ? said(x as object) : x as unknown)
      : one && typeof one === "object" ? said(one) : one]).filter(([k, one]) => !unset(k, one)));
}

// A max or a weight of 0 means something, as has a rate, which is a text.
const zeros = new Set(["max", "weight"]);

function unset(name: string, v: unknown): boolean {
  return v === false || v === "" || v === null || v === undefined || v === 0 && !zeros.has(name) ||
    v === "0" && name === "concurrency" || typeof v === "string" && v.endsWith("_UNSPECIFIED") ||
    Array.isArray(v) && v.length === 0;
}
