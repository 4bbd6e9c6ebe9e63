// Sets: what belongs to one, and what of it was changed by somebody else.

import { get, problemOf } from "./api";
import { h, type Content } from "./dom";
import { num, time } from "./format";
import { badge, failed, link, loading, Table, type Context } from "./parts";
import { t } from "./strings";
import type { Change, Problem, Revision } from "./types";

export interface Detail { revision: Revision; changes: Change[]; more: string }

interface Owned { name: string; set: string }

const kinds: Record<string, string> = { pools: "/pools", plans: "/plans", tenants: "/tenants",
  quotas: "/tenants/*/quotas", limits: "/tenants/*/limits", overrides: "/tenants/*/overrides" };

// Contents reads which resources belong to a set: a page whenever it is drawn, so none once the reader has left.
export class Contents {
  private readonly all: Owned[] = [];
  private readonly pages = this.read();
  private reading = false;
  private done = false;
  private problem: Problem | null = null;
  private readonly table: Table<Owned>;

  constructor(private readonly c: Context, private readonly set: string) {
    this.table = new Table<Owned>(t.setOf(set), [{ title: t.resource, cell: (o) => o.name }], (o) => o.name, c.changed);
  }

  private async next(): Promise<void> {
    this.reading = true;
    try {
      this.done = (await this.pages.next()).done ?? false;
    } catch (e) {
      this.problem = problemOf(e);
      this.done = true;
    }
    this.reading = false;
    this.c.changed();
  }

  private async *read(): AsyncGenerator<Owned[], void> {
    const plans: Owned[] = [];
    for (const [kind, path] of Object.entries(kinds)) {
      for await (const page of this.list(kind, path)) {
        if (kind === "plans") plans.push(...page);
        yield page;
      }
    }
    for (const p of plans) for (const kind of ["quotas", "limits"]) yield* this.list(kind, `/${p.name}/${kind}`);
  }

  private async *list(kind: string, path: string): AsyncGenerator<Owned[], void> {
    for (let token = ""; ;) {
      const page = await get<Record<string, Owned[]> & { nextPageToken: string }>(
        `${path}?page_size=1000&page_token=${encodeURIComponent(token)}`);
      const found = page[kind] ?? [];
      this.all.push(...found.filter((o) => o.set === this.set));
      yield found;
      token = page.nextPageToken;
      if (!token) return;
    }
  }

  view(): Content {
    if (!this.done && !this.reading) void this.next();
    return [this.problem && failed(this.problem),
      h("p", { class: "quiet", role: "status" }, t.resources(num(this.all.length)), !this.done && " …"),
      this.all.length > 0 ? this.table.view(this.all) : this.done && !this.problem && h("p", { class: "quiet" }, t.setEmpty)];
  }
}

// Applied is what the history says of a set.
interface Applied { set: string; times: number; last: Revision }

// setTable lists the sets that the revisions name, the latest first.
export function setTable(c: Context): Table<Applied> {
  return new Table<Applied>(t.sets, [
    { title: t.set, cell: (a) => link(["changes", "set", a.set], a.set) },
    { title: t.applied, number: true, cell: (a) => num(a.times) },
    { title: t.lastApplied, cell: (a) => time(a.last.time) },
    { title: t.who, cell: (a) => a.last.author },
    { title: t.revision, number: true, cell: (a) => link(["changes", a.last.revision], a.last.revision) },
  ], (a) => a.set, c.changed);
}

export function setsOf(revisions: Revision[]): Applied[] {
  const by = new Map<string, Applied>();
  for (const r of revisions) { // the newest first
    const a = by.get(r.set);
    if (a) a.times++;
    else if (r.set) by.set(r.set, { set: r.set, times: 1, last: r });
  }
  return [...by.values()];
}

export interface Conflict { revision: Revision; resource: string; what: string; settled: string }

// conflictsOf are changes of what belongs to a set by somebody else, of revisions, the newest first. A conflict is
// settled once its set has changed the resource again.
export function conflictsOf(all: Detail[]): Conflict[] {
  const later = new Map<string, string>(); // resource and set → revision that settles
  const out: Conflict[] = [];
  for (const { revision, changes } of all) {
    for (const change of changes) {
      const owner = setOf(change.before), now = setOf(change.after);
      if (owner && owner !== revision.set) {
        out.push({ revision, resource: change.name, what: now && now !== owner ? t.taken(owner, now) : t.changedBeside(owner),
          settled: later.get(`${owner} ${change.name}`) ?? "" });
      }
      if (revision.set) later.set(`${revision.set} ${change.name}`, revision.revision);
    }
  }
  return out;
}

// setOf is the set of a resource in a change: its kind is the only field.
function setOf(resource: Record<string, unknown> | undefined): string {
  const [one] = Object.values(resource ?? {}) as ({ set?: string } | undefined)[];
  return one?.set ?? "";
}

const looked = 20; // revisions

// Conflicts reads what the latest revisions have changed.
export class Conflicts {
  private readonly known = new Map<string, Detail>();
  private reading = false;
  private problem: Problem | null = null;
  private readonly table: Table<Conflict>;

  constructor(private readonly c: Context) {
    this.table = new Table<Conflict>(t.conflicts, [
      { title: t.resource, cell: (x) => x.resource },
      { title: t.what, cell: (x) => x.what },
      { title: t.revision, number: true, cell: (x) => link(["changes", x.revision.revision], x.revision.revision) },
      { title: t.who, cell: (x) => x.revision.author },
      { title: t.when, cell: (x) => time(x.revision.time) },
      { title: t.state, cell: (x) => x.settled ? badge(t.settled(x.settled), "good") : badge(t.open, "warn") },
    ], (x) => `${x.revision.revision} ${x.resource}`, c.changed);
  }

  private async read(revisions: Revision[]): Promise<void> {
    this.reading = true;
    try {
      for (const { revision } of revisions) {
        if (!this.known.has(revision)) {
          this.known.set(revision, await get<Detail>(`/revisions/${encodeURIComponent(revision)}?max_changes=200`));
        }
      }
    } catch (e) {
      this.problem = problemOf(e);
    }
    this.reading = false;
    this.c.changed();
  }

  view(revisions: Revision[]): Content {
    const latest = revisions.slice(0, looked), known = latest.flatMap((r) => this.known.get(r.revision) ?? []);
    if (known.length < latest.length && !this.reading && !this.problem) void this.read(latest);
    const found = conflictsOf(known);
    return [h("p", { class: "quiet" }, t.conflictsHelp), this.problem && failed(this.problem),
      found.length > 0 ? this.table.view(found)
        : known.length < latest.length ? !this.problem && loading() : h("p", { class: "quiet" }, t.noConflicts)];
  }
}
