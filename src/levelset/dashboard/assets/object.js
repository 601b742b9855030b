// The page of one object: its status first, then its text, its family, its events, its reconciles and its versions.

import { html, useState } from "./html.js";
import { ObjectActions } from "./actions.js";
import { Diff } from "./diff.js";
import { Graph, family } from "./graph.js";
import { fullName, isSameKind, shortKind, toKind, toLogs, toSearch } from "./links.js";
import { query, useFeed, useQuery } from "./live.js";
import { Panel } from "./panel.js";
import { Age, Crumbs, EventTable, Failure, Found, ObjectLink, Table, Tone, clock, duration, nextText } from "./parts.js";
import { resultTone } from "./objects.js";

const enc = encodeURIComponent;
const below = (children) => children.flatMap((one) => [one.kind, ...below(one.children)]);

export function ObjectPage({ route, kinds, hasActions }) {
  const [isWhole, setWhole] = useState(false);
  const self = { kind: route.kind, namespace: route.namespace, name: route.name };
  const where = `kind=${enc(self.kind)}&name=${enc(self.name)}&namespace=${enc(self.namespace)}`;
  const found = useQuery(`api/object?${where}${isWhole ? "&whole=1" : ""}`, { every: 250, atLeast: 5000 });
  useFeed([self.kind, "v1/Event", ...new Set(found.data ? below(found.data.children) : [])], true);
  return html`<${Found} query=${found} title=${self.name}>${(one) => html`
    <${Crumbs} steps=${[html`<a href=${toKind(self.kind)}>${shortKind(self.kind)}</a>`,
      ...one.owners.map((each) => each.exists ? html`<${ObjectLink} to=${each} label=${fullName(each)} />` : `${fullName(each)} (not found)`)]} />
    <h1>${one.name} <small>${shortKind(self.kind)}${one.namespace ? ` in ${one.namespace}` : ""}</small></h1>
    <p><${Tone} label=${one.state} of=${one.tone} />${" "}
      <span class="quiet">${one.created ? html`created <${Age} at=${one.created} /> ago` : ""}</span>
      ${Object.entries(one.labels).map(([name, value]) => html` <a class="label" key=${name} href=${toSearch(`${name}=${value}`)}>${name}=${value}</a>`)}
      ${one.hasLog ? html` <a href=${toLogs(logsOf(self, one))}>Logs</a>` : ""}</p>
    ${hasActions ? html`<${ObjectActions} self=${self} shown=${one} hasController=${kinds.some((each) => each.hasController && isSameKind(each.kind, self.kind))} />` : ""}
    <${Failing} last=${one.reconciles[0]} />
    <${Containers} self=${self} all=${one.containerStates} />
    <${StatusFields} all=${one.status} />
    <${Conditions} all=${one.conditions} />
    <${Panel} self=${self} panel=${one.panel} hasActions=${hasActions} />
    <${Source} of=${one.source} isWhole=${isWhole} setWhole=${setWhole} />
    ${one.owners.length || one.children.length ? html`<h2>Owners and children</h2>
      <${Graph} root=${family({ ...self, name: one.name }, one.owners, one.children)} />` : ""}
    <h2>Events</h2><${EventTable} events=${one.events} />
    <h2>Reconciles</h2><${Timeline} entries=${one.reconciles} />
    ${one.versions.length > 1 ? html`<h2>Versions</h2><${Versions} versions=${one.versions} where=${where} />` : ""}`}<//>`;
}

// The containers of a Pod: how each runs, or why it does not, with its log and that of its last run.
function Containers({ self, all }) {
  if (!all.length) return "";
  const rows = all.map((one) => { const log = { ...self, container: one.name }; return { key: one.name, cells: [
    one.name, html`<${Tone} label=${one.state} of=${one.tone} />`, String(one.restarts), one.since ? html`<${Age} at=${one.since} />` : "", one.image, one.ports.join(", "), one.message,
    html`<a href=${toLogs([log])} aria-label=${`Log of ${one.name}`}>Log</a>${one.restarts ? html` <a href=${toLogs([{ ...log, previous: true }])} aria-label=${`Log of the last run of ${one.name}`}>last run</a>` : ""}`] }; });
  return html`<h2>Containers</h2><${Table} heads=${[{ name: "Name", className: "tight" }, { name: "State", className: "tight" }, { name: "Restarts", isNumber: true },
    { name: "Since", className: "tight" }, "Image", "Ports", { name: "Message", className: "words" }, { name: "Logs", className: "tight" }]} rows=${rows} none="" label="Containers" isStacked />`;
}

const logsOf = (self, one) => (one.containers.length ? one.containers : [""]).map((container) => ({ ...self, container }));

// What the newest reconcile has failed with, before everything else.
function Failing({ last }) {
  if (!last || !last.error) return "";
  return html`<section class="problems" aria-label="The last reconcile failed"><div data-of="bad"><p><strong>${last.controller} ${last.result.replace("_", " ")}${last.attempt ? `, attempt ${last.attempt + 1}` : ""}</strong>
    <span class="quiet"> <${Age} at=${last.at} /> ago, ${nextText(last.next)}</span></p><p class="message">${last.error}</p></div></section>`;
}

function StatusFields({ all }) {
  if (!all.length) return "";
  return html`<h2>Status</h2><dl class="fields">${all.map((one) => html`<div key=${one.field}><dt>${one.field}</dt><dd>${one.value}</dd></div>`)}</dl>`;
}

