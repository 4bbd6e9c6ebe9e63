// The last hour of pools, as the coordinator that leads them keeps it, and what this page has seen since.

import { get } from "./api";
import { kinds, overTime, type History, type Sample } from "./chart";
import { h, type Content } from "./dom";
import { last, num, seconds, time } from "./format";
import { t } from "./strings";
import type { Pool, PoolHistory } from "./types";

const fresh = 10_000; // ms between two samples of the coordinator
const patient = 60_000; // ms after an answer that was none

interface Known { asked: number; wait: number; answer?: PoolHistory }

// Hour asks for the history of pools when a picture needs it.
export class Hour {
  private readonly known = new Map<string, Known>();

  constructor(private readonly changed: () => void, private readonly seen: History) {}

  private of(pool: string): PoolHistory | undefined {
    const k = this.known.get(pool) ?? { asked: -Infinity, wait: 0 };
    if (Date.now() - k.asked > k.wait) {
      k.asked = Date.now();
      k.wait = fresh;
      this.known.set(pool, k);
      get<PoolHistory>(`/pools/${encodeURIComponent(pool)}:history`).then((a) => { k.answer = a; this.changed(); },
        () => { k.wait = patient; });
    }
    return k.answer;
  }

  // view draws a pool's hour; with all also what became of requests, and the tenants.
  view(p: Pool, all = false): Content {
    const name = last(p.name), answer = this.of(name), mine = this.seen.of(p.name);
    const part = (at: number) => Math.floor(at / fresh), here = new Set(mine.map((s) => part(s.at)));
    const before = answer?.samples.map((s) => ({ s, at: Date.parse(s.time) })) ?? [];
    const main: Sample[] = [...before.filter(({ at }) => !here.has(part(at)))
      .map(({ s, at }) => ({ at, values: [s.admitted, s.demand, s.capacity] })), ...mine].sort((a, b) => a.at - b.at);
    const every = before.length > 0 ? seconds(answer!.step) * 1000 : undefined;
    const chart = (title: string, samples: Sample[], lines: Parameters<typeof overTime>[2]) =>
      overTime(title, samples, lines, every);
    return [
      chart(t.history, main, [{ name: t.admitted, kind: "admitted" }, { name: t.demand, kind: "refused" },
        { name: t.capacity, kind: "capacity" }]),
      all && before.length > 1 && [
        chart(t.historyEvents, before.map(({ s, at }) => ({ at, values: [s.refused, s.marked, s.waiting] })), [
          { name: t.refusedRate, kind: "refused" }, { name: t.marked, kind: "e" },
          { name: t.waitingCost, kind: "capacity", text: num }]),
        tenants(chart, before),
      ],
      h("p", { class: "quiet" }, answer?.since ? t.historySince(time(answer.since)) : t.historyPage),
    ];
  }
}

// tenants draws the tenants that were admitted the most at the end: what they got, and what they might have.
function tenants(chart: (title: string, s: Sample[], l: { name: string; kind: string }[]) => Content,
  before: { s: PoolHistory["samples"][number]; at: number }[]): Content {
  const names = before.at(-1)!.s.tenants.map((x) => x.tenant);
  const draw = (title: string, of: "admitted" | "share") => chart(title, before.map(({ s, at }) => ({ at,
    values: names.map((n) => s.tenants.find((x) => x.tenant === n)?.[of] ?? NaN) })),
  names.map((n, i) => ({ name: n, kind: kinds[i % kinds.length]! })));
  return names.length > 0 && [draw(t.historyAdmitted, "admitted"), draw(t.historyShares, "share")];
}
