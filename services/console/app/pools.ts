// What Fleet and Pool have in common: the columns of a pool's picture.

import { get, problemOf } from "./api";
import type { Column } from "./chart";
import { water } from "./chart";
import type { Content } from "./dom";
import { now } from "./format";
import { link } from "./parts";
import { t } from "./strings";
import type { Pool, Quota, Tenant, TenantPlan, Top } from "./types";

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
      const own = `/tenants/${encodeURIComponent(tenant)}`, quota = `/quotas/${encodeURIComponent(pool)}`;
      const { weight: said, plan } = await get<Tenant>(own);
      const from = `/plans/${encodeURIComponent(plan)}`;
      weight = said || (plan ? (await get<TenantPlan>(from)).weight : 1);
      const q = await found<Quota>(own + quota) ?? (plan ? await found<Quota>(from + quota) : undefined);
      weight = q?.weight ?? weight;
    } catch { /* it is not configured or may not be read: what is known stays, or 1 */ }
    this.known.set(`${tenant} ${pool}`, { at: Date.now(), weight });
    this.asking = false;
    this.changed();
  }
}

// found is a resource, or undefined if there is none.
export async function found<T>(path: string): Promise<T | undefined> {
  try {
    return await get<T>(path);
  } catch (e) {
    if (problemOf(e).status !== 404) throw e;
    return undefined;
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
