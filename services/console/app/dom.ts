// The page as a tree of values: a screen returns the tree that it wants, patch changes the document into it. Texts
// become text nodes and attributes, never HTML. The focus, what is typed and what is scrolled stay.

type Handler = (e: Event) => void;
type Value = string | number | boolean | null | undefined | Handler | Record<string, string>;
export type Props = Record<string, Value>;

export interface Tree {
  tag: string;
  props: Props;
  children: Child[];
}
type Child = Tree | string;
export type Content = Tree | string | number | null | undefined | false | Content[];

// h makes a tree. Properties are attributes, besides: key names a child among its siblings, css are styles, on… are
// handlers.
export function h(tag: string, props: Props | null, ...content: Content[]): Tree {
  return { tag, props: props ?? {}, children: flat(content) };
}

function flat(content: Content[]): Child[] {
  const out: Child[] = [];
  for (const c of content) {
    if (Array.isArray(c)) out.push(...flat(c));
    else if (typeof c === "number") out.push(String(c));
    else if (c) out.push(c);
  }
  return out;
}

const trees = new WeakMap<Node, Tree>();
const svg = "http://www.w3.org/2000/svg";

// patch gives an element these children.
export function patch(parent: Element, content: Content): void {
  patchChildren(parent, flat([content]));
}

function patchChildren(parent: Element, children: Child[]): void {
  const keyed = new Map<Value, ChildNode>();
  for (const n of parent.childNodes) {
    const key = trees.get(n)?.props["key"];
    if (key !== undefined) keyed.set(key, n);
  }
  let cursor = parent.firstChild;
  for (const child of children) {
    let found: ChildNode | null = cursor;
    if (typeof child !== "string" && child.props["key"] !== undefined) found = keyed.get(child.props["key"]) ?? null;
    else if (cursor && trees.get(cursor)?.props["key"] !== undefined) found = null;
    if (!found || !alike(found, child)) {
      parent.insertBefore(create(child, parent), cursor);
      continue;
    }
    if (found === cursor) cursor = cursor.nextSibling;
    else move(parent, found, cursor);
    update(found, child);
  }
  while (cursor) {
    const next: ChildNode | null = cursor.nextSibling;
    cursor.remove();
    cursor = next;
  }
}

// move puts a child elsewhere. In browsers that can, it keeps the focus meanwhile.
function move(parent: Element & { moveBefore?(n: Node, before: Node | null): void }, n: Node, before: Node | null): void {
  if (parent.moveBefore) parent.moveBefore(n, before);
  else parent.insertBefore(n, before);
}

function alike(n: Node, child: Child): boolean {
  return typeof child === "string" ? n.nodeType === Node.TEXT_NODE : trees.get(n)?.tag === child.tag;
}

function create(child: Child, parent: Element): Node {
  if (typeof child === "string") return document.createTextNode(child);
  const e = child.tag === "svg" || parent.namespaceURI === svg
    ? document.createElementNS(svg, child.tag) : document.createElement(child.tag);
  trees.set(e, { tag: child.tag, props: {}, children: [] });
  update(e, child);
  return e;
}

function update(n: Node, child: Child): void {
  if (typeof child === "string") {
    if (n.nodeValue !== child) n.nodeValue = child;
    return;
  }
  const e = n as HTMLElement, old = trees.get(n)?.props ?? {};
  for (const name in old) if (!(name in child.props)) set(e, name, undefined, old[name]);
  for (const name in child.props) set(e, name, child.props[name], old[name]);
  trees.set(n, child);
  patchChildren(e, child.children);
  if ("value" in child.props && e instanceof HTMLSelectElement) e.value = String(child.props["value"]);
}

function set(e: HTMLElement, name: string, value: Value, old: Value): void {
  if (name === "key") return;
  if (name === "css") {
    const styles = (value ?? {}) as Record<string, string>, before = (old ?? {}) as Record<string, string>;
    for (const k in before) if (!(k in styles)) e.style.removeProperty(k);
    for (const k in styles) if (before[k] !== styles[k]) e.style.setProperty(k, styles[k] ?? "");
    return;
  }
  if (name.startsWith("on")) {
    (e as unknown as Record<string, unknown>)[name] = value ?? null;
    return;
  }
  if (name === "value" && e instanceof HTMLInputElement) {
    if (e.value !== String(value ?? "")) e.value = String(value ?? "");
    return;
  }
  if (name === "checked" && e instanceof HTMLInputElement) {
    e.checked = Boolean(value);
    return;
  }
  if (value === old) return;
  if (value === null || value === undefined || value === false) e.removeAttribute(name);
  else e.setAttribute(name, value === true ? "" : String(value));
}
