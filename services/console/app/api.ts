// The admin API over HTTP. The token is in memory, and in the browser's storage only if the reader asks for that.

import type { Access, Problem } from "./types";

const stored = "titrate-token";
let token = localStorage.getItem(stored) ?? "";

export const base = "/v1alpha1";

export class Failure extends Error {
  constructor(readonly problem: Problem) { super(problem.message ?? ""); }
}

export function signIn(value: string, keep: boolean): void {
  token = value.trim();
  grants.clear();
  if (keep && token) localStorage.setItem(stored, token);
  else localStorage.removeItem(stored);
}

export function signedIn(): boolean { return token !== ""; }

export function headers(): Record<string, string> {
  const out: Record<string, string> = { "Content-Type": "application/json" };
  if (token) out["Authorization"] = `Bearer ${token}`;
  return out;
}

export async function get<T>(path: string): Promise<T> { return call<T>("GET", path); }

export async function post<T>(path: string, body: unknown): Promise<T> { return call<T>("POST", path, body); }

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(base + path, {
      method, headers: headers(), body: body === undefined ? null : JSON.stringify(body), redirect: "error",
      referrerPolicy: "no-referrer",
    });
  } catch {
    throw new Failure({ status: 0 });
  }
  const value: unknown = await answer.json().catch(() => ({ status: answer.status }));
  if (!answer.ok) throw new Failure({ ...(value as Problem), status: answer.status });
  return value as T;
}

export function problemOf(e: unknown): Problem {
  return e instanceof Failure ? e.problem : { status: 400, message: String(e) };
}

const grants = new Map<string, Access>();

// may asks once whether the reader may do something.
export async function may(verb: string, resource: string): Promise<boolean> {
  const path = `:access?verb=${verb}&resource=${encodeURIComponent(resource)}`;
  let known = grants.get(path);
  if (!known) {
    known = await get<Access>(path);
    grants.set(path, known);
  }
  return known.allowed;
}
