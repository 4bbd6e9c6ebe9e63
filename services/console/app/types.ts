// The answers of the admin API, as far as the console reads them. Numbers of 64 bits are texts, durations are texts
// such as "0.1s".

export interface Problem { status: number; code?: string; message?: string }

export interface PoolStatus {
  demand: number; admitted: number; price: number; fairRate: number; capacity: number; inFlight: number;
  infeasibleGuarantees: boolean; leader: string; inForce: number; gateways: number;
}
export interface Pool { name: string; capacity: number; sharing: string; set: string; adaptive?: unknown; status?: PoolStatus }
export interface Tenant {
  name: string; displayName: string; weight: number; plan: string; set: string; updateTime?: string;
  status?: { warnings: string[]; inForce: number; gateways: number };
}
export interface TenantPlan { name: string; weight: number; set: string }
export interface Quota {
  name: string; guaranteed: number; max?: number; weight?: number; mode: string; until?: string; set: string;
  status?: { demand: number; share: number; admitted: number; boundBy: string; stale: boolean; warnings: string[] };
}
export interface ListedOverride {
  client: string; rate: string; burst: number; concurrency: string; amount: number; until?: string;
}
export interface Override {
  name: string; rate: string; burst: number; concurrency: string; amount: number; until?: string; set: string;
}
export interface Limit {
  name: string; key: string; rate: string; burst: number; overrides: ListedOverride[]; mode: string; concurrency: string;
  quota?: CalendarQuota; until?: string; etag?: string; set: string;
  status?: { warnings: string[]; precision: string; precisionWhy: string };
}
export interface CalendarQuota { amount: number; per: string; zone: string; startsOn: string; onLoss: string }
export interface Usage {
  id: string; limit: string; client: string; period: string; begins?: string; ends?: string; amount: number;
  admitted: number; refused: number; settled: number; booked: number; final: boolean; lost: number;
}

export interface Activity {
  tenant: string; pool: string; limit: string; client: string; gateway: string; site?: string;
  admitted: string; waited: string; marked: string; shadowed: string; limitShadowed: string; refused: string;
  error: string;
  waitedSeconds: number; window?: string; since?: string;
  admittedParts: string[]; refusedParts: string[]; newestPart?: string;
}
export interface Top { rows: Activity[]; other?: Activity; agents: number; silent: string[]; notes: string[] }

export interface Explanation {
  tenant: string; pool: string; capacity: number; demand: number; weight: number; guaranteed: number; max?: number;
  fairRate: number; share: number; admitted: number; boundBy: string; price: number; stale: boolean;
  gateways: { gateway: string; demand: number; admitted: number }[]; sentence: string; activity?: Activity;
}
export interface LimitExplanation {
  limit: string; rate: number; burst: number; key: string; mode: string; configured: boolean; concurrency: string;
  activity?: Activity; gateways: Activity[]; sentence: string;
}
export interface Why {
  explanations: Explanation[]; limits: LimitExplanation[]; clients: Activity[]; notes: string[];
}

export interface Gateway {
  name: string; agent: string; revision: string; behind: number; behindMore: boolean; behindSince?: string;
  refused: string; reason: string; leftOut: number; heard?: string; site?: string; owned: number; delay?: string;
}
export interface Gateways { revision: string; gateways: Gateway[] }
export interface Finding { category: string; state: string; message: string; advice: string }

export interface Revision {
  revision: string; previous: string; time: string; author: string; message: string; action: string; set: string;
  created: number; updated: number; deleted: number; bytes: string;
}
export interface Change { name: string; before?: Record<string, unknown>; after?: Record<string, unknown> }
export interface PoolEffect {
  pool: string; demand: number; capacityBefore: number; capacityAfter: number;
  fairRateBefore: number; fairRateAfter: number; guaranteedBefore: number; guaranteedAfter: number;
}
export interface FlowEffect {
  tenant: string; pool: string; demandBefore: number; demandAfter: number;
  shareBefore: number; shareAfter: number; overBefore: number; overAfter: number;
}
export interface Plan {
  revision: string; changes: Change[]; pools: PoolEffect[]; flows: FlowEffect[];
  guards: { name: string; resource: string; message: string }[];
  warnings: { resource: string; message: string }[]; effectsUnknown: string;
}

export interface LimitStep {
  limit: string; client: string; shadow: boolean; passes: boolean; rate: number; burst: number; free: number;
  wait?: string; exact: boolean; concurrency: string;
}
export interface Decision {
  request: string; gateway: string; site?: string; tenant: string; client: string; pool: string; ago?: string; cost: number;
  refused: boolean; marked: boolean; shadowed: boolean; reason: string; limit: string; retryAfter?: string;
  waited?: string; revision: string; limits: LimitStep[]; steps: string[]; heldBy: string;
  share?: { share: number; rate: number; demand: number; credit: number; waiting: string };
}
export interface Decisions {
  decisions: Decision[]; agents: number; silent: string[]; remembered: string; back?: string; notes: string[];
}

export interface Access {
  caller: string; credential: string; expireTime?: string; allowed: boolean; reason: string;
  grants: { role: string; tenants: string[]; ceiling: string }[];
}

export interface PoolSample {
  time: string; demand: number; admitted: number; capacity: number; fairRate: number; waiting: number; marked: number;
  refused: number; tenants: { tenant: string; share: number; admitted: number }[];
}
export interface PoolHistory { pool: string; since?: string; step?: string; samples: PoolSample[] }

export interface GatewayBucket {
  gateway: string; agent: string; free?: number; rate: number; admitted: number; reported?: string; tokens: number;
  granted: number; returned: number; whole: boolean; need: number; recalled: boolean;
}
export interface Owner { agent: string; free: number; out: number; site: string }
export interface Bucket {
  limit: string; client: string; rate: number; burst: number; exact: boolean;
  owners: Owner[]; gateways: GatewayBucket[]; agents: number; silent: string[];
  sentence: string;
}
