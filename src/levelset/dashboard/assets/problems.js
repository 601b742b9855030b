// The landing page: what is broken now, and only then the controllers.

import { html, useEffect } from "./html.js";
import { PauseButton } from "./actions.js";
import { fullName, shortKind, controllerName, toController, toKind, toReconciles } from "./links.js";
import { useFeed, useQuery } from "./live.js";
import { Sparkline } from "./chart.js";
import { useMetrics } from "./metrics.js";
import { Age, EventTable, Found, In, ObjectLink, Table, Tone, kindName, size } from "./parts.js";

const TEN_MINUTES = 120;  // samples

export function Overview({ kinds, noteProblems }) {
  const controlled = kinds.filter((one) => one.hasController).map((one) => one.kind);
  useFeed(["v1/Event", ...controlled], true);
  const problems = useQuery("api/problems", { every: 2000, atLeast: 20000 });
  useEffect(() => { if (problems.data) noteProblems(problems.data); }, [problems.data]);
  const status = useQuery("api/status");
  const events = useQuery("api/events", { every: 1000 });
  const metrics = useMetrics(TEN_MINUTES);
  return html`<h1>Overview</h1><p class="spoken" role="status">${summaryOf(problems.data)}</p>
    <${Found} query=${problems}>${(found) => html`<${Problems} found=${found} />`}<//>
    <${Found} query=${status}>${(found) => html`<${Controllers} status=${found} metrics=${metrics.data} />`}<//>
    ${events.data && html`<h2>Latest events</h2><${EventTable} events=${events.data.events.slice(0, 15)} withObject />
      ${events.data.events.length > 15 ? html`<p><a href="#/events">All events</a></p>` : ""}`}`;
}

// What is announced when it changes, and not the whole list again.
const summaryOf = (found) => !found ? "" : !found.total ? "All healthy" : `${found.total} ${found.total === 1 ? "problem" : "problems"}`;

function Problems({ found }) {
  const { problems, total, objects } = found;
  if (!total) {
    return html`<p class="calm" data-tone="good">All healthy: ${objects} objects and every controller were checked.</p>`;
  }
  const bad = problems.filter((one) => one.tone === "bad").length;
  return html`<section aria-labelledby="problems">
    <h2 id="problems">Problems <small>${bad ? `${bad} ${bad === 1 ? "needs" : "need"} attention${bad < total ? `, ${total} in all` : ""}` : total}</small></h2>
    <ul class="problems">${problems.map((one, at) => html`<${Problem} key=${keyOf(one, at)} of=${one} />`)}</ul>
    ${total > problems.length ? html`<p class="quiet">${total - problems.length} more are not shown.</p>` : ""}
  </section>`;
}

const keyOf = (one, at) => one.object ? `${one.category} ${fullName(one.object)} ${one.title}` : `${one.category} ${one.title} ${at}`;

// The place of a problem that is not about an object.
const toPlace = (of) => of.controller ? toController({ name: of.controller }) : of.kind ? toKind(of.kind) : toReconciles(of.manager || "");

export function Problem({ of }) {
  return html`<li data-of=${of.tone}>
    <p><span class="category">${of.category}</span> <${ObjectLink} to=${of.object} label=${of.object && fullName(of.object)} />
      ${" "}<strong>${of.object ? of.title : html`<a href=${toPlace(of)}>${of.title}</a>`}</strong>
      <span class="quiet"> <${When} of=${of} />
        ${of.retryAt ? html`, retried <${In} at=${of.retryAt} />` : ""}</span></p>
    ${of.message ? html`<p class="message">${of.message}</p>` : ""}
    <${Also} word="also" all=${of.others} /><${Also} word="so" all=${of.above} end="not ready" />
  </li>`;
}

// A state lasts; events happen, and the last of them counts.
function When({ of }) {
  if (!of.since) return "";
  if (of.category !== "event") return html`for <${Age} at=${of.since} />`;
  return html`${of.times > 1 ? `${of.times} times, the last ` : ""}<${Age} at=${of.since} /> ago`;
}

const MOST_ALSO = 4;

// Other objects with the same problem, and those that are not ready because of it.
function Also({ word, all, end }) {
  if (!all.length) return "";
  const shown = all.length > MOST_ALSO + 1 ? all.slice(0, MOST_ALSO) : all;
  return html`<p class="also quiet">${word} ${shown.map((one, at) => html`${at ? ", " : ""}<${ObjectLink} key=${fullName(one)} to=${one} label=${fullName(one)} />`)}${
    shown.length < all.length ? ` and ${all.length - shown.length} more` : ""}${end ? ` ${all.length === 1 ? "is" : "are"} ${end}` : ""}</p>`;
}

// ---- controllers, watches, members --------------------------------------------------------------------------------

// The name of a watch begins with the API version and the kind.
const kindOfWatch = (one) => one.name.split(" ").slice(0, 2).join("/");
const numbers = (...names) => names.map((name) => ({ name, isNumber: true }));

