"use strict";
// Objects are untrusted input: everything from them is set as text, never as HTML.

const $ = (id) => document.getElementById(id);
const main = $("main");
const enc = encodeURIComponent;
const shown = { route: null, text: "", tokens: [], filter: "", related: [], names: new Set(), fresh: new Set() };
let kinds = [];
let feed = null;
let again = null;

// A cookie has replaced the token: remove it from the address bar, so that it is not copied.
history.replaceState(null, "", location.pathname + location.hash);

function h(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== ""));
  return made;
}

// ---- routing ----------------------------------------------------------------------------------------------------

function route() {
  const [what = "", kind = "", namespace = "", name = ""] = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  return { what, kind, namespace, name };
}
function decode(text) { try { return decodeURIComponent(text); } catch { return text; } }
const toKind = (kind, namespace = "") => `#/kind/${enc(kind)}` + (namespace ? `/${enc(namespace)}` : "");
const toObject = (one) => `#/object/${enc(one.kind)}/${enc(one.namespace || "")}/${enc(one.name)}`;
const shortKind = (kind) => kind.slice(kind.lastIndexOf("/") + 1);

async function query(path) {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store" });
  const text = await response.text();
  if (response.ok) return text;
  let message = text;
  try { message = JSON.parse(text).error || text; } catch { /* a sentence */ }
  throw Object.assign(new Error(message || `The server responded ${response.status}.`), { status: response.status });
}

// ---- refresh: query, compare, draw ------------------------------------------------------------------------------

const pages = {
  "": { query: async () => `[${await Promise.all([query("/api/status"), query("/api/events")])}]`, draw: drawOverview },
  events: { query: () => query("/api/events"), draw: drawEvents },
  kind: { query: queryObjects, draw: drawObjects },
  object: { query: (at) => query(`/api/object?kind=${enc(at.kind)}&name=${enc(at.name)}&namespace=${enc(at.namespace)}`), draw: drawObject },
};

let refreshing = false, refreshAgain = false;
async function refresh() {
  if (refreshing) { refreshAgain = true; return; }
  refreshing = true;
  do {
    refreshAgain = false;
    [shown.fresh, shown.names] = [shown.names, new Set()];
    const at = shown.route, page = Object.hasOwn(pages, at.what) ? pages[at.what] : pages[""];
    try {
      const text = await page.query(at);
      if (at === shown.route && text !== shown.text) {
        shown.text = text;
        preservingFocus(() => page.draw(JSON.parse(text), at));
        stampAges();
      }
    } catch (error) {
      if (at === shown.route) { shown.text = ""; drawError(error); }
    }
  } while (refreshAgain);
  refreshing = false;
}

function go() {
  const now = route();
  const isSame = shown.route && JSON.stringify(now) === JSON.stringify(shown.route);
  if (!isSame) {
    Object.assign(shown, { route: now, text: "", tokens: [], filter: "", related: [] });
    main.replaceChildren(h("p", { class: "quiet" }, "Loading"));
    window.scrollTo(0, 0);
  }
  document.title = [now.name || shortKind(now.kind) || now.what, "levelset"].filter(Boolean).join(" · ");
  refresh();
  readKinds();
  openFeed();
}