function Conditions({ all }) {
  if (!all.length) return "";
  const tones = { True: "good", False: "bad", Unknown: "busy" };
  const rows = all.map((one) => ({ key: one.type, cells: [
    one.type, html`<${Tone} label=${one.status} of=${tones[one.status] || "none"} />`, one.reason, one.message, html`<${Age} at=${one.lastTransitionTime} />`] }));
  return html`<h2>Conditions</h2><${Table} heads=${[{ name: "Type", className: "tight" }, { name: "Status", className: "tight" }, "Reason",
    { name: "Message", className: "words" }, { name: "Since", className: "tight" }]} rows=${rows} none="" label="Conditions" isStacked />`;
}

// ---- reconciles ---------------------------------------------------------------------------------------------------

export function Timeline({ entries }) {
  if (!entries.length) return html`<p class="quiet">None of the last reconciles, which are remembered here, was of this object.</p>`;
  return html`<ol class="timeline">${entries.map((one) => html`<${Reconcile} key=${`${one.first} ${one.controller}`} of=${one} />`)}</ol>`;
}

function Reconcile({ of }) {
  const times = of.times > 1 ? html`${of.times} ${of.is_poll && !of.error ? "polls" : "times"} since <time datetime=${of.first}>${clock(of.first)}</time>, last ` : "";
  return html`<li>
    <p><time datetime=${of.at} title=${of.at}>${clock(of.at)}</time>${" "}
      <${Tone} label=${of.result.replace("_", " ")} of=${resultTone(of.result)} />
      <span class="quiet"> ${times}in ${duration(of.seconds)}${of.waited >= 0.001 ? ` after ${duration(of.waited)} in the queue` : ""} by ${of.controller}${of.manager ? ` in ${of.manager}` : ""}${of.attempt ? `, attempt ${of.attempt + 1}` : ""}; ${nextText(of.next)}</span></p>
    <p>because ${of.reasons.join("; ") || "of no reason"}</p>
    ${of.error ? html`<p class="error">${of.error}</p>` : ""}
    ${of.writes.map((one, at) => html`<${Write} key=${at} of=${one} />`)}</li>`;
}

function Write({ of }) {
  const what = of.isGone ? "deleted" : of.isNew ? "created" : "wrote";
  if (!of.changes.length) return html`<p>${what} <${ObjectLink} to=${of} label=${fullName(of)} /></p>`;
  return html`<details><summary>${what} <${ObjectLink} to=${of} label=${fullName(of)} />: ${of.changes.length} ${of.changes.length === 1 ? "field" : "fields"}</summary>
    <ul class="changes">${of.changes.map((one) => html`<li key=${one.field}><code>${one.field}</code>
      ${one.before ? html` <del>${one.before}</del>` : ""}${one.after ? html` <ins>${one.after}</ins>` : ""}</li>`)}</ul></details>`;
}

// ---- versions -----------------------------------------------------------------------------------------------------

function Versions({ versions, where }) {
  const [pair, setPair] = useState([versions[1].version, versions[0].version]);
  const [shown, setShown] = useState(null);
  const choose = (place) => (event) => setPair(pair.map((old, at) => at === place ? event.target.value : old));
  const compare = async () => {
    try {
      setShown({ lines: JSON.parse(await query(`api/diff?${where}&before=${enc(pair[0])}&after=${enc(pair[1])}`)).lines });
    } catch (error) { setShown({ error }); }
  };
  const field = (place, label) => html`<label>${label} <select value=${pair[place]} onChange=${choose(place)}>
    ${versions.map((one) => html`<option key=${one.version} value=${one.version}>${one.version}, ${clock(one.at * 1000)}</option>`)}</select></label>`;
  return html`<div class="bar">${field(0, "From")} ${field(1, "to")} <button type="button" onClick=${compare}>Compare</button></div>
    ${shown && shown.error ? html`<${Failure} error=${shown.error} />` : ""}
    ${shown && shown.lines ? html`<${Diff} lines=${shown.lines} />` : ""}`;
}

// ---- text ---------------------------------------------------------------------------------------------------------

function Source({ of, isWhole, setWhole }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => navigator.clipboard.writeText(of.text).then(() => setCopied(true));
  return html`<details class="source"><summary><h2>${of.language.toUpperCase()}${of.isCut ? ", truncated" : ""}</h2></summary>
    <div class="bar"><label><input type="checkbox" checked=${isWhole} onChange=${(event) => setWhole(event.target.checked)} />${" "}
      managed fields and last applied configuration</label><span class="space"></span>
      <button type="button" onClick=${copy}>${isCopied ? "Copied" : "Copy"}</button></div>
    <pre tabindex="0" role="region" aria-label=${`The object as ${of.language.toUpperCase()}`}>${of.language === "yaml" ? coloured(of.text) : of.text}</pre></details>`;
}

function coloured(text) {
  const lines = text.trimEnd().split("\n");
  if (lines.length > 3000) return text;
  return lines.map((line, at) => {
    const found = /^(\s*(?:- )*)([^\s:'"#][^:]*)(:(?:\s.*)?)$/.exec(line);
    return found ? html`<span key=${at}>${found[1]}<b>${found[2]}</b>${found[3]}${"\n"}</span>` : html`<span key=${at}>${line}${"\n"}</span>`;
  });
}
