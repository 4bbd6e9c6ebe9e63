// Changes: the history, what a revision changed, and the way back with its plan; sets and conflicts.

import { get, may, post, problemOf } from "./api";
import { h, type Content } from "./dom";
import { num, time } from "./format";
import { failed, known, link, loading, section, Table, type Context, type Screen } from "./parts";
import { diff, propose, requestID } from "./plan";
import { Conflicts, Contents, setsOf, setTable, type Detail } from "./sets";
import { t } from "./strings";
import type { Problem, Revision } from "./types";

interface Page { revisions: Revision[]; nextPageToken: string }

const page = 50;
const path = `/revisions?page_size=${page}`;

// revisions shows #/changes/REVISION or #/changes/set/SET, without them the list alone.
export function revisions(c: Context, given: string[]): Screen {
  const set = given[0] === "set" ? given[1] ?? "" : "", chosen = set ? undefined : given[0];
  const contents = set ? new Contents(c, set) : null, sets = setTable(c), conflicts = new Conflicts(c);
  let older: Revision[] = [], token: string | null = null, problem: Problem | null = null;
  let detail: Detail | null = null, mayRollback = false;
  may("rollback", "pools/x").then((yes) => { mayRollback = yes; c.changed(); }, () => { /* then it may not */ });
  if (chosen) {
    get<Detail>(`/revisions/${encodeURIComponent(chosen)}?max_changes=200`).then((d) => { detail = d; c.changed(); },
      (e: unknown) => { problem = problemOf(e); c.changed(); });
  }
  const table = new Table<Revision>(t.revisions, [
    { title: t.revision, cell: (r) => link(["changes", r.revision], r.revision) },
    { title: t.when, cell: (r) => time(r.time) },
    { title: t.who, cell: (r) => r.author },
    { title: t.what, cell: (r) => `${r.action}: ${t.counts(r.created, r.updated, r.deleted)}` },
    { title: t.message, optional: true, cell: (r) => r.message },
    { title: t.set, optional: true, cell: (r) => r.set && link(["changes", "set", r.set], r.set) },
  ], (r) => r.revision, c.changed);
  const more = async (from: string) => {
    try {
      const r = await get<Page>(
        `${path}&page_token=${encodeURIComponent(from)}`);
      older = older.concat(r.revisions);
      token = r.nextPageToken;
    } catch (e) {
      problem = problemOf(e);
    }
    c.changed();
  };
  return {
    title: t.changes,
    paths: () => [path],
    view: () => [
      h("h1", null, t.changes),
      problem && failed(problem),
      chosen && section(t.diffOf(chosen), detail ? shown(c, detail, mayRollback) : !problem && loading()),
      contents && section(t.setOf(set), contents.view()),
      section(t.revisions, known<Page>(c.live, path, (r) => {
        const all = [...r.revisions, ...older.filter((o) => !r.revisions.some((x) => x.revision === o.revision))];
        const from = token ?? r.nextPageToken;
        return [all.length === 0 ? h("p", { class: "quiet" }, t.noRevisions) : table.view(all),
          from && h("button", { type: "button", onclick: () => void more(from) }, t.older)];
      })),
      known<Page>(c.live, path, (r) => {
        const named = setsOf([...r.revisions, ...older]);
        return [section(t.sets, h("p", { class: "quiet" }, t.setsHelp),
          named.length > 0 ? sets.view(named) : h("p", { class: "quiet" }, t.noSets)),
        section(t.conflicts, conflicts.view(r.revisions))];
      }),
    ],
  };
}

function shown(c: Context, d: Detail, mayRollback: boolean): Content {
  const id = d.revision.revision;
  return [
    d.revision.bytes === "0" && d.changes.length === 0 ? h("p", { class: "quiet" }, t.notKept) : d.changes.map(diff),
    d.more !== "0" && h("p", { class: "quiet" }, t.diffMore(num(Number(d.more)))),
    c.changes() && mayRollback && h("button", { type: "button", class: "primary", onclick: () => rollback(c, id) },
      t.rollback),
  ];
}

function rollback(c: Context, revision: string): void {
  const id = requestID();
  propose(c, {
    title: t.rollbackTitle(revision),
    ask: () => Promise.resolve({ rollback: revision }),
    commit: (expected, message) => post(`/revisions/${encodeURIComponent(revision)}:rollback`,
      { message, expectedRevision: expected, requestId: id }),
  });
}
