// Pictures: values over time, and a pool as water in columns. Labels are text beside the picture, so that they keep
// their size on a small screen.

import { h, type Content } from "./dom";
import { duration, num, rate } from "./format";
import { t } from "./strings";

const most = 3600; // samples of a series, one a second
const gap = 1000; // ms between two

export interface Sample { at: number; values: number[] }

// kinds of lines that have no meaning of their own.
export const kinds = ["a", "b", "c", "d", "e"] as const;

// History keeps values while the page is open, an hour at most.
export class History {
  private readonly series = new Map<string, Sample[]>();

  add(name: string, values: number[]): void {
    const s = this.series.get(name) ?? [], at = Date.now();
    const before = s.at(-1);
    if (before && at - before.at < gap) return;
    s.push({ at, values });
    if (s.length > most) s.shift();
    this.series.set(name, s);
  }

  clear(): void { this.series.clear(); }

  of(name: string): Sample[] { return this.series.get(name) ?? []; }
}

export interface Line { name: string; kind: string; text?(value: number): string }

// overTime draws the lines of a history whose samples are so many ms apart. A value that is not known is NaN.
export function overTime(title: string, samples: Sample[], lines: Line[], every = gap): Content {
  const first = samples[0], end = samples.at(-1);
  if (!first || !end || end.at === first.at) return h("p", { class: "quiet" }, t.historyNone);
  const known = samples.flatMap((s) => s.values.slice(0, lines.length)).filter((v) => !isNaN(v));
  const high = Math.max(1e-9, ...known) * 1.05;
  const x = (s: Sample) => ((s.at - first.at) / (end.at - first.at) * 600).toFixed(1);
  const step = Math.ceil(samples.length / 600);
  const drawn = samples.filter((_, i) => i % step === 0 || i === samples.length - 1);
  const said = (l: Line, i: number) => `${l.name} ${(l.text ?? rate)(end.values[i] ?? 0)}`;
  const path = (i: number) => {
    let d = "", at = -Infinity;
    for (const s of drawn) {
      const v = s.values[i] ?? NaN;
      if (isNaN(v)) continue;
      d += `${s.at - at < 5 * every * step ? "L" : "M"}${x(s)} ${(140 - Math.max(0, v) / high * 140).toFixed(1)}`;
      at = s.at;
    }
    return d;
  };
  const shown = lines.map((l, i) => ({ l, i })).filter(({ i }) => !isNaN(end.values[i] ?? NaN));
  return h("figure", { class: "chart" },
    h("figcaption", null, h("strong", null, title), " ",
      shown.map(({ l, i }) => h("span", { class: "legend" }, h("svg", { class: "swatch", viewBox: "0 0 34 6",
        "aria-hidden": "true" }, h("path", { class: `line ${l.kind}`, d: "M0 3H34" })), said(l, i)))),
    h("svg", { viewBox: "0 0 600 140", preserveAspectRatio: "none", role: "img",
      "aria-label": `${title}: ${shown.map(({ l, i }) => said(l, i)).join(", ")}` },
      lines.map((l, i) => h("path", { class: `line ${l.kind}`, "vector-effect": "non-scaling-stroke", d: path(i) }))),
    h("div", { class: "axis" }, h("span", null, `−${duration((end.at - first.at) / 1000)}`),
      h("span", null, t.peak((lines[0]?.text ?? rate)(high / 1.05))), h("span", null, t.now)));
}

// Column is a tenant in the picture of a pool. Rates in requests per second.
export interface Column { name: string; weight: number; admitted: number; refused: number }

// water draws a pool: who fills it, and up to where.
export function water(pool: string, fair: number, columns: Column[], name: (tenant: string) => Content): Content {
  if (columns.length === 0) return h("p", { class: "quiet" }, t.idle);
  const asked = Math.max(...columns.map((c) => (c.admitted + c.refused) / c.weight));
  const filled = Math.max(fair, ...columns.map((c) => c.admitted / c.weight));
  const top = Math.max(1e-9, Math.min(Math.max(asked, filled * 1.2), filled * 3 || asked)) * 1.05;
  const percent = (v: number) => `${Math.min(100, Math.max(0, v / top * 100)).toFixed(2)}%`;
  return h("figure", { class: "water" },
    h("figcaption", null, h("strong", null, t.waterTitle(pool)), " ", h("span", { class: "quiet" }, t.waterHelp)),
    h("div", { class: "columns" },
      columns.map((c) => h("div", { key: c.name, class: "column", role: "img", css: { "flex-grow": String(c.weight) },
        "aria-label": t.waterColumn(c.name, rate(c.admitted), rate(c.refused), num(c.weight)) },
        h("div", { class: "refused", css: { height: percent(c.refused / c.weight) } }),
        h("div", { class: "admitted", css: { height: percent(c.admitted / c.weight) } }))),
      fair > 0 && h("div", { class: "level", css: { bottom: percent(fair) } },
        h("span", null, `${t.fairLevel} ${rate(fair)}`))),
    h("div", { class: "columns names" }, columns.map((c) => h("div", { key: c.name, class: "column",
      css: { "flex-grow": String(c.weight) } }, name(c.name), h("small", null, rate(c.admitted))))));
}
