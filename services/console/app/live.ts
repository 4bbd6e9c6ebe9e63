// A stream of answers of the admin API: /events asks each second, and sends what has changed. It is read with fetch,
// so that the token is in a header. After a break it goes on from the last event.

import { base, headers } from "./api";
import type { Problem } from "./types";

// Answer is the last answer for a path. before is the last good one, if the coordinator fails to give another, and until
// when it was good, ms.
export interface Answer { status: number; body: unknown; before?: { body: unknown; until: number } }

const patience = 20_000; // ms without a byte, after which a stream is taken for broken: it sends some each few seconds

export class Live {
  readonly answers = new Map<string, Answer>();
  problem: Problem | null = null; // of the stream itself
  heard = 0; // when the last bytes came, ms
  private paths: string[] = [];
  private last = "";
  private stop = new AbortController();

  constructor(private readonly changed: () => void) {}

  // follow makes these the paths that are asked. What is known of them stays.
  follow(paths: string[]): void {
    const full = paths.map((p) => base + p);
    if (full.join("\n") === this.paths.join("\n")) return;
    for (const known of [...this.answers.keys()]) if (!full.includes(known)) this.answers.delete(known);
    this.paths = full;
    this.restart();
  }

  // restart begins a new stream, such as with another token.
  restart(): void {
    this.stop.abort();
    this.stop = new AbortController();
    this.last = "";
    this.problem = null;
    if (this.paths.length > 0) void this.run(this.stop.signal);
  }

  answer(path: string): Answer | undefined { return this.answers.get(base + path); }

  private async run(signal: AbortSignal): Promise<void> {
    for (let wait = 500; !signal.aborted; wait = Math.min(2 * wait, 8000)) {
      const began = Date.now(), broken = new AbortController();
      const watch = setInterval(() => { if (Date.now() - Math.max(began, this.heard) > patience) broken.abort(); }, 1000);
      try {
        await this.read(AbortSignal.any([signal, broken.signal]));
      } catch {
        if (!signal.aborted) this.problem ??= { status: 0 };
      }
      clearInterval(watch);
      if (signal.aborted) return; // another stream has begun
      this.changed();
      if (this.problem?.status === 401 || this.problem?.status === 403) return; // a new token begins anew
      if (Date.now() - began > 10_000) wait = 500;
      await new Promise((go) => setTimeout(go, wait * (0.75 + Math.random() / 2)));
    }
  }

  private async read(signal: AbortSignal): Promise<void> {
    const answer = await fetch("/events", {
      method: "POST", headers: { ...headers(), "Last-Event-ID": this.last }, body: JSON.stringify({ paths: this.paths }), signal,
      redirect: "error", referrerPolicy: "no-referrer",
    });
    if (!answer.ok || !answer.body) {
      const value: unknown = await answer.json().catch(() => ({}));
      if (signal.aborted) return;
      this.problem = { ...(value as Problem), status: answer.status };
      return;
    }
    this.problem = null;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) break;
      this.heard = Date.now();
      text += value;
      const events = text.split("\n\n");
      text = events.pop() ?? "";
      for (const e of events) this.event(e);
    }
    if (!signal.aborted) this.problem = { status: 0 };
  }

  private event(text: string): void {
    let data = "", id = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("data: ")) data += line.slice(6);
      if (line.startsWith("id: ")) id = line.slice(4);
    }
    if (!data) return;
    const { path, status, body } = JSON.parse(data) as { path: string; status: number; body: unknown };
    if (!this.paths.includes(path)) return;
    this.last = id;
    const known = this.answers.get(path);
    const before = known?.status === 200 ? { body: known.body, until: Date.now() } : known?.before;
    this.answers.set(path, { status, body, ...status >= 500 && before && { before } });
    this.changed();
  }
}
