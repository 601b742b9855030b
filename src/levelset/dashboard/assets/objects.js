// The table of a kind with the columns of the server, and the search over all kinds.

import { html, useEffect, useState } from "./html.js";
import { groupOf, shortKind, toKind, toSearch } from "./links.js";
import { useFeed, useFresh, useQuery } from "./live.js";
import { Age, Crumbs, Found, ObjectLink, Table, Tone } from "./parts.js";

const RESULT_TONES = { done: "good", requeued: "good", gone: "none", conflict: "busy", retry: "busy" };
export const resultTone = (result) => RESULT_TONES[result] || "bad";
const PAGE = 200;

export function KindPage({ route }) {
  const { kind, options } = route;
  const [pages, setPages] = useState([""]);  // continue tokens of the pages so far; offsets if rows are searched here
  const chosen = { namespace: options.get("namespace") || "", labels: options.get("labels") || "",
    q: options.get("q") || "", sort: options.get("sort") || "", desc: options.get("desc") || "" };
  useEffect(() => setPages([""]), [kind, ...Object.values(chosen)]);
  useFeed([kind]);
  const isArranged = Boolean(chosen.q || chosen.sort);
  const place = isArranged ? { offset: String((pages.length - 1) * PAGE) } : { continue: pages[pages.length - 1] };
  const path = "api/table?" + new URLSearchParams({ kind, ...chosen, ...place });
  const found = useQuery(path, { every: 500 });
  useEffect(() => { if (found.error && found.error.status === 410) setPages([""]); }, [found.error]);  // the token is too old
  const choose = (change) => { location.replace(toKind(kind, { ...chosen, ...change })); };
  return html`<${Crumbs} /><h1>${shortKind(kind)} <small>${groupOf(kind)}</small></h1>
    <${Found} query=${found}>${(data) => html`
      <${Filters} data=${data} chosen=${chosen} choose=${choose}>
        <${Pager} data=${data} pages=${pages} setPages=${setPages} isArranged=${isArranged} /><//>
      ${data.isPartial ? html`<p class="quiet">The list is too long to be sorted by this column: only its first 20,000 objects were. Choose a namespace or a label.</p>` : ""}
      ${data.isByMetadata ? html`<p class="quiet">The list is long: names, namespaces and labels were searched, not the other columns.</p>` : ""}
      <${ObjectTable} data=${data} chosen=${chosen} choose=${choose} />`}<//>`;
}

