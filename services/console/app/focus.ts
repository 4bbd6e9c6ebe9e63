// The focus of the keyboard. A screen that opens has it on its heading, and no update of the page loses it.

interface Trail { path: HTMLElement[]; seen: boolean }

// trail is the element that has the focus and all that it is in, and whether the reader sees it; nothing if none has it.
export function trail(): Trail {
  const path: HTMLElement[] = [];
  for (let e = document.activeElement; e instanceof HTMLElement && e !== document.body; e = e.parentElement) path.push(e);
  return { path, seen: seen(path[0]) };
}

function seen(e: Element | undefined): boolean {
  const r = e?.getBoundingClientRect();
  return r !== undefined && r.bottom > 0 && r.top < innerHeight;
}

// keep gives the focus back that an update has taken: to its element, or to the smallest part around it that is left, or
// to the screen. An element that keeps it, and that news above have pushed out of sight, is scrolled back.
export function keep(before: Trail): void {
  const [had] = before.path;
  if (!had) return;
  if (document.activeElement === had && before.seen && !seen(had)) had.scrollIntoView({ block: "nearest" });
  if (document.activeElement !== document.body) return;
  for (const e of before.path) {
    if (!e.isConnected) continue;
    if (e.matches("section, article, dialog, main") && heading(e)) return;
    e.focus({ preventScroll: true });
    if (document.activeElement === e) return;
  }
  heading(document.querySelector("main"));
}

// heading gives the focus to the first heading in an element, if there is one.
export function heading(of: Element | null): boolean {
  const found = of?.querySelector<HTMLElement>("h1, h2, h3");
  if (!found) return false;
  found.tabIndex = -1;
  found.focus();
  return true;
}
