// The landing page: what is broken now, and only then the controllers.

import { html } from "./html.js";
import { PauseButton } from "./actions.js";
import { fullName, shortKind, toKind } from "./links.js";
import { useFeed, useQuery } from "./live.js";
import { Age, EventTable, Found, In, ObjectLink, Table, Tone, size } from "./parts.js";

export function Overview({ kinds }) {
  const controlled = kinds.filter((one) => one.hasController).map((one) => one.kind);
  useFeed(["v1/Event", ...controlled], true);
  const problems = useQuery("/api/problems", { every: 2000 });
  const status = useQuery("/api/status");
  const events = useQuery("/api/events", { every: 1000 });
  return html`<h1>Overview</h1>
    <${Found} query=${problems}>${(found) => html`<${Problems} found=${found} />`}<//>
    <${Found} query=${status}>${(found) => html`<${Controllers} status=${found} />`}<//>
    ${events.data && html`<h2>Latest events</h2><${EventTable} events=${events.data.events.slice(0, 15)} withObject />
      ${events.data.events.length > 15 ? html`<p><a href="#/events">All events</a></p>` : ""}`}`;
}

function Problems({ found }) {
  const { problems, total, objects } = found;
  if (!total) {
    return html`<p class="calm" role="status" data-tone="good">All healthy: ${objects} objects and every controller were checked.</p>`;
  }
  const bad = problems.filter((one) => one.tone === "bad").length;
  return html`<section aria-labelledby="problems">
    <h2 id="problems">Problems <small>${bad ? `${bad} need attention, ` : ""}${total} in all</small></h2>
    <ul class="problems">${problems.map((one, at) => html`<${Problem} key=${keyOf(one, at)} of=${one} />`)}</ul>
    ${total > problems.length ? html`<p class="quiet">${total - problems.length} more are not shown.</p>` : ""}
  </section>`;
}

const keyOf = (one, at) => one.object ? `${one.category} ${fullName(one.object)} ${one.title}` : `${one.category} ${one.title} ${at}`;

function Problem({ of }) {
  return html`<li data-of=${of.tone}>
    <p><span class="category">${of.category}</span> <${ObjectLink} to=${of.object} label=${of.object && fullName(of.object)} />
      ${" "}<strong>${of.title}</strong>
      <span class="quiet"> ${of.since ? html`for <${Age} at=${of.since} />` : ""}
        ${of.times > 1 ? `, ${of.times} times` : ""}
        ${of.retryAt ? html`, retried <${In} at=${of.retryAt} />` : ""}</span></p>
    ${of.message ? html`<p class="message">${of.message}</p>` : ""}
  </li>`;
}

// ---- controllers, watches, members --------------------------------------------------------------------------------

const numbers = (...names) => names.map((name) => ({ name, isNumber: true }));

function Controllers({ status }) {
  const rows = status.controllers.map((one) => ({ key: one.name, cells: [
    one.name, html`<a href=${toKind(one.kind)}>${shortKind(one.kind)}</a>`, html`<${State} of=${one} />`,
    String(one.waiting), String(one.delayed), `${one.running} of ${one.workers}`, String(one.reconciles), String(one.errors),
    status.hasActions ? html`<${PauseButton} controller=${one} />` : ""] }));
  const heads = [{ name: "Name", className: "name" }, "Kind", { name: "State", className: "tight" },
    ...numbers("Queued", "Delayed", "Running", "Reconciles", "Errors"), "Action"];
  const watches = status.watches.map((one) => ({ key: one.name, cells: [one.name, html`<${WatchState} of=${one} />`,
    String(one.objects), size(one.bytes), String(one.events), String(one.relists), String(one.reconnects), String(one.errors)] }));
  const watchHeads = [{ name: "Kind", className: "name" }, { name: "State", className: "tight" },
    ...numbers("Objects", "Size", "Events", "Relists", "Reconnects", "Errors")];
  return html`<h2>Controllers</h2>
    <${Table} heads=${heads} rows=${rows} none="No controllers are running." label="Controllers" />
    ${status.members.length ? html`<${Members} status=${status} />` : ""}
    <h2>Watches</h2>
    <${Table} heads=${watchHeads} rows=${watches} none="No watches." label="Watches" />`;
}

function State({ of }) {
  if (of.isPaused) return html`<${Tone} label="paused" of="busy" />`;
  if (!of.isReady) return html`<${Tone} label="syncing" of="busy" />`;
  return html`<${Tone} label=${of.failing ? `${of.failing} failing` : "healthy"} of=${of.failing ? "bad" : "good"} />`;
}

function WatchState({ of }) {
  if (of.error) return html`<${Tone} label=${of.error} of="bad" />`;
  return of.is_ready ? html`<${Tone} label="synced" of="good" />` : html`<${Tone} label="syncing" of="busy" />`;
}

function Members({ status }) {
  const members = status.members.map((one) => ({ key: one.name, cells: [one.name, one.identity, String(one.keys),
    one.is_me ? html`<${Tone} label="this process" of="good" />`
      : one.is_acknowledged ? "acknowledged" : html`<${Tone} label="takes over" of="busy" />`] }));
  const moves = Object.entries(status.moves).map(([name, counts]) => ({ key: name, cells: [name, ...counts.map(String)] }));
  return html`<h2>Members</h2>
    <${Table} heads=${[{ name: "Name", className: "name" }, "Identity", ...numbers("Objects"), "State"]} rows=${members} none="No members." label="Members" />
    <${Table} heads=${[{ name: "Controller", className: "name" }, ...numbers("Objects here", "Gained", "Lost")]} rows=${moves} none="No controllers." label="Objects of this member" />`;
}