function Filters({ data, chosen, choose, children }) {
  const [text, setText] = useState(chosen.q);
  useEffect(() => { const timer = setTimeout(() => { if (text !== chosen.q) choose({ q: text }); }, 250); return () => clearTimeout(timer); }, [text]);
  const submit = (event) => { event.preventDefault(); choose({ labels: event.target.elements.labels.value.trim() }); };
  return html`<div class="bar">
    <input id="filter" type="search" placeholder="Filter by text" aria-label="Filter by text" autocomplete="off" spellcheck=${false}
      value=${text} onInput=${(event) => setText(event.target.value)} />
    <form onSubmit=${submit}><input name="labels" type="search" placeholder="Labels: app=web" aria-label="Filter by labels, then Enter"
      autocomplete="off" spellcheck=${false} defaultValue=${chosen.labels} /></form>
    ${data.namespaced ? html`<select aria-label="Namespace" value=${chosen.namespace}
      onChange=${(event) => choose({ namespace: event.target.value })}>
      <option value="">All namespaces</option>${data.namespaces.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
    </select>` : ""}
    <span class="space"></span>${children}</div>`;
}

function Pager({ data, pages, setPages, isArranged }) {
  const before = (pages.length - 1) * PAGE, last = before + data.rows.length;
  const total = data.total === null ? "many" : isArranged ? data.total : before + data.total;
  const hasNext = isArranged ? last < data.total : Boolean(data.continue);
  return html`<span class="quiet" role="status">${data.rows.length ? `${before + 1} to ${last} of ${total}` : ""}</span>
    ${pages.length > 1 ? html`<button type="button" onClick=${() => setPages(pages.slice(0, -1))}>Previous page</button>` : ""}
    ${hasNext ? html`<button type="button" onClick=${() => setPages([...pages, data.continue || ""])}>Next page</button>` : ""}`;
}

function ObjectTable({ data, chosen, choose }) {
  const fresh = useFresh(data.kind);
  const [isWide, setWide] = useState(false);
  const order = (name) => ({
    is: chosen.sort !== name ? "" : chosen.desc ? "desc" : "asc",
    choose: () => choose(chosen.sort === name ? (chosen.desc ? { sort: "", desc: "" } : { desc: "1" }) : { sort: name, desc: "" }),
  });
  const shown = data.columns.map((one, at) => ({ ...one, at })).filter((one) => one.name !== "Name" && (isWide || !one.isWide));
  const heads = [{ name: "Name", className: "name", sort: order("Name"), isKept: true },
    ...(data.namespaced ? [{ name: "Namespace", sort: order("Namespace") }] : []),
    ...shown.map((one) => ({ name: one.name, isNumber: one.isNumber, title: one.description, sort: order(one.name), isKept: true })),
    "State", "Last reconcile", { name: "Age", className: "tight", sort: order("Age"), isKept: true }];
  const rows = data.rows.map((one) => ({
    key: `${one.namespace}/${one.name}`, isFresh: fresh.has(one.namespace ? `${one.namespace}/${one.name}` : one.name),
    cells: [
      html`<${ObjectLink} to=${{ kind: data.kind, ...one }} />${one.deleted ? html` <span data-tone="busy">being deleted</span>` : ""}`,
      ...(data.namespaced ? [one.namespace || ""] : []),
      ...shown.map(({ at }) => one.tones[at] === "none" ? one.cells[at] : html`<${Tone} label=${one.cells[at]} of=${one.tones[at]} />`),
      one.state ? html`<${Tone} label=${one.state} of=${one.tone} />` : "",
      one.lastResult ? html`<${Tone} label=${one.lastResult.replace("_", " ")} of=${resultTone(one.lastResult)} />` : "",
      html`<${Age} at=${one.created} />`] }));
  const hasWide = data.columns.some((one) => one.isWide);
  const none = chosen.q || chosen.labels || chosen.namespace ? "No object matches." : "No objects.";
  return html`<${Table} heads=${heads} rows=${rows} none=${none} label=${shortKind(data.kind)} />
    ${hasWide ? html`<p><label><input type="checkbox" checked=${isWide} onChange=${(event) => setWide(event.target.checked)} /> all columns</label></p>` : ""}`;
}

// ---- search -------------------------------------------------------------------------------------------------------

export function SearchPage({ route }) {
  const text = route.options.get("q") || "";
  useFeed([]);
  const found = useQuery(`api/search?q=${encodeURIComponent(text)}`);
  return html`<${Crumbs} /><h1>Search <small>${text}</small></h1>
    <p class="quiet">Words are searched in names, namespaces, kinds and labels; <code>app=web</code> and <code>!app</code> select by label.</p>
    <${Found} query=${found}>${(data) => html`<${Results} data=${data} />`}<//>`;
}

function Results({ data }) {
  const rows = data.objects.map((one) => ({ key: `${one.kind} ${one.namespace} ${one.name}`, cells: [
    html`<${ObjectLink} to=${one} />`, html`<a href=${toKind(one.kind)} title=${one.kind}>${shortKind(one.kind)}</a>`, one.namespace || "",
    Object.entries(one.labels).map(([name, value]) => html`<a class="label" key=${name} href=${toSearch(`${name}=${value}`)}>${name}=${value}</a> `)] }));
  return html`<${Table} heads=${[{ name: "Name", className: "name" }, "Kind", "Namespace", { name: "Labels", className: "words" }]}
      rows=${rows} none="Nothing was found." label="Objects" isStacked />
    ${data.isPartial ? html`<p class="quiet">There are more: add a word.</p>` : ""}`;
}

