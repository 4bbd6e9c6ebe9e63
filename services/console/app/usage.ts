// Use of quotas in their periods, and what is left to clients of their limits.

import { get } from "./api";
import { h, type Content } from "./dom";
import { day, last, num } from "./format";
import { badge, meter, Table, type Context } from "./parts";
import { t } from "./strings";
import { isBucket } from "./picture";
import type { Activity, Bucket, CalendarQuota, Usage } from "./types";

// calendar says what a quota of a calendar's period allows.
export function calendar(q: CalendarQuota): string {
  return t.amountPer(num(q.amount), t.per[q.per] ?? q.per, q.zone || "UTC", q.startsOn);
}

// usageTable has the use of the periods of now, and of the last ones.
export function usageTable(c: Context): Table<Usage> {
  return new Table<Usage>(t.periods, [
    { title: t.limit, cell: (u) => last(u.limit) },
    { title: t.client, cell: (u) => u.client || h("em", null, t.wholeTenant) },
    { title: t.period, cell: (u) => [t.periodOf(u.period, day(u.begins), day(u.ends)), " ",
      u.final && badge(t.ended, ""), u.lost > 0 && badge(t.lostReports(num(u.lost)), "warn")] },
    { title: t.used, number: true, cell: (u) => meter(u.settled, u.amount, t.usedOf(num(u.settled), num(u.amount))) },
    { title: t.left, number: true, cell: (u) => num(Math.max(0, u.amount - u.settled)) },
    { title: t.refusedRate, number: true, cell: (u) => num(u.refused) },
  ], (u) => u.id, c.changed);
}

const fresh = 3000; // ms for which what is left is taken as known
const patient = 30_000; // ms, of a limit without a bucket

// Left asks what is left of clients' buckets when a table shows them, a bucket at a time.
export class Left {
  private readonly known = new Map<string, { at: number; bucket?: Bucket }>();
  private asking = false;

  constructor(private readonly c: Context, private readonly tenant: string) {}

  view(a: Activity): Content {
    if (!isBucket(this.tenant, a.limit)) return "";
    const path = `/tenants/${encodeURIComponent(this.tenant)}/limits/${encodeURIComponent(a.limit)}:bucket?client=${
      encodeURIComponent(a.client)}`;
    const k = this.known.get(path);
    if (!this.asking && (!k || Date.now() - k.at > (k.bucket ? fresh : patient))) void this.ask(path);
    if (!k?.bucket) return "";
    const b = k.bucket, left = leftOf(b);
    return meter(left, b.burst, t.usedOf(num(left), num(b.burst)));
  }

  private async ask(path: string): Promise<void> {
    this.asking = true;
    const bucket = await get<Bucket>(path).catch(() => undefined);
    this.known.set(path, bucket ? { at: Date.now(), bucket } : { at: Date.now() });
    this.asking = false;
    this.c.changed();
  }
}

// leftOf is what a client may still use at once: of the owners and of all gateways, or as the gateways know it. Owners of
// several sites each have a view of the one bucket.
export function leftOf(b: Bucket): number {
  const whole = b.gateways.find((g) => g.whole);
  if (whole) return Math.max(0, whole.free ?? b.burst);
  if (b.owners.length > 0) {
    return Math.max(0, Math.min(...b.owners.map((o) => o.free)) + b.gateways.reduce((sum, g) => sum + g.tokens, 0));
  }
  return Math.max(0, Math.min(b.burst, ...b.gateways.map((g) => g.free ?? b.burst)));
}
