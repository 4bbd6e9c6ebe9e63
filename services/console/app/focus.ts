// The focus of the keyboard. A screen that opens has it on its heading, and no update of the page loses it.

// trail is the element that has the focus and all that it is in; nothing if none has it.
export function trail(): HTMLElement[] {
  const out: HTMLElement[] = [];
  for (let e = document.activeElement; e instanceof HTMLElement && e !== document.body; e = e.parentElement) out.push(e);
  return out;
}

// keep gives the focus back that an update has taken: to its element, or to the smallest part around it that is left, or
// to the screen.
export function keep(before: HTMLElement[]): void {
  if (before.length === 0 || document.activeElement !== document.body) return;
  for (const e of before) {
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
