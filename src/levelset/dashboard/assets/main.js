// The page: reads the route from the address, draws what belongs to it, and handles the keys.

import { html, render, useEffect, useRef, useState } from "./html.js";
import { readRoute, shortKind, toKind } from "./links.js";
import { useFeed, useQuery } from "./live.js";
import { Navigation } from "./navigation.js";
import { Overview } from "./problems.js";
import { EventsPage } from "./events.js";
import { KindPage, SearchPage } from "./objects.js";
import { ObjectPage } from "./object.js";
import { LogsPage } from "./logs.js";
import { MetricsPage } from "./metrics.js";
import { ControllerPage } from "./controller.js";
import { ReconcilesPage } from "./reconciles.js";
import { EndpointsPage } from "./endpoints.js";
import { RunsPage } from "./runs.js";

// A cookie has replaced the token: remove it from the address bar, so that it is not copied.
history.replaceState(null, "", location.pathname + location.hash);

const PAGES = {
  "": Overview, events: EventsPage, kind: KindPage, object: ObjectPage, search: SearchPage, logs: LogsPage,
  metrics: MetricsPage, reconciles: ReconcilesPage, endpoints: EndpointsPage,
  controller: ControllerPage, runs: RunsPage,
};

// Without a server there are only files of past runs.
function App() {
  const runs = useQuery("api/runs", { every: 60000 });
  if (!runs.data && !runs.error) return "";
  if (runs.data && runs.data.isAlone) return html`<${Alone} />`;
  return html`<${Whole} hasRuns=${Boolean(runs.data && runs.data.files.length)} />`;
}

function Alone() {
  const route = useRoute();
  useTitle(route, 0);
  return html`<main id="main" tabindex="-1" aria-label=${titleOf(route)}><${RunsPage} key=${route.kind} route=${route} /></main>`;
}

function Whole({ hasRuns }) {
  const route = useRoute();
  const kinds = useQuery("api/kinds", { every: 2000 });
  const status = useQuery("api/status", { every: 5000 });
  const problems = useQuery("api/problems", { every: 10000, atLeast: 20000 });
  const [found, noteProblems] = useState(null);  // what the landing page shows is newer
  useEffect(() => noteProblems(problems.data), [problems.data]);
  const bad = found ? found.problems.filter((one) => one.tone === "bad").length : 0;
  const help = useRef(null);
  useTitle(route, bad);
  useKeys(help);
  const Page = Object.hasOwn(PAGES, route.what) ? PAGES[route.what] : Overview;
  const key = [route.what, route.kind, route.namespace, route.name].join("/");
  return html`<a class="skip" href="#main" onClick=${focusMain}>Skip to content</a>
    <${Navigation} route=${route} hasRuns=${hasRuns} bad=${bad} server=${status.data ? status.data.server : ""} kinds=${kinds.data ? kinds.data.kinds : []} openHelp=${() => help.current.showModal()} />
    <main id="main" tabindex="-1" aria-label=${titleOf(route)}><${Page} key=${key} route=${route} kinds=${kinds.data ? kinds.data.kinds : []}
      noteProblems=${noteProblems} hasActions=${Boolean(status.data && status.data.hasActions)} /></main>
    ${Page === RunsPage ? html`<${Feed} />` : ""}<${Help} dialog=${help} />`;
}

// For a page that shows nothing live: the kinds beside it are.
function Feed() {
  useFeed([]);
  return "";
}

function focusMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function useRoute() {
  const [route, setRoute] = useState(readRoute());
  useEffect(() => {
    const go = () => setRoute(readRoute());
    go();  // it may have changed since the first drawing
    window.addEventListener("hashchange", go);
    return () => window.removeEventListener("hashchange", go);
  }, []);
  // Another page is read from its beginning, by eyes and by screen readers; the first one is announced by the browser.
  const isFirst = useRef(true);
  useEffect(() => {
    window.scrollTo(0, 0);
    if (!isFirst.current) document.getElementById("main")?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [route.what, route.kind, route.namespace, route.name]);
  return route;
}

// A tab in the background says how many problems there are.
function useTitle(route, bad) {
  const title = `${bad ? `(${bad}) ` : ""}${titleOf(route)} \u00b7 levelset`;
  useEffect(() => { document.title = title; }, [title]);
}

const titleOf = (route) => route.name || shortKind(route.kind) || (route.what ? route.what[0].toUpperCase() + route.what.slice(1) : "Overview");

// ---- keys ---------------------------------------------------------------------------------------------------------

const KEYS = [["/", "filter what is shown"], ["s", "search all objects"], ["f", "find a kind"], ["j, k", "next and previous row"],
  ["Enter", "open it"], ["u", "one level up"], ["o, e, m, l", "overview, events, metrics, logs"], ["Esc", "leave a field, or this window"]];

function Help({ dialog }) {
  return html`<dialog ref=${dialog} aria-label="Keys"><h2>Keys</h2>
    <dl>${KEYS.map(([key, what]) => html`<dt key=${key}>${key}</dt><dd>${what}</dd>`)}</dl>
    <form method="dialog"><button>Close</button></form></dialog>`;
}

// The address is read when a key is pressed: a page is visible some time before its effects have run.
function useKeys(help) {
  useEffect(() => {
    const focus = (...ids) => ids.map((id) => document.getElementById(id)).find(Boolean)?.focus();
    const goTo = (hash) => () => { location.hash = hash; };
    const keys = {
      "/": () => focus("filter", "kind-filter"), s: () => focus("search"), f: () => focus("kind-filter"),
      j: () => step(1), k: () => step(-1), u: () => { location.hash = above(readRoute()); },
      o: goTo("#/"), e: goTo("#/events"), m: goTo("#/metrics"), l: goTo("#/logs"), "?": () => help.current.showModal(),
    };
    const press = (event) => {
      const isTyping = event.target.matches?.("input, select, textarea");
      if (event.key === "Escape" && isTyping) { event.target.blur(); return; }
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || help.current.open || !Object.hasOwn(keys, event.key)) return;
      event.preventDefault();
      keys[event.key]();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

const above = (route) => route.what === "object" ? toKind(route.kind) : "#/";

function step(by) {
  const rows = [...document.querySelectorAll("main tbody tr, main .problems li")];
  const links = rows.map((row) => row.querySelector("a")).filter(Boolean);
  const at = links.findIndex((one) => one.closest("tr, li").contains(document.activeElement));
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

render(html`<${App} />`, document.getElementById("app"));
