// Parts that several pages share: tables, ages, states, links and events.

import { html, useEffect, useState } from "./html.js";
import { fullName, toObject } from "./links.js";

export const Tone = ({ label, of }) => label ? html`<span data-tone=${of || "none"}>${label}</span>` : "";

export const ObjectLink = ({ to, label }) => to && to.name ? html`<a href=${toObject(to)}>${label || to.name}</a>` : "";

// The name of a kind, which may be broken between its words.
export const kindName = (name) => name.split(/(?=[A-Z][a-z])/).map((word, at) => at ? html`<wbr key=${at} />${word}` : word);

// ---- times --------------------------------------------------------------------------------------------------------

const clocks = new Set();
setInterval(() => { if (!document.hidden) for (const tick of clocks) tick(Date.now()); }, 1000);

export function useNow() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => { clocks.add(setNow); return () => clocks.delete(setNow); }, []);
  return now;
}

export function span(seconds) {
  if (seconds < 100) return `${Math.floor(seconds)}s`;
  if (seconds < 6000) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

export function Age({ at }) {
  const now = useNow();
  if (!at) return "";
  const seconds = (now - Date.parse(at)) / 1000;
  return html`<time datetime=${at} title=${at}>${Number.isNaN(seconds) ? at : span(Math.max(0, seconds))}</time>`;
}

export function In({ at }) {
  const now = useNow();
  const seconds = (Date.parse(at) - now) / 1000;
  return html`<time datetime=${at} title=${at}>${seconds <= 0 ? "now" : `in ${span(seconds)}`}</time>`;
}

export function clock(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toLocaleTimeString(undefined, { hour12: false });
}

// Some event loops know the time to the millisecond only.
export const duration = (seconds) => !seconds ? "< 1 ms" : seconds < 0.00005 ? "< 0.1 ms" : seconds >= 100 ? span(seconds) : seconds >= 1 ? `${seconds.toFixed(1)} s` : `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
// `requeue after 2854.6 s` as a person says it.
export const nextText = (text) => text.replace(/([0-9.]+) s$/, (whole, seconds) => Number(seconds) >= 100 ? span(Number(seconds)) : whole);
export const size = (bytes) => bytes < 1e4 ? `${bytes} B` : bytes < 1e7 ? `${Math.round(bytes / 1e3)} kB` : `${Math.round(bytes / 1e6)} MB`;

// ---- tables -------------------------------------------------------------------------------------------------------

// `heads` are names, or { name, isNumber, className, sort }; a row is { key, cells, isFresh }. A cell is text or an
// element. Columns that are empty in every row are left out. With `isStacked`, for long texts, a row is several lines on a
// phone; the roles are written because a table that is laid out so is none for a screen reader.
export function Table({ heads, rows, none, label, isStacked }) {
  if (!rows.length) return html`<p class="quiet">${none}</p>`;
  const all = heads.map((one) => typeof one === "string" ? { name: one } : one);
  const isUsed = all.map((one, at) => one.isKept || rows.some(({ cells }) => !isBlank(cells[at])));
  const used = all.filter((_, at) => isUsed[at]);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label || "Table"}><table role="table" class=${isStacked ? "stacked" : null} aria-label=${label || "Table"}>
    <thead role="rowgroup"><tr role="row">${used.map((one) => html`<${Head} key=${one.name} of=${one} />`)}</tr></thead>
    <tbody role="rowgroup">${rows.map(({ key, cells, isFresh }) => html`<tr role="row" key=${key} class=${isFresh ? "fresh" : null}>
      ${cells.filter((_, at) => isUsed[at]).map((cell, at) => at === 0
        ? html`<th scope="row" role="rowheader" key=${used[at].name} class=${className(used[at])}>${cell}</th>`
        : html`<td role="cell" key=${used[at].name} class=${className(used[at])}>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

function Head({ of }) {
  const { name, sort } = of;
  if (!sort) return html`<th scope="col" role="columnheader" class=${className(of)}>${name}</th>`;
  const arrow = sort.is === "asc" ? " \u2191" : sort.is === "desc" ? " \u2193" : "";
  const order = sort.is === "asc" ? "ascending" : sort.is === "desc" ? "descending" : "none";
  return html`<th scope="col" role="columnheader" class=${className(of)} aria-sort=${order}>
    <button type="button" class="sort" title=${of.title || null} onClick=${sort.choose}>${name}${arrow}</button></th>`;
}

const className = (one) => [one.isNumber ? "number" : "", one.className || ""].join(" ").trim() || null;
const isBlank = (cell) => cell === "" || cell === null || cell === undefined || (Array.isArray(cell) && cell.every(isBlank));

export function EventTable({ events, withObject }) {
  const heads = [{ name: "Age", className: "tight" }, { name: "Type", className: "tight" }, "Reason",
    ...(withObject ? [{ name: "Object", className: "words" }] : []), { name: "Message", className: "words" },
    { name: "Times", isNumber: true }];
  const rows = events.map((one, at) => ({ key: `${at}`, cells: [
    html`<${Age} at=${one.at} />`, html`<${Tone} label=${one.type} of=${one.type === "Normal" ? "none" : "bad"} />`, one.reason,
    ...(withObject ? [html`<${ObjectLink} to=${one.about} label=${fullName(one.about)} />`] : []),
    one.message, String(one.count)] }));
  return html`<${Table} heads=${heads} rows=${rows} none="No events yet." label="Events" isStacked />`;
}

// ---- shells -------------------------------------------------------------------------------------------------------

export function Crumbs({ steps }) {
  return html`<p class="crumbs"><a href="#/">Overview</a>${(steps || []).map((one) => html`<span> / ${one}</span>`)}</p>`;
}

export function Failure({ error }) {
  const hint = error.status === 404 ? "It may have been deleted."
    : error.status === 401 ? "It was started again: open the address that it has printed."
    : error.status ? "" : "The manager has probably been stopped.";
  return html`<p class="error-box" role="alert">${error.message} ${hint}</p>`;
}

// What a query has found, or why there is nothing; the title is for a page whose heading is a part of what was found.
export function Found({ query, title, children }) {
  const head = title ? html`<${Crumbs} /><h1>${title}</h1>` : "";
  if (query.error && !query.data) return html`${head}<${Failure} error=${query.error} />`;
  if (!query.data) return html`${head}<p class="quiet">Loading</p>`;
  return html`${query.error ? html`<${Failure} error=${query.error} />` : ""}${children(query.data)}`;
}