export function Controllers({ status, metrics, isAlone }) {
  const isOfSeveral = new Set(status.controllers.map((one) => one.manager)).size > 1;
  const orNothing = (number) => number ? String(number) : "";  // a column of zeros is left out
  const rows = status.controllers.map((one) => ({ key: `${one.name} ${one.manager}`, cells: [
    isAlone ? one.name : html`<a href=${toController(one)}>${one.name}</a>`, isOfSeveral && one.manager || "", one.kind ? html`<a href=${toKind(one.kind)}>${kindName(shortKind(one.kind))}</a>` : "", html`<${State} of=${one} />`,
    html`<${Sparkline} of=${metrics} name=${controllerName(one)} />`,
    String(one.waiting), orNothing(one.delayed), `${one.running} of ${one.workers}`, String(one.reconciles), orNothing(one.errors),
    status.hasActions && !one.manager ? html`<${PauseButton} controller=${one} />` : ""] }));
  const heads = [{ name: "Name", className: "name" }, { name: "Manager", className: "tight" }, { name: "Kind", className: "kind" }, { name: "State", className: "tight" },
    { name: "10 minutes", className: "tight" }, ...numbers("Queued", "Delayed", "Running", "Reconciles", "Errors"), "Action"];
  const controllers = html`<${Table} heads=${heads} rows=${rows} none="No controllers are running, or none that is known here." label="Controllers" />`;
  if (isAlone) return controllers;
  const watches = status.watches.map((one) => ({ key: `${one.name} ${one.manager}`, cells: [html`<a href=${toKind(kindOfWatch(one))}>${one.name}</a>`, one.manager || "", html`<${WatchState} of=${one} />`,
    String(one.objects), size(one.bytes), String(one.events), String(one.relists), String(one.reconnects), String(one.errors)] }));
  const watchHeads = [{ name: "Kind", className: "name" }, { name: "Manager", className: "tight" }, { name: "State", className: "tight" },
    ...numbers("Objects", "Size", "Events", "Relists", "Reconnects", "Errors")];
  return html`${status.managers.length ? html`<${Managers} all=${status.managers} />` : ""}
    <h2>Controllers</h2>
    ${controllers}
    ${status.members.length ? html`<${Members} status=${status} />` : ""}
    <${Watches} all=${status.watches}><${Table} heads=${watchHeads} rows=${watches} none="No watches." label="Watches" /><//>
    ${status.leases.length ? html`<${Leases} all=${status.leases} />` : ""}`;
}

// Watches that are all well are one line.
function Watches({ all, children }) {
  if (!all.length || !all.every((one) => one.is_ready && !one.error && !one.lags)) return html`<h2>Watches</h2>${children}`;
  return html`<details class="fold"><summary><h2>Watches <small>${all.length === 1 ? "one, and it is" : `all ${all.length} are`} synced</small></h2></summary>${children}</details>`;
}

// Managers in other processes: on this machine, and in Pods.
function Managers({ all }) {
  const rows = all.map((one) => ({ key: one.name, cells: [
    one.pod ? html`<${ObjectLink} to=${one.pod} label=${one.name} />` : one.name, one.role,
    html`<${Tone} label=${one.problem ? "not ready" : one.note ? "partly known" : "healthy"} of=${one.problem ? "bad" : one.note ? "none" : "good"} />`,
    String(one.controllers), String(one.waiting), String(one.reconciles), one.problem || one.note] }));
  return html`<h2>Managers</h2><${Table} label="Managers" none="" rows=${rows} heads=${[{ name: "Name", className: "name" }, "Role",
    { name: "State", className: "tight" }, ...numbers("Controllers", "Queued", "Reconciles"), { name: "Note", className: "words" }]} />`;
}

function Leases({ all }) {
  const rows = all.map((one) => ({ key: `${one.namespace}/${one.name}`, cells: [
    html`<${ObjectLink} to=${one} />`, one.namespace, one.holder, html`<${Tone} label=${one.state} of=${one.tone} />`,
    html`<${Age} at=${one.acquired} />`, html`<${Age} at=${one.renewed} />`, one.shards, one.keys === null ? "" : String(one.keys)] }));
  return html`<h2>Leases</h2><${Table} label="Leases" none="" rows=${rows} heads=${[{ name: "Name", className: "name" }, "Namespace",
    { name: "Holder", className: "words" }, { name: "State", className: "tight" }, { name: "Held for", className: "tight" },
    { name: "Renewed", className: "tight" }, "Shards", ...numbers("Objects")]} />`;
}

function State({ of }) {
  if (of.isPaused) return html`<${Tone} label="paused" of="busy" />`;
  if (!of.isReady) return html`<${Tone} label="syncing" of="busy" />`;
  return html`<${Tone} label=${of.failing ? `${of.failing} failing` : "healthy"} of=${of.failing ? "bad" : "good"} />`;
}

function WatchState({ of }) {
  if (of.error) return html`<${Tone} label=${of.error} of="bad" />`;
  if (of.lags) return html`<${Tone} label="lags" of="busy" />`;
  return of.is_ready ? html`<${Tone} label="synced" of="good" />` : html`<${Tone} label="syncing" of="busy" />`;
}

function Members({ status }) {
  const members = status.members.map((one) => ({ key: one.name, cells: [one.name, one.identity, String(one.keys),
    one.is_me ? html`<${Tone} label="this process" of="good" />`
      : one.is_stopped ? html`<${Tone} label="stopped" of="bad" />`
      : one.is_acknowledged ? "acknowledged" : html`<${Tone} label="takes over" of="busy" />`] }));
  const moves = Object.entries(status.moves).map(([name, counts]) => ({ key: name, cells: [name, ...counts.map(String)] }));
  return html`<h2>Members</h2>
    <${Table} heads=${[{ name: "Name", className: "name" }, "Identity", ...numbers("Objects"), "State"]} rows=${members} none="No members." label="Members" />
    ${moves.length ? html`<${Table} heads=${[{ name: "Controller", className: "name" }, ...numbers("Objects here", "Gained", "Lost")]} rows=${moves} none="No controllers." label="Objects of this member" />` : ""}`;
}
