// Block a client for an hour, as `titrate block` does. The coordinator words the change.

import { get, may, post } from "./api";
import { h, type Content } from "./dom";
import type { Context } from "./parts";
import { propose, requestID, said } from "./plan";
import { t } from "./strings";

const lasts = 3_600_000; // ms

const allowed = new Map<string, boolean>();

// forget makes the next reader's rights asked for.
export function forget(): void { allowed.clear(); }

// blockButton is there for a reader who may change the tenant's limits.
export function blockButton(c: Context, tenant: string, client: string): Content {
  if (!c.changes() || tenant === "-" || !client) return null;
  const name = `tenants/${tenant}/limits/blocked`;
  const known = allowed.get(name);
  if (known === undefined) {
    allowed.set(name, false);
    may("apply", name).then((yes) => { allowed.set(name, yes); c.changed(); }, () => allowed.delete(name));
  }
  return known && h("button", { type: "button", class: "small", "aria-label": t.blockTitle(client, tenant),
    onclick: () => block(c, tenant, client) }, t.block);
}

function block(c: Context, tenant: string, client: string): void {
  const fixed = { message: `block client ${JSON.stringify(client)}`, requestId: requestID() };
  let apply: object = fixed;
  propose(c, {
    title: t.blockTitle(client, tenant),
    ask: async () => {
      const until = new Date(Math.floor((Date.now() + lasts) / 1000) * 1000).toISOString();
      const planned = await get<{ apply: object }>(`/tenants/${encodeURIComponent(tenant)}:planBlock?${
        new URLSearchParams({ client, until })}`);
      apply = { ...said(planned.apply), ...fixed };
      return { apply };
    },
    commit: (revision, why) => post(":apply", { ...apply, expectedRevision: revision,
      message: why ? `${fixed.message}: ${why}` : fixed.message }),
  });
}
