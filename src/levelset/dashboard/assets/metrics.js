// Charts of the last hour: the queues, rates, errors and durations of the controllers, and the API requests.

import { html, useEffect, useState } from "./html.js";
import { Chart } from "./chart.js";
import { toController } from "./links.js";
import { query, useFeed } from "./live.js";
import { Crumbs, Failure, duration } from "./parts.js";

const rate = (value) => `${value < 10 ? Number(value.toFixed(2)) : Math.round(value)}/s`;
const count = (value) => String(Number(value.toFixed(2)));

// The series of the last samples, all of the hour unless fewer are enough; read again with each sample.
export function useMetrics(last = 720) {
  const [state, setState] = useState({ data: null, error: null });
  useEffect(() => {
    const load = () => document.hidden || query(`api/metrics?last=${last}`).then((text) => setState({ data: JSON.parse(text), error: null }), (error) => setState((old) => ({ ...old, error })));
    load();
    const timer = setInterval(load, 5000);
    return () => clearInterval(timer);
  }, []);
  return state;
}

export function MetricsPage() {
  useFeed([], true);
  const { data, error } = useMetrics();
  return html`<${Crumbs} /><h1>Metrics <small>of the last hour, in memory</small></h1>
    ${error ? html`<${Failure} error=${error} />` : ""}
    ${!data ? html`<p class="quiet">Loading</p>` : data.times.length < 2 ? html`<p class="quiet">The first values come after ten seconds.</p>` : html`
      <h2>API requests</h2><div class="charts"><${Chart} title="Requests" times=${data.times} format=${rate}
        lines=${[{ name: "all", values: data.requests }, { name: "failed", values: data.failedRequests, className: "bad" }]} /></div>
      ${busy(data).map(([name, one]) => html`<section key=${name}><h2><a href=${toController({ name })}>${name}</a></h2><${ControllerCharts} of=${one} times=${data.times} /></section>`)}
      <${Idle} names=${Object.keys(data.controllers).filter((name) => !busy(data).some(([other]) => other === name))} />`}`;
}

// The controllers that did something in this hour.
const busy = (data) => Object.entries(data.controllers).filter(([, one]) => [one.waiting, one.running, one.reconciles].some((values) => values.some(Boolean)));

const Idle = ({ names }) => names.length ? html`<p class="quiet">Without a reconcile in this time: ${names.join(", ")}.</p>` : "";

export function ControllerCharts({ of, times }) {
  return html`<div class="charts">
    <${Chart} title="Queue" times=${times} format=${count} lines=${[{ name: "waiting", values: of.waiting }, { name: "running", values: of.running }]} />
    <${Chart} title="Reconciles" times=${times} format=${rate}
      lines=${[{ name: "all", values: of.reconciles }, { name: "failed", values: of.errors, className: "bad" }]} />
    <${Chart} title="Duration" times=${times} format=${duration}
      lines=${[{ name: "median", values: of.median }, { name: "p95", values: of.p95 }, { name: "p99", values: of.p99 }]} /></div>`;
}