// Redrawing must preserve the focus, the scroll position and the filter that is being typed.
function preservingFocus(draw) {
  const key = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
  const inner = main.querySelector("pre") ? main.querySelector("pre").scrollTop : 0;
  const rows = () => [...main.querySelectorAll("tbody tr")];
  const row = rows().findIndex((one) => one.contains(document.activeElement));
  const caret = document.activeElement instanceof HTMLInputElement ? document.activeElement.selectionStart : null;
  draw();
  if (main.querySelector("pre")) main.querySelector("pre").scrollTop = inner;
  const again = key && [...main.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  if (again) {
    again.focus({ preventScroll: true });
    if (caret !== null && again instanceof HTMLInputElement) again.setSelectionRange(caret, caret);
  } else if (row >= 0) {  // the focused row was removed: focus its neighbour
    const left = rows(), next = left[Math.min(row, left.length - 1)];
    if (next) next.querySelector("a")?.focus({ preventScroll: true });
  }
}

function drawError(error) {
  const hint = error.status === 404 ? "It may have been deleted." : error.status ? "" : "The manager has probably been stopped.";
  main.replaceChildren(crumbs([]), h("p", { class: "error-box" }, `${error.message} ${hint}`));
}

// ---- the feed ---------------------------------------------------------------------------------------------------

function wanted() {
  const at = shown.route;
  const controlled = kinds.filter((one) => one.hasController).map((one) => one.kind);
  if (at.what === "kind") return { kinds: [at.kind], status: false };
  if (at.what === "object") return { kinds: [at.kind, "v1/Event", ...shown.related], status: true };
  if (at.what === "events") return { kinds: ["v1/Event"], status: false };
  return { kinds: ["v1/Event", ...controlled].slice(0, 8), status: true };
}

function openFeed() {
  const want = wanted();
  const address = "/feed?" + [...new Set(want.kinds)].map((one) => `kind=${enc(one)}`).join("&") + (want.status ? "&status=1" : "");
  if (document.hidden) { closeFeed(); return; }
  if (feed && feed.address === address && feed.readyState !== EventSource.CLOSED) return;
  closeFeed();
  feed = new EventSource(address);
  feed.address = address;
  feed.onopen = () => setLive("live", "good");
  feed.onerror = () => {
    setLive("not connected", "bad");
    if (feed && feed.readyState === EventSource.CLOSED && !again) again = setTimeout(() => { again = null; openFeed(); }, 2000);
  };
  feed.addEventListener("change", (event) => {
    const change = JSON.parse(event.data);
    for (const [kind, names] of Object.entries(change.kinds)) for (const name of names || []) shown.names.add(`${kind} ${name}`);
    refresh();
    if (Object.keys(change.kinds).length) soonReadKinds();
  });
}
function closeFeed() { if (feed) { feed.close(); feed = null; } clearTimeout(again); again = null; }
function setLive(text, tone) { $("live").textContent = text; $("live").dataset.tone = tone; }

// ---- the kinds --------------------------------------------------------------------------------------------------

let kindsText = "", soon = null;
async function readKinds() {
  try {
    const text = await query("/api/kinds");
    if (text !== kindsText) { kindsText = text; kinds = JSON.parse(text).kinds; openFeed(); }
  } catch { /* the main part shows the error */ }
  drawKinds();
}
function soonReadKinds() { if (!soon) soon = setTimeout(() => { soon = null; readKinds(); }, 2000); }

function drawKinds() {
  const at = shown.route;
  const typed = $("kind-filter").value.trim().toLowerCase();
  const fitting = kinds.filter((one) => one.kind.toLowerCase().includes(typed));
  const own = fitting.filter((one) => one.hasController);
  const there = fitting.filter((one) => !one.hasController && one.count !== 0);
  const empty = fitting.filter((one) => !one.hasController && one.count === 0);
  const isOpen = Boolean(typed) || ($("kinds").querySelector("details") || {}).open;
  const parts = [];
  if (own.length) parts.push(h("h2", null, "With a controller"), list(own));
  if (there.length) parts.push(h("h2", null, own.length ? "Other kinds" : "Kinds"), list(there));
  if (empty.length) parts.push(h("details", { open: isOpen }, h("summary", null, `${empty.length} without objects`), list(empty)));
  if (!fitting.length && typed) parts.push(h("p", { class: "quiet" }, "No kind matches."));
  const focused = $("kinds").contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  $("kinds").replaceChildren(...parts);
  if (focused) [...$("kinds").querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus();
  for (const one of document.querySelectorAll("nav .nav-link[data-route]")) current(one, one.dataset.route === at.what);

  function list(some) {
    const twice = new Set(kinds.map((one) => one.name).filter((name, at, all) => all.indexOf(name) !== at));
    return h("ul", null, some.map((one) => h("li", null, current(
      h("a", { class: "nav-link", href: toKind(one.kind), title: one.kind },
        h("span", null, one.name, twice.has(one.name) && one.group ? h("small", null, ` ${one.group}`) : null),
        h("span", { class: "count" }, one.count === null ? "" : String(one.count))),
      (at.what === "kind" || at.what === "object") && at.kind === one.kind))));
  }
}
function current(link, isCurrent) {
  if (isCurrent) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  return link;
}

// ---- shared parts -----------------------------------------------------------------------------------------------

// Columns that are empty in every row are left out.
function table(heads, rows, none) {
  if (!rows.length) return h("p", { class: "quiet" }, none);
  const isBlank = (cell) => cell === "" || (cell instanceof HTMLTableCellElement && !cell.textContent);
  const used = heads.map((_, at) => rows.some(({ cells }) => !isBlank(cells[at])));
  heads = heads.filter((_, at) => used[at]);
  rows = rows.map((row) => ({ ...row, cells: row.cells.filter((_, at) => used[at]) }));
  const numbers = heads.map((one) => one.startsWith("#"));
  return h("div", { class: "scroll" }, h("table", null,
    h("thead", null, h("tr", null, heads.map((one, at) => h("th", { scope: "col", class: numbers[at] && "number" }, one.replace("#", ""))))),
    h("tbody", null, rows.map(({ cells, fresh }) => h("tr", { class: fresh && "fresh" },
      cells.map((cell, at) => cell instanceof HTMLTableCellElement ? cell : h("td", { class: numbers[at] && "number" }, cell)))))));
}
const tight = (...parts) => h("td", { class: "tight" }, ...parts);
const words = (...parts) => h("td", { class: "words" }, ...parts);
const tone = (label, of) => label ? h("span", { "data-tone": of }, label) : "";
const link = (one, label) => one && one.name ? h("a", { href: toObject(one), "data-key": toObject(one) }, label || one.name) : "";
const full = (one) => `${shortKind(one.kind)} ${one.namespace ? one.namespace + "/" : ""}${one.name}`;
const tones = { done: "good", requeued: "good", gone: "none", conflict: "busy", retry: "busy" };  // by reconcile result; others are bad
const age = (at) => at ? h("time", { datetime: at, title: at }, since(at)) : "";

function since(at) {
  const seconds = Math.max(0, (Date.now() - Date.parse(at)) / 1000);
  if (Number.isNaN(seconds)) return at;
  if (seconds < 100) return `${Math.floor(seconds)}s`;
  if (seconds < 6000) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}
function stampAges() { for (const one of document.querySelectorAll("time")) one.textContent = since(one.getAttribute("datetime")); }
setInterval(() => { if (!document.hidden) stampAges(); }, 5000);

function crumbs(steps) {
  const parts = [h("a", { href: "#/" }, "Overview")];
  for (const step of steps) parts.push(" / ", step);
  return h("p", { class: "crumbs" }, ...parts);
}

function eventTable(events, withObject) {
  return table(["Age", "Type", "Reason", ...(withObject ? ["Object"] : []), "Message", "#Times"],
    events.map((one) => ({ cells: [
      tight(age(one.at)), tight(tone(one.type, one.type === "Normal" ? "none" : "bad")), one.reason,
      ...(withObject ? [words(link(one.about, full(one.about)))] : []), words(one.message), String(one.count)] })), "No events yet.");
}

// ---- the pages --------------------------------------------------------------------------------------------------

function drawOverview([status, { events }]) {
  const rows = status.controllers.map((one) => ({ cells: [
    h("td", { class: "name" }, one.name), h("a", { href: toKind(one.kind), "data-key": `kind ${one.name}` }, shortKind(one.kind)),
    tight(one.isReady ? tone(one.failing ? `${one.failing} failing` : "healthy", one.failing ? "bad" : "good") : tone("syncing", "busy")),
    String(one.waiting), String(one.delayed), `${one.running} of ${one.workers}`, String(one.reconciles), String(one.errors),
    one.lastError ? words(link(one.lastError, full(one.lastError)), ": ", one.lastError.message) : ""] }));
  const watches = status.watches.map((one) => ({ cells: [
    h("td", { class: "name" }, one.name), tight(one.error ? tone(one.error, "bad") : one.is_ready ? tone("synced", "good") : tone("syncing", "busy")),
    String(one.objects), size(one.bytes), String(one.events), String(one.relists), String(one.reconnects), String(one.errors)] }));
  const members = status.members.map((one) => ({ cells: [
    h("td", { class: "name" }, one.name), one.identity, String(one.keys),
    tight(one.is_me ? tone("this process", "good") : one.is_acknowledged ? tone("acknowledged", "none") : tone("takes over", "busy"))] }));
  const moves = Object.entries(status.moves).map(([name, [owned, gained, lost]]) => ({ cells: [
    h("td", { class: "name" }, name), String(owned), String(gained), String(lost)] }));
  const shards = members.length ? [
    h("h2", null, "Members"),
    table(["Name", "Identity", "#Objects", "State"], members, "No members."),
    table(["Controller", "#Objects here", "#Gained", "#Lost"], moves, "No controllers.")] : [];
  main.replaceChildren(
    h("h1", null, "Overview"),
    ...shards,
    h("h2", null, "Controllers"),
    table(["Name", "Kind", "State", "#Queued", "#Delayed", "#Running", "#Reconciles", "#Errors", "Last error"], rows, "No controllers are running."),
    h("h2", null, "Watches"),
    table(["Kind", "State", "#Objects", "#Size", "#Events", "#Relists", "#Reconnects", "#Errors"], watches, "No watches."),
    h("h2", null, "Latest events"),
    eventTable(events.slice(0, 15), true),
    events.length > 15 ? h("p", null, h("a", { href: "#/events" }, "All events")) : "");
}
const size = (bytes) => bytes < 1e4 ? `${bytes} B` : bytes < 1e7 ? `${Math.round(bytes / 1e3)} kB` : `${Math.round(bytes / 1e6)} MB`;

function drawEvents({ events, isPartial }) {
  main.replaceChildren(crumbs([]), h("h1", null, "Events", h("small", null, `the last ${events.length}`)),
    isPartial ? h("p", { class: "quiet" }, "There are too many events; only a part of them was read.") : "",
    h("div", { class: "bar" }, filterField()), eventTable(events, true));
  applyFilter();
}

async function queryObjects(at) {
  const token = shown.tokens[shown.tokens.length - 1];
  try {
    return await query(`/api/objects?kind=${enc(at.kind)}&namespace=${enc(at.namespace)}` + (token ? `&continue=${enc(token)}` : ""));
  } catch (error) {
    if (error.status !== 410 || !token) throw error;
    shown.tokens = [];  // the continue token has expired: start again
    return queryObjects(at);
  }
}

function drawObjects(found, at) {
  const before = shown.tokens.length * 500;
  const total = before + found.rows.length + (found.remaining || 0);
  const rows = found.rows.map((one) => {
    const object = { kind: found.kind, name: one.name, namespace: one.namespace };
    return { fresh: shown.fresh.has(`${found.kind} ${one.namespace ? one.namespace + "/" : ""}${one.name}`), cells: [
      h("td", { class: "name" }, link(object)), ...(found.namespaced ? [one.namespace || ""] : []), tone(one.state, one.tone),
      words(one.conditions.map((each) => each.type + (each.status === "True" ? "" : each.status === "False" ? " (no)" : " (?)")).join(", ")),
      one.lastResult ? tone(one.lastResult.replace("_", " "), tones[one.lastResult] || "bad") : "",
      one.owner ? link(one.owner, full({ ...one.owner, namespace: null })) : "", tight(age(one.created))] };
  });
  const turn = (tokens) => () => { shown.tokens = tokens; shown.text = ""; refresh(); };
  main.replaceChildren(crumbs([]), h("h1", null, shortKind(found.kind), h("small", null, found.kind.slice(0, found.kind.lastIndexOf("/")))),
    h("div", { class: "bar" }, filterField(), found.namespaced ? namespaceField(found, at) : "",
      h("span", { class: "space" }),
      h("span", { class: "quiet" }, rows.length ? `${before + 1} to ${before + rows.length} of ${total}` : ""),
      shown.tokens.length ? h("button", { type: "button", onclick: turn(shown.tokens.slice(0, -1)) }, "Previous page") : "",
      found.continue ? h("button", { type: "button", onclick: turn([...shown.tokens, found.continue]) }, "Next page") : ""),
    table(["Name", ...(found.namespaced ? ["Namespace"] : []), "State", "Conditions", "Last result", "Owner", "Age"], rows,
      at.namespace ? `No objects in ${at.namespace}.` : "No objects."));
  applyFilter();
}

function namespaceField(found, at) {
  const choose = (event) => { location.hash = toKind(found.kind, event.target.value); };
  return h("select", { "aria-label": "Namespace", "data-key": "namespace", onchange: choose },
    h("option", { value: "" }, "All namespaces"),
    found.namespaces.map((one) => h("option", { value: one, selected: one === at.namespace }, one)));
}
function filterField() {
  const typed = (event) => { shown.filter = event.target.value; applyFilter(); };
  const field = h("input", { id: "filter", type: "search", placeholder: "Filter these rows", "aria-label": "Filter these rows",
    autocomplete: "off", spellcheck: "false", "data-key": "filter", oninput: typed });
  field.value = shown.filter;
  return field;
}
function applyFilter() {
  const parts = shown.filter.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of main.querySelectorAll("tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !parts.every((word) => text.includes(word));
  }
}

function drawObject(one, at) {
  const conditions = one.conditions.map((each) => ({ cells: [
    tight(each.type), tight(each.status), words(each.reason, each.reason && each.message ? h("br") : "", each.message), tight(age(each.lastTransitionTime))] }));
  const copy = (event) => { navigator.clipboard.writeText(one.source.text); event.target.textContent = "Copied"; };
  const steps = [h("a", { href: toKind(at.kind) }, shortKind(at.kind)), ...one.owners.map((each) => each.exists ? link(each, full(each)) : `${full(each)} (not found)`)];
  const right = [];
  if (conditions.length) right.push(h("h2", null, "Conditions"), table(["Type", "Status", "Reason", "Since"], conditions, ""));
  if (one.children.length) right.push(h("h2", null, "Owned objects"), tree(one.children, "tree"));
  right.push(h("h2", null, "Last reconciles"), reconciles(one.reconciles), h("h2", null, "Events"), eventTable(one.events, false));
  main.replaceChildren(crumbs(steps),
    h("h1", null, one.name, h("small", null, [shortKind(at.kind), one.namespace && `in ${one.namespace}`].filter(Boolean).join(" "))),
    h("p", null, tone(one.state, one.tone), one.state ? " " : "", h("span", { class: "quiet" }, one.created ? "created " : "", age(one.created), one.created ? " ago" : "")),
    h("div", { class: "halves" },
      h("section", null, h("div", { class: "bar" }, h("span", { class: "quiet" }, one.source.language.toUpperCase() + (one.source.isCut ? ", truncated" : "")),
        h("span", { class: "space" }), h("button", { type: "button", onclick: copy }, "Copy")), source(one.source)),
      h("section", null, ...right)));
  shown.related = [...new Set(below(one.children))].slice(0, 6);
  openFeed();
}
const below = (children) => children.flatMap((one) => [one.kind, ...below(one.children)]).sort();

function tree(children, name) {
  return h("ul", { class: name }, children.map((one) => h("li", null, h("span", { class: "kind" }, shortKind(one.kind)), link(one),
    one.children.length ? tree(one.children) : "")));
}

function reconciles(all) {
  if (!all.length) return h("p", { class: "quiet" }, "No controller has reconciled it.");
  return h("div", null, all.map((one) => h("div", { class: "reconcile" },
    h("p", null, tone(one.result.replace("_", " "), tones[one.result] || "bad"), h("span", { class: "quiet" },
      ` in ${duration(one.seconds)} by ${one.controller}${one.attempt ? `, attempt ${one.attempt + 1}` : ""}; ${one.next}`)),
    h("p", null, "because ", one.reasons.join("; ") || "no reason"),
    one.error ? h("p", { class: "error" }, one.error) : "")));
}
const duration = (seconds) => seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;

function source({ text, language }) {
  const lines = text.trimEnd().split("\n");
  if (language !== "yaml" || lines.length > 3000) return h("pre", { tabindex: "0" }, text);
  return h("pre", { tabindex: "0" }, lines.flatMap((line) => {
    const found = /^(\s*(?:- )*)([^\s:'"#][^:]*)(:(?:\s.*)?)$/.exec(line);
    return found ? [found[1], h("b", null, found[2]), found[3] + "\n"] : [line + "\n"];
  }));
}

// ---- keys -------------------------------------------------------------------------------------------------------

function step(by) {
  const links = [...main.querySelectorAll("tbody tr:not([hidden])")].map((row) => row.querySelector("a")).filter(Boolean);
  const at = links.findIndex((one) => one.closest("tr").contains(document.activeElement));
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
}
function up() {
  const at = shown.route;
  location.hash = at.what === "object" ? toKind(at.kind) : "#/";
}
const keys = {
  "/": () => ($("filter") || $("kind-filter")).focus(), f: () => $("kind-filter").focus(), j: () => step(1), k: () => step(-1),
  u: up, o: () => { location.hash = "#/"; }, e: () => { location.hash = "#/events"; }, "?": () => $("help").showModal(),
};
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "Escape" && isTyping) { event.target.blur(); return; }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || $("help").open || !Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
});
$("help-button").addEventListener("click", keys["?"]);
$("kind-filter").addEventListener("input", drawKinds);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
document.addEventListener("visibilitychange", () => { if (document.hidden) { closeFeed(); setLive("paused", "none"); } else { refresh(); openFeed(); } });
window.addEventListener("hashchange", go);
go();
