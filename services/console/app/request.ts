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
    { title: t.free, number: true, cell: (l) => `${num(l.free)} / ${num(Number(l.concurrency) || l.burst)}` },
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

function decision(d: Decision, i: number, limits: Table<LimitStep>): Tree {
  const waited = seconds(d.waited);
  return h("article", { key: `${d.gateway} ${i}`, class: "card" },
    h("h2", null, t.decisionAt(d.gateway, duration(seconds(d.ago)))),
    h("p", null, badge(t.outcome(d.refused, d.reason), d.refused ? "bad" : "good"), " ",
      d.marked && badge(t.marked, "warn"), " ", d.shadowed && badge(t.shadowed, "warn")),
    figures([[t.client, d.client], [t.pool, d.pool], [t.limit, limitName(d.limit)], [t.revision, d.revision]]),
    h("p", null, link(["tenant", d.tenant], d.tenant)),
    h("h3", null, t.stepsTitle),
    h("ol", { class: "steps" }, d.steps.map((s) => h("li", null, s))),
    waited > 0 && h("p", null, t.waitedFor(duration(waited), limitName(d.heldBy))),
    d.retryAfter && h("p", null, t.retryAfter(duration(seconds(d.retryAfter)))),
    d.share && h("p", null, t.shareThen(rate(d.share.share), rate(d.share.rate), d.share.waiting)),
    d.limits.length > 0 && [h("h3", null, t.limitsThen), limits.view(d.limits)]);
}
