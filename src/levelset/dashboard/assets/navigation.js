// The bar at the side, on a phone a line with a menu: the pages, a search over all kinds, and the kinds with the numbers of
// their objects.

import { html, useEffect, useState } from "./html.js";
import { toKind, toSearch } from "./links.js";
import { useConnection } from "./live.js";
import { kindName } from "./parts.js";

const PAGES = [["", "Overview"], ["events", "Events"], ["metrics", "Metrics"], ["reconciles", "Reconciles"],
  ["endpoints", "Endpoints"], ["logs", "Logs"]];

export function Navigation({ route, kinds, hasRuns, bad, server, openHelp }) {
  const connection = useConnection();
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [route]);
  return html`<nav aria-label="Pages and kinds">
    <header><a class="brand" href="#/">levelset</a>
      <span id="live" role="status" data-tone=${connection.tone}>${connection.text}</span>
      <button type="button" id="menu-button" aria-expanded=${String(isOpen)} aria-controls="menu"
        onClick=${() => setOpen(!isOpen)}>Menu</button></header>
    <div id="menu" class=${isOpen ? "open" : ""}>
      ${server ? html`<p class="server" title=${server}><span class="spoken">Server </span>${server.replace(/^https?:\/\//, "")}</p>` : ""}
      <${SearchField} route=${route} />
      <ul>${[...PAGES, ...(hasRuns ? [["runs", "Runs"]] : [])].map(([what, name]) => html`<li key=${what}><a class="nav-link" href=${`#/${what}`}
        aria-current=${route.what === what ? "page" : null}>${name}${!what && bad ? html` <span class="bad">${bad}<span class="spoken"> ${bad === 1 ? "problem" : "problems"}</span></span>` : ""}</a></li>`)}</ul>
      <${Kinds} route=${route} kinds=${kinds} />
      <footer><button type="button" onClick=${openHelp}>Keys</button></footer>
    </div>
  </nav>`;
}

function SearchField({ route }) {
  const submit = (event) => {
    event.preventDefault();
    location.hash = toSearch(event.target.elements.q.value.trim());
  };
  return html`<form role="search" onSubmit=${submit}>
    <input id="search" name="q" type="search" placeholder="Search all objects" autocomplete="off" spellcheck=${false}
      aria-label="Search all objects by name or label" title="A name, or a label such as app=web; then Enter"
      defaultValue=${route.what === "search" ? route.options.get("q") : ""} />
  </form>`;
}

function Kinds({ route, kinds }) {
  const [typed, setTyped] = useState("");
  const [isOpen, setOpen] = useState(false);
  const word = typed.trim().toLowerCase();
  const fitting = kinds.filter((one) => one.kind.toLowerCase().includes(word));
  const own = fitting.filter((one) => one.hasController);
  const others = fitting.filter((one) => !one.hasController && one.count !== 0);
  const empty = fitting.filter((one) => !one.hasController && one.count === 0);
  const twice = new Set(kinds.map((one) => one.name).filter((name, at, all) => all.indexOf(name) !== at));
  const list = (some, label) => html`<${KindList} some=${some} route=${route} twice=${twice} label=${label} />`;
  return html`<input id="kind-filter" type="search" placeholder="Find a kind" aria-label="Find a kind" autocomplete="off"
      spellcheck=${false} value=${typed} onInput=${(event) => setTyped(event.target.value)} />
    ${own.length ? list(own, "With a controller") : ""}
    ${others.length ? list(others, own.length ? "Other kinds" : "Kinds") : ""}
    ${empty.length ? html`<details open=${Boolean(word) || isOpen} onToggle=${(event) => setOpen(event.target.open)}>
      <summary>${empty.length} without objects</summary>${list(empty)}</details>` : ""}
    ${!fitting.length && word ? html`<p class="quiet">No kind matches.</p>` : ""}`;
}

function KindList({ some, route, twice, label }) {
  const isCurrent = (one) => (route.what === "kind" || route.what === "object") && route.kind === one.kind;
  return html`${label ? html`<p class="group" aria-hidden="true">${label}</p>` : ""}<ul aria-label=${label || "Kinds without objects"}>${some.map((one) => html`<li key=${one.kind}>
    <a class="nav-link" href=${toKind(one.kind)} title=${one.kind} aria-current=${isCurrent(one) ? "page" : null}>
      <span>${kindName(one.name)}${twice.has(one.name) && one.group ? html`<small> ${one.group}</small>` : ""}</span>
      <span class="count">${one.count === null ? "" : String(one.count)}</span></a></li>`)}</ul>`;
}
