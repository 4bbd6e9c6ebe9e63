// What Fleet and Pool have in common: the columns of a pool's picture.

import { get } from "./api";
import type { Column } from "./chart";
import { water } from "./chart";
import type { Content } from "./dom";
import { now } from "./format";
import { link } from "./parts";
import { t } from "./strings";
import type { Pool, Quota, Tenant, Top } from "./types";

const shown = 12; // columns
const fresh = 30_000; // ms for which a weight is taken as known

// Weights are asked for when a picture needs them, a tenant at a time.
export class Weights {
  private readonly known = new Map<string, { at: number; weight: number }>();
  private asking = false;

  constructor(private readonly changed: () => void) {}

  of(tenant: string, pool: string): number {
    const k = this.known.get(`${tenant} ${pool}`);
    if ((!k || Date.now() - k.at > fresh) && !this.asking) void this.ask(tenant, pool);
    return k?.weight || 1;
  }

  private async ask(tenant: string, pool: string): Promise<void> {
    this.asking = true;
    let weight = this.known.get(`${tenant} ${pool}`)?.weight ?? 1;
    try {
      const name = encodeURIComponent(tenant);
      weight = (await get<Tenant>(`/tenants/${name}`)).weight;
      const quota = await get<Quota>(`/tenants/${name}/quotas/${encodeURIComponent(pool)}`);
      weight = quota.weight ?? weight;
    } catch { /* it has no quota, or is not configured: its weight is that of the tenant, or 1 */ }
    this.known.set(`${tenant} ${pool}`, { at: Date.now(), weight });
    this.asking = false;
    this.changed();
  }
}

export function byTenant(pool: string): string {
  return `:top?selection.by=TENANT&selection.order=ADMITTED&selection.most=${shown}&selection.pool=${encodeURIComponent(pool)}`;
}

// picture draws a pool as water, of the rows of byTenant.
export function picture(pool: Pool, name: string, top: Top, weights: Weights): Content {
  const columns: Column[] = top.rows.map((a) => ({ name: a.tenant, weight: weights.of(a.tenant, name), ...now(a) }))
    .filter((c) => c.admitted + c.refused > 0).sort((a, b) => a.name < b.name ? -1 : 1);
  if (top.other) {
    const rest = now(top.other);
    if (rest.admitted + rest.refused > 0) columns.push({ name: t.other, weight: 1, ...rest });
  }
  return water(name, pool.status?.fairRate ?? 0, columns,
    (tenant) => tenant === t.other ? tenant : link(["tenant", tenant], tenant));
}
