// Files of past runs: a recording step by step, forwards and backwards, and links to reports of explorations.

import { html } from "./html.js";
import { toReport, toStep } from "./links.js";
import { useQuery } from "./live.js";
import { Found, Table, Tone, clock, duration } from "./parts.js";

const PAGE = 50;

export function RunsPage({ route }) {
  const number = /^[0-9]{1,3}$/.test(route.kind) ? Number(route.kind) : null;
  return number === null ? html`<${Files} />` : html`<${Run} number=${number} step=${readStep(route)} />`;
}

function readStep(route) {
  const text = route.options.get("step") || "0";
  return /^[0-9]{1,8}$/.test(text) ? Number(text) : 0;
}

function Files() {
  const found = useQuery("api/runs");
  return html`<h1>Runs</h1><${Found} query=${found}>${(data) => html`<${Table} label="Files" none="No files: levelset dashboard FILE..."
    heads=${["File", "What"]} rows=${data.files.map((one) => ({ key: String(one.number), cells: [
      one.isReport ? html`<a href=${toReport(one.number)} target="_blank" rel="noopener noreferrer">${one.name}</a>`
        : html`<a href=${toStep(one.number, 0)}>${one.name}</a>`,
      one.isReport ? "report of an exploration" : "recording"] }))} />`}<//>`;
}

function Run({ number, step }) {
  const offset = Math.floor(step / PAGE) * PAGE;
  const page = useQuery(`api/run?number=${number}&offset=${offset}`);
  const one = useQuery(`api/step?number=${number}&step=${step}`);
  return html`<p class="crumbs"><a href="#/runs">Runs</a></p>
    <${Found} query=${page}>${(data) => html`<h1>${data.name} <small>${data.count} steps</small></h1>
      ${data.isWhole ? "" : html`<p class="quiet">It is long: this is its beginning. levelset why --from has all of it.</p>`}
      <${Stepper} number=${number} step=${step} count=${data.count} next=${one.data ? one.data.nextFailure : null} />
      <${Found} query=${one}>${(detail) => html`<${Step} of=${detail} />`}<//>
      <h2>Timeline</h2><ol class="timeline run">${data.steps.map((each) => html`<${Row} key=${each.step} of=${each} number=${number}
        isCurrent=${each.step === step} />`)}</ol>`}<//>`;
}

function Stepper({ number, step, count, next }) {
  const go = (to) => { location.hash = toStep(number, Math.max(0, Math.min(count - 1, to))); };
  const button = (name, to, isOff) => html`<button type="button" disabled=${isOff} onClick=${() => go(to)}>${name}</button>`;
  return html`<div class="bar" role="group" aria-label="Steps">
    ${button("First", 0, step <= 0)}${button("Back", step - 1, step <= 0)}
    <input type="range" aria-label="Step" min="0" max=${Math.max(0, count - 1)} value=${step} onChange=${(event) => go(Number(event.target.value))} />
    ${button("Forward", step + 1, step >= count - 1)}${button("Last", count - 1, step >= count - 1)}
    ${button("Next failure", next, next === null)}<span role="status">step ${step + 1} of ${count}</span></div>`;
}

function Step({ of }) {
  return html`<section aria-label="Step"><h2>${of.text} <small>at ${of.at.toFixed(3)} s, <time datetime=${of.time}>${of.time}</time></small></h2>
    ${of.result ? html`<p><${Tone} label=${of.result.replace("_", " ")} of=${of.error ? "bad" : "good"} /> ${of.object}, ${duration(of.seconds)}; then ${of.next}</p>` : ""}
    ${(of.reasons || []).map((one, at) => html`<p key=${at}>because ${one}</p>`)}
    ${of.error ? html`<p class="error-box">${of.error}</p>` : ""}
    ${of.requests.length ? html`<pre>${of.requests.join("\n")}</pre>` : ""}
    ${(of.objects || []).length ? html`<ul>${of.objects.map((one, at) => html`<li key=${at}>${one.object} <span class="quiet">${one.what}</span></li>`)}</ul>` : ""}
    <h2>After it</h2>
    <${Table} label="Controllers" none="No controllers yet." heads=${["Controller", "Running", "Delayed", "Reconciles", "Failing"]}
      rows=${of.controllers.map((one) => ({ key: one.name, cells: [one.name, String(one.running), String(one.delayed), String(one.reconciles), String(one.failing)] }))} />
    <${Table} label="Watches" none="No watches yet." heads=${["Watch", "Objects", "Events", "Error"]}
      rows=${of.watches.map((one) => ({ key: one.name, cells: [one.name, String(one.objects), String(one.events), one.error || ""] }))} /></section>`;
}

function Row({ of, number, isCurrent }) {
  return html`<li><a href=${toStep(number, of.step)} aria-current=${isCurrent ? "step" : null}><time datetime=${of.time}>${clock(of.time)}</time>${" "}
    <${Tone} label=${of.result ? of.result.replace("_", " ") : of.what} of=${of.isFailure ? "bad" : "none"} /> ${of.text}</a></li>`;
}
