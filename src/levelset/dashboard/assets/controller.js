// The page of one controller: its state, its problems, its charts of the last hour, and its last reconciles.

import { html } from "./html.js";
import { controllerName } from "./links.js";
import { useFeed, useQuery } from "./live.js";
import { ControllerCharts, useMetrics } from "./metrics.js";
import { Crumbs, Failure, Found } from "./parts.js";
import { Controllers, Problem } from "./problems.js";
import { Waterfall } from "./reconciles.js";

export function ControllerPage({ route }) {
  const name = route.kind;  // the first part of the address
  useFeed([], true);
  const status = useQuery("api/status");
  const problems = useQuery("api/problems", { every: 2000 });
  const metrics = useMetrics();
  const isMe = (one) => controllerName(one) === name || one.name === name;
  return html`<${Crumbs} steps=${["Controllers"]} /><h1>${name} <small>controller</small></h1>
    <${Found} query=${status}>${(found) => html`<${One} status=${found} chosen=${found.controllers.filter(isMe)} problems=${problems.data} metrics=${metrics} />`}<//>`;
}

function One({ status, chosen, problems, metrics }) {
  if (!chosen.length) return html`<p class="quiet">No controller of this name is known here.</p>`;
  const names = new Set(chosen.flatMap((one) => [one.name, controllerName(one)]));
  const mine = problems ? problems.problems.filter((one) => names.has(one.controller)) : [];
  const series = metrics.data && chosen.map((one) => metrics.data.controllers[controllerName(one)]).find(Boolean);
  return html`<${Controllers} status=${{ ...status, controllers: chosen }} metrics=${metrics.data} isAlone=${true} />
    ${mine.length ? html`<h2>Problems</h2><ul class="problems">${mine.map((one, at) => html`<${Problem} key=${at} of=${one} />`)}</ul>` : ""}
    <h2>Metrics <small>of the last hour</small></h2>
    ${metrics.error ? html`<${Failure} error=${metrics.error} />` : ""}
    ${series && metrics.data.times.length > 1 ? html`<${ControllerCharts} of=${series} times=${metrics.data.times} />` : html`<p class="quiet">The first values come after ten seconds.</p>`}
    <${Reconciles} name=${chosen[0].name} />`;
}

function Reconciles({ name }) {
  const found = useQuery(`api/reconciles?controller=${encodeURIComponent(name)}`, { every: 1000 });
  return html`<h2>Reconciles</h2><${Found} query=${found}>${(data) => html`<${Waterfall} all=${data.reconciles} />`}<//>`;
}
