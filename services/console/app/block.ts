// Block a client for an hour, as `titrate block` does: an override with rate 0 of the tenant's limit "blocked".

import { Failure, may, post, problemOf } from "./api";
import { h, type Content } from "./dom";
import type { Context } from "./parts";
import { propose, requestID, stored } from "./plan";
import { t } from "./strings";
import type { Limit, ListedOverride, Override, Tenant } from "./types";

const lasts = 3_600_000; // ms
const nobody = "1000000000/s"; // rate of the limit for clients that are not blocked

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
  const name = `tenants/${tenant}/limits/blocked`;
  const apply: { resources: unknown[]; message: string; requestId: string } =
    { resources: [], message: "", requestId: requestID() };
  propose(c, {
    title: t.blockTitle(client, tenant),
    ask: async () => {
      apply.resources = await blocked(await limit(tenant, name), client);
      apply.message = `block client ${JSON.stringify(client)}`;
      return { apply };
    },
    commit: (revision, why) => post(":apply", { ...apply, expectedRevision: revision,
      message: why ? `${apply.message}: ${why}` : apply.message }),
  });
}

// found is a resource as it is stored, or undefined.
async function found<T extends object>(name: string): Promise<T | undefined> {
  try {
    return await stored<T>(`/${name.split("/").map(encodeURIComponent).join("/")}`);
  } catch (e) {
    if (problemOf(e).status !== 404) throw e;
    return undefined;
  }
}

// limit is the limit of blocks as it is stored, or a new one. A new one must not hide the blocks that hold for the
// tenant: those of its plan, or else of every tenant.
async function limit(tenant: string, name: string): Promise<Partial<Limit> & { name: string }> {
  const own = await found<Limit>(name);
  if (own) return own;
  const plan = (await found<Tenant>(`tenants/${tenant}`))?.plan;
  const other = (plan ? await found<Limit>(`plans/${plan}/limits/blocked`) : undefined) ??
    await found<Limit>("tenants/-/limits/blocked");
  if (other && (other.rate !== nobody || (other.overrides ?? []).some((o) => !over(o)))) {
    throw refused(t.blockHides(name, other.name));
  }
  return { name, rate: nobody, precision: "LOCAL" } as Partial<Limit> & { name: string };
}

// over says that an override has lapsed.
function over(o: ListedOverride): boolean { return Boolean(o.until) && Date.parse(o.until!) <= Date.now(); }

function refused(message: string): Failure { return new Failure({ status: 400, message }); }

// blocked are the override, and the limit if it is new or loses an entry of its list.
async function blocked(l: Partial<Limit> & { name: string }, client: string): Promise<object[]> {
  if (Number(l.concurrency ?? 0) > 0 || l.key === "TENANT") throw refused(t.blockKey(l.name));
  const name = `${l.name}/overrides/${clientID(client)}`;
  const before = await found<Override>(name);
  const listed = (l.overrides ?? []).find((o) => o.client === client);
  if ((before && before.rate !== "0") || (listed && listed.rate !== "0")) throw refused(t.blockOwn(client, l.name));
  const rest = (l.overrides ?? []).filter((o) => o.client !== client && !(o.rate === "0" && over(o)));
  const until = new Date(Math.floor((Date.now() + lasts) / 1000) * 1000).toISOString();
  const one = { override: { name, rate: "0", until, etag: before?.etag } };
  if (l.etag && rest.length === (l.overrides ?? []).length) return [one];
  return [{ limit: l.overrides ? { ...l, overrides: rest } : l }, one];
}

// clientID is a client's name as the last segment of an override's name.
function clientID(client: string): string {
  return Array.from(new TextEncoder().encode(client), (b) => {
    const c = String.fromCharCode(b);
    return /[A-Za-z0-9._~@:-]/.test(c) ? c : "%" + b.toString(16).toUpperCase().padStart(2, "0");
  }).join("");
}
