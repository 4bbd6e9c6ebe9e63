// The console: a bar, the screen that the address names, and a dialog for changes.

import { get, problemOf, signedIn, signIn } from "./api";
import { forget } from "./block";
import { History } from "./chart";
import { h, patch, type Content, type Tree } from "./dom";
import { fleet } from "./fleet";
import { heading, keep as keepFocus, trail } from "./focus";
import { Live } from "./live";
import { link, stale, type Context, type Screen } from "./parts";
import { picture } from "./picture";
import { pool } from "./pool";
import { request } from "./request";
import { revisions } from "./revisions";
import { t } from "./strings";
import { tenant } from "./tenant";
import { tenants } from "./tenants";
import { top } from "./top";
import type { Access } from "./types";

const staleAfter = 5000; // ms without a byte of the stream

const root = document.getElementById("console")!;
const history = new History();
let screen: Screen, key = "", arrived = false, drawn = false, allowed = false;
let dialog: (() => Content) | null = null, shown: (() => Content) | null = null;
let access: Access | null = null, unknown = false, refusal = "", typed = "", keep = false;

const live = new Live(() => {
  screen.heard?.();
  live.follow(screen.paths());
  if (live.problem?.status === 401 && !unknown) void introduce(); // the token is withdrawn: why?
  changed();
});

const context: Context = {
  live, changed,
  changes: () => allowed,
  dialog: (open) => {
    dialog = open;
    if (!open) modal()?.close();
    changed();
  },
};

function changed(): void {
  if (drawn) return;
  drawn = true;
  requestAnimationFrame(() => {
    drawn = false;
    const before = trail();
    patch(root, page());
    if (dialog && !modal()?.open) {
      modal()?.showModal();
      heading(modal());
    }
    shown = dialog;
    if (arrived) heading(root.querySelector("main"));
    else keepFocus(before);
    arrived = false;
  });
}

function modal(): HTMLDialogElement | null { return root.querySelector("dialog"); }

function open(parts: string[]): Screen {
  const [name, ...rest] = parts;
  switch (name) {
    case "tenants": return tenants(context);
    case "tenant": return tenant(context, rest[0] ?? "-", rest[1]);
    case "top": return top(context, rest);
    case "pool": return pool(context, history, rest[0] ?? "");
    case "limit": return picture(context, history, rest);
    case "changes": return revisions(context, rest);
    case "request": return request(context, rest[0]);
    default: return fleet(context, history);
  }
}

function where(): string[] {
  return location.hash.replace(/^#\/?/, "").split("/").map((p) => {
    try {
      return decodeURIComponent(p);
    } catch {
      return p;
    }
  });
}

function navigate(): void {
  dialog = null;
  modal()?.close();
  screen = open(where());
  const next = screen.key ?? location.hash;
  arrived = key !== "" && key !== next;
  key = next;
  document.title = `${screen.title} · ${t.product}`;
  live.follow(screen.paths());
  changed();
}

async function introduce(): Promise<void> {
  unknown = false;
  try {
    access = await get<Access>(":access");
    refusal = "";
  } catch (e) {
    const p = problemOf(e);
    access = null;
    unknown = p.status === 401;
    refusal = unknown && signedIn() ? p.message ?? "" : "";
    if (p.status === 0 || p.status >= 500) setTimeout(() => void introduce(), 3000);
  }
  changed();
}

function page(): Content {
  return [
    h("a", { class: "skip", href: "#main", onclick: (e) => {
      e.preventDefault();
      heading(root.querySelector("main"));
    } }, t.skip),
    bar(),
    h("main", { id: "main" }, unknown || live.problem?.status === 401 ? signInForm()
      : [old(), h("div", { key, class: "screen" }, screen.view())]),
    h("dialog", { "aria-label": t.planTitle, onclose: closed }, dialog?.()),
  ];
}

// closed follows the end of the dialog. The browser gives the focus back to what had opened it, if that is still there.
// Its event may come after another one was asked for.
function closed(): void {
  if (dialog === shown) dialog = null;
  arrived ||= document.activeElement === document.body;
  changed();
}

function bar(): Tree {
  const here = where()[0] || "fleet";
  const entry = (name: string, text: string, also: string[] = []) => link([name], text,
    here === name || also.includes(here) ? { "aria-current": "page" } : {});
  const editor = access?.grants.some((g) => g.role === "editor" || g.role === "admin");
  return h("header", null,
    h("strong", { class: "product" }, t.product),
    h("nav", { "aria-label": t.screens }, entry("fleet", t.fleet, ["pool"]), entry("top", t.limited),
      entry("tenants", t.tenants, ["tenant"]), entry("limit", t.picture), entry("changes", t.changes), entry("request", t.request)),
    h("div", { class: "who" },
      editor && h("button", { type: "button", "aria-pressed": String(allowed), title: t.readOnlyHint,
        onclick: () => { allowed = !allowed; changed(); } }, allowed ? t.mayChange : t.readOnly),
      access && h("span", { class: "quiet" }, access.caller),
      signedIn() && h("button", { type: "button", onclick: () => { signIn("", false); restart(); } }, t.signOut)));
}

// old says how old the figures are, once nothing is heard.
function old(): Content {
  if (screen.paths().length === 0 || live.heard === 0) return null;
  return Date.now() - live.heard > staleAfter && stale(live.heard);
}

function signInForm(): Content {
  return h("form", { class: "card", onsubmit: (e) => {
    e.preventDefault();
    signIn(typed, keep);
    typed = "";
    restart();
  } },
  h("h1", null, t.signInTitle), h("p", null, t.signInWhy),
  refusal && h("p", { class: "note error", role: "alert" }, t.refused(refusal)),
  h("label", { class: "block" }, `${t.token} `, h("input", { type: "password", autocomplete: "off", value: typed, required: true,
    oninput: (e) => { typed = (e.target as HTMLInputElement).value; } })),
  h("label", { class: "block" }, h("input", { type: "checkbox", checked: keep,
    onchange: (e) => { keep = (e.target as HTMLInputElement).checked; } }), ` ${t.keep}`),
  h("button", { type: "submit", class: "primary" }, t.signIn));
}

// restart begins anew as another caller: nothing of the one before stays.
function restart(): void {
  allowed = false;
  forget();
  history.clear();
  live.answers.clear();
  live.restart();
  void introduce().then(navigate);
}

window.addEventListener("hashchange", navigate);
setInterval(changed, 1000); // ages
navigate();
void introduce();
