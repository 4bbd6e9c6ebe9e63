// Tenants: all of them, filtered by name. They are read page by page, as they do not change by the second.

import { get, problemOf } from "./api";
import { h } from "./dom";
import { last, num, time } from "./format";
import { badge, failed, link, Table, type Context, type Screen } from "./parts";
import { t } from "./strings";
import type { Problem, Tenant } from "./types";

export function tenants(c: Context): Screen {
  let all: Tenant[] = [], done = false, filter = "";
  let problem: Problem | null = null;
  const load = async () => {
    try {
      for (let token = ""; ;) {
        const page = await get<{ tenants: Tenant[]; nextPageToken: string }>(
          `/tenants?page_size=1000&page_token=${encodeURIComponent(token)}`);
        all = all.concat(page.tenants);
        token = page.nextPageToken;
        c.changed();
        if (!token) break;
      }
      done = true;
    } catch (e) {
      problem = problemOf(e);
    }
    c.changed();
  };
  void load();
  const table = new Table<Tenant>(t.tenants, [
    { title: t.name, cell: (x) => link(["tenant", last(x.name)], last(x.name)) },
    { title: t.displayName, optional: true, cell: (x) => x.displayName },
    { title: t.weight, number: true, cell: (x) => x.plan && !x.weight ? t.ofPlan(x.plan) : num(x.weight) },
    { title: t.tenantPlan, optional: true, cell: (x) => x.plan },
    { title: t.warnings, optional: true, cell: (x) => x.status?.warnings.length ? badge(num(x.status.warnings.length), "warn") : "" },
    { title: t.updated, cell: (x) => time(x.updateTime) },
  ], (x) => x.name, c.changed);
  return {
    title: t.tenants,
    paths: () => [],
    view: () => {
      const found = all.filter((x) => last(x.name).includes(filter) || x.displayName.includes(filter));
      return [
        h("h1", null, t.tenants),
        h("div", { class: "controls" },
          h("label", null, t.filter, " ", h("input", { type: "search", value: filter, oninput: (e) => {
            filter = (e.target as HTMLInputElement).value;
            c.changed();
          } })),
          h("span", { class: "quiet", role: "status" },
            done ? t.loaded(num(found.length)) : t.loadingMore(num(all.length)))),
        problem && failed(problem),
        found.length > 0 ? table.view(found)
          : done && h("p", { class: "quiet" }, all.length ? t.noMatch : t.noTenants),
      ];
    },
  };
}
