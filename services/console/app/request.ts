// One request: what gateways decided about the request of an ID, step by step.

import { get, problemOf } from "./api";
import { h, type Content, type Tree } from "./dom";
import { duration, num, rate, seconds } from "./format";
import { badge, failed, figures, link, loading, Table, type Context, type Screen } from "./parts";
import { t } from "./strings";
import { limitName } from "./top";
import type { Decision, Decisions, LimitStep, Problem } from "./types";

const shown = 10; // decisions about one ID, the latest

export function request(c: Context, id: string | undefined): Screen {
  let found: Decisions | null = null, problem: Problem | null = null, typed = id ?? "";
  if (id) {
    get<Decisions>(`/requests/${encodeURIComponent(id)}`).then((d) => { found = d; c.changed(); },
      (e: unknown) => { problem = problemOf(e); c.changed(); });
  }
  const limits = new Table<LimitStep>(t.limitsThen, [
    { title: t.limit, cell: (l) => l.limit },
    { title: t.client, cell: (l) => l.client },
    { title: t.passes, cell: (l) => badge(l.passes ? t.yes : t.no, l.passes ? "good" : "bad") },
    { title: t.free, number: true, cell: (l) => free(l) },
    { title: t.rate, number: true, cell: (l) => l.rate ? rate(l.rate) : "" },
  ], (l) => `${l.limit} ${l.client}`, c.changed);
  return {
    title: t.request,
    paths: () => [],
    view: () => [
      h("h1", null, t.request),
      h("p", { class: "quiet" }, t.requestHelp),
      h("form", { class: "controls", onsubmit: (e) => {
        e.preventDefault();
        if (typed.trim()) location.hash = `/request/${encodeURIComponent(typed.trim())}`;
      } }, h("label", null, `${t.requestId} `, h("input", { type: "text", value: typed, maxlength: 128, size: 40,
        oninput: (e) => { typed = (e.target as HTMLInputElement).value; } })),
      h("button", { type: "submit", class: "primary" }, t.find)),
      problem && failed(problem),
      id && !found && !problem && loading(),
      found && answer(found, limits),
    ],
  };
}

function answer(r: Decisions, limits: Table<LimitStep>): Content {
  return [
    r.silent.length > 0 && h("p", { class: "note warn" }, t.silent(r.silent.join(", "))),
    r.notes.map((n) => h("p", null, n)),
    r.decisions.slice(0, shown).map((d, i) => decision(d, i, limits)),
    r.decisions.length > shown && h("p", { class: "quiet" }, t.moreDecisions(num(r.decisions.length - shown))),
  ];
}

// free is what a limit had left, of what if that is known.
function free(l: LimitStep): string {
  const of = Number(l.concurrency) || l.burst;
  return of > 0 ? t.usedOf(num(l.free), num(of)) : num(l.free);
}

interface Moment { at: number; texts: string[] } // at in seconds after the request has come

// events are what happened to a request, and what may happen after it, in order of time.
function events(d: Decision): Moment[] {
  const waited = seconds(d.waited), held = limitName(d.heldBy), later: Moment[] = [];
  for (const l of d.limits) if (l.wait && !l.passes) later.push({ at: waited + seconds(l.wait), texts: [t.wouldPass(l.limit)] });
  if (d.retryAfter) later.push({ at: waited + seconds(d.retryAfter), texts: [t.mayRepeat] });
  later.sort((a, b) => a.at - b.at);
  return waited > 0 ? [{ at: 0, texts: [t.arrives(d.gateway), t.waits(held)] }, { at: waited, texts: d.steps }, ...later]
    : [{ at: 0, texts: [t.arrives(d.gateway), ...d.steps] }, ...later];
}

const clockTime = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit",
  fractionalSecondDigits: 3, hourCycle: "h23" });
const opened = new WeakMap<Decision, number>(); // when its age was known, ms

// clock is when a request came, in the reader's zone.
function clock(d: Decision, waited: number): string {
  const known = opened.get(d) ?? Date.now();
  opened.set(d, known);
  return clockTime.format(new Date(known - (seconds(d.ago) + waited) * 1000));
}

// line draws how long a request waited, and for how long it is not to be sent again.
function line(waited: number, retry: number): Content {
  const all = waited + retry;
  const part = (kind: string, length: number) => length > 0 && h("div", { class: kind,
    css: { "flex-grow": String(Math.max(length / all, .04)) } }, `${t.segments[kind] ?? ""} ${duration(length)}`);
  return all > 0 && h("div", { class: "line-of-time", role: "img",
    "aria-label": t.lineTitle(duration(waited), retry > 0 ? duration(retry) : "") }, part("waited", waited),
  h("div", { class: "decided" }), part("retry", retry));
}

function decision(d: Decision, i: number, limits: Table<LimitStep>): Tree {
  const waited = seconds(d.waited);
  return h("article", { key: `${d.gateway} ${i}`, class: "card" },
    h("h2", null, t.decisionAt(d.gateway, duration(seconds(d.ago)))),
    h("p", null, badge(t.outcome(d.refused, d.reason), d.refused ? "bad" : "good"), " ",
      d.marked && badge(t.marked, "warn"), " ", d.shadowed && badge(t.shadowed, "warn")),
    figures([[t.siteOf, d.site], [t.client, d.client], [t.pool, d.pool], [t.limit, limitName(d.limit)], [t.revision, d.revision]]),
    h("p", null, link(["tenant", d.tenant], d.tenant)),
    line(waited, seconds(d.retryAfter)),
    h("details", { open: i === 0 }, h("summary", null, t.stepsTitle), h("ol", { class: "timeline" }, events(d).map((e) =>
      h("li", null, h("span", { class: "at" }, e.at === 0 ? clock(d, waited) : `+${duration(e.at)}`),
        h("div", null, e.texts.map((s) => h("p", null, s)))))),
    d.share && h("p", null, t.shareThen(rate(d.share.share), rate(d.share.rate), d.share.waiting)),
    d.limits.length > 0 && [h("h3", null, t.limitsThen), limits.view(d.limits)]));
}
