// Parts that screens are made of: states, tables, numbers with labels.

import { h, type Content, type Tree } from "./dom";
import type { Live } from "./live";
import { duration, num } from "./format";
import { t } from "./strings";
import type { Problem } from "./types";

// Screen is a page of the console. paths are asked live; view is called after each change.
export interface Screen {
  title: string;
  key?: string; // of screens that differ in choices of the reader alone; without it the address
  paths(): string[];
  view(): Content;
  heard?(): void; // an answer came
}

// Context is what a screen has.
export interface Context {
  live: Live;
  changed(): void; // draw again
  changes(): boolean; // the reader has chosen to see what changes the configuration
  dialog(open: (() => Content) | null): void;
}

// link leads to a screen; parts are names, which may have any character.
export function link(parts: string[], text: string, more: Record<string, string> = {}): Tree {
  return h("a", { href: "#/" + parts.map(encodeURIComponent).join("/"), ...more }, text);
}

export function loading(): Tree { return h("p", { class: "quiet", role: "status" }, t.loading); }

export function failed(p: Problem): Tree {
  if (p.status === 403) {
    return h("div", { class: "note forbidden", role: "status" },
      h("strong", null, t.forbidden), " ", p.message, " ", t.forbiddenHint);
  }
  const title = p.status === 404 ? t.notFound : p.status === 0 ? t.noAnswer : t.failed;
  return h("div", { class: "note error", role: "alert" }, h("strong", null, title), " ",
    p.message?.replace(/[^.]$/, "$&."), p.status === 404 ? null : " " + t.retry);
}

// known shows an answer of the stream once it is there and good. While the coordinator fails to give another, the last
// good one stays.
export function known<T>(live: Live, path: string, view: (body: T) => Content): Content {
  const a = live.answer(path);
  if (!a) return live.problem ? failed(live.problem) : loading();
  if (a.status === 200) return view(a.body as T);
  const problem = failed((a.body as Problem | null) ?? { status: a.status });
  return a.before ? [problem, stale(a.before.until, path), view(a.before.body as T)] : problem;
}

// stale says how old figures are. Of that a screen reader says no more than that they are old.
export function stale(until: number, key = ""): Tree {
  return h("p", { key: `stale ${key}`, class: "note warn" }, h("span", { role: "status" }, t.stale), " ",
    t.staleSince(duration(Math.round((Date.now() - until) / 1000))));
}

// body is the last good answer of the stream, or nothing; fresh is it only if there is no later one.
export function body<T>(live: Live, path: string): T | undefined {
  const a = live.answer(path);
  return (a?.status === 200 ? a.body : a?.before?.body) as T | undefined;
}

export function fresh<T>(live: Live, path: string): T | undefined {
  return live.answer(path)?.status === 200 ? body<T>(live, path) : undefined;
}

export function section(title: string, ...content: Content[]): Tree {
  return h("section", null, h("h2", null, title), ...content);
}

export function figures(all: [string, string | null | undefined][]): Tree {
  return h("dl", { class: "figures" }, all.filter(([, v]) => v !== null && v !== undefined && v !== "")
    .map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))));
}

export function badge(text: string, kind: string): Tree { return h("span", { class: `badge ${kind}` }, text); }

// Column is one of a table. An optional one is left out while all of its cells are empty.
export interface Column<T> { title: string; number?: boolean; optional?: boolean; cell(row: T): Content }

const rowHeight = 36; // px, as in app.css
const virtualFrom = 60; // rows; longer tables have only the visible ones in the document

// Table draws rows. One of many rows scrolls in a box of its own.
export class Table<T> {
  private top = 0;
  private height = 600;

  constructor(private readonly title: string, private readonly columns: Column<T>[],
    private readonly key: (row: T) => string, private readonly changed: () => void) {}

  view(rows: T[]): Content {
    if (rows.length <= virtualFrom) return this.table(rows, 0, rows.length);
    const first = Math.max(0, Math.floor(this.top / rowHeight) - 10);
    const after = Math.min(rows.length, Math.ceil((this.top + this.height) / rowHeight) + 10);
    const scrolled = (e: Event) => {
      const box = e.currentTarget as HTMLElement;
      this.top = box.scrollTop;
      this.height = box.clientHeight;
      this.changed();
    };
    return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": this.title, onscroll: scrolled },
      this.table(rows, first, after));
  }

  private table(rows: T[], first: number, after: number): Tree {
    const all = rows.length === after - first;
    const columns = all ? this.columns.filter((c) => !c.optional || rows.some((r) => full(c.cell(r)))) : this.columns;
    const space = (n: number, key: string) => n > 0 &&
      h("tr", { key, "aria-hidden": "true" },
        h("td", { colspan: columns.length, class: "space", css: { height: `${n * rowHeight}px` } }));
    const table = h("table", { "aria-label": this.title, "aria-rowcount": all ? null : rows.length + 1 },
      h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: c.number ? "n" : null },
        c.title)))),
      h("tbody", null,
        space(first, " above"),
        rows.slice(first, after).map((row, i) => h("tr",
          { key: this.key(row), "aria-rowindex": all ? null : first + i + 2 },
          columns.map((c) => h("td", { class: c.number ? "n" : null }, c.cell(row))))),
        space(rows.length - after, " below")));
    return all ? h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": this.title }, table) : table;
  }
}

// full is whether a cell has something to show.
function full(c: Content): boolean { return Array.isArray(c) ? c.some(full) : Boolean(c); }

// meter shows a part of a whole beside its number.
export function meter(value: number, most: number, text: string, kind = "admitted"): Tree {
  const part = most > 0 ? Math.min(1, value / most) : 0;
  return h("span", { class: "meter" },
    h("span", { class: "bar", "aria-hidden": "true" }, h("span", { class: kind, css: { width: `${part * 100}%` } })),
    h("span", { class: "amount" }, text));
}

// spark draws what was asked for in parts of ten seconds.
export function spark(admitted: string[], refused: string[]): Content {
  const n = Math.min(admitted.length, refused.length, 7);
  const parts = Array.from({ length: n }, (_, i) =>
    [Number(admitted[admitted.length - n + i]), Number(refused[refused.length - n + i])] as const);
  const most = Math.max(1, ...parts.map(([a, r]) => a + r));
  return h("svg", { class: "spark", viewBox: `0 0 ${7 * 6} 20`, role: "img",
    "aria-label": parts.map(([a, r]) => num(a + r)).join(", ") },
    parts.map(([a, r], i) => {
      const x = (7 - n + i) * 6, high = (a + r) / most * 20, low = a / most * 20;
      return [high > low && h("rect", { class: "refused", x: x + .5, y: 20 - high + .5, width: 4, height: Math.max(0, high - low - 1) }),
        h("rect", { class: "admitted", x, y: 20 - low, width: 5, height: low })];
    }));
}
