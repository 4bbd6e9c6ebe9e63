// Numbers, times and names for people. Times are in the reader's zone.

import type { Activity } from "./types";

const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const date = new Intl.DateTimeFormat("en", { dateStyle: "medium" });
const moment = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });

export function num(n: number): string {
  return Math.abs(n) >= 1000 ? whole.format(n) : digits.format(n);
}

export function rate(n: number): string { return n > 0 && n < .01 ? "<0.01/s" : `${num(n)}/s`; }

export function time(text: string | undefined): string {
  const t = new Date(text ?? NaN);
  return isNaN(t.getTime()) ? "" : moment.format(t);
}

// day is a time without its hour, if it is midnight for the reader.
export function day(text: string | undefined): string {
  const t = new Date(text ?? NaN);
  return t.getHours() + t.getMinutes() + t.getSeconds() === 0 ? date.format(t) : time(text);
}

// seconds reads a duration such as "0.1s"; 0 if there is none.
export function seconds(text: string | undefined): number { return parseFloat(text ?? "0") || 0; }

export function duration(s: number): string {
  if (s < 1) return `${num(s * 1000)} ms`;
  if (s < 120) return `${num(s)} s`;
  if (s < 7200) return `${num(s / 60)} min`;
  if (s < 172_800) return `${num(s / 3600)} h`;
  return `${num(s / 86_400)} d`;
}

// last is the last part of a name such as tenants/acme.
export function last(name: string): string { return name.slice(name.lastIndexOf("/") + 1); }

// now returns the requests per second of the last ten to twenty seconds: of the newest part of time and the one before.
export function now(a: Activity): { admitted: number; refused: number } {
  const n = Math.min(2, a.admittedParts.length, a.refusedParts.length);
  const length = Math.min(seconds(a.newestPart) + 10 * (n - 1), seconds(a.window));
  if (n === 0 || length <= 0) return { admitted: 0, refused: 0 };
  const sum = (parts: string[]) => parts.slice(-n).reduce((s, p) => s + Number(p), 0) / length;
  return { admitted: sum(a.admittedParts), refused: sum(a.refusedParts) };
}

// per is a count of the window, per second.
export function per(a: Activity, count: string): number {
  return Number(count) / Math.max(1, seconds(a.window));
}
