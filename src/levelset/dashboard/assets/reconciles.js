// The last reconciles of all controllers as a waterfall: the time in the queue, the reconcile, and its requests.

import { html, useState } from "./html.js";
import { fullName } from "./links.js";
import { useFeed, useQuery } from "./live.js";
import { Crumbs, Found, ObjectLink, Tone, clock, duration } from "./parts.js";
import { resultTone } from "./objects.js";

export function ReconcilesPage({ route }) {
  const [text, setText] = useState(route.options.get("q") || "");
  const [isFailed, setFailed] = useState(false);
  const [hasPolls, setPolls] = useState(false);
  useFeed([], true);
  const found = useQuery(`api/reconciles${hasPolls ? "?polls=1" : ""}`, { every: 1000 });
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (one) => (!isFailed || one.error) && words.every((word) => `${one.controller} ${one.manager || ""} ${fullName(one.object)} ${one.error || ""}`.toLowerCase().includes(word));
  return html`<${Crumbs} /><h1>Reconciles <small>the last of all controllers</small></h1>
    <div class="bar"><input id="filter" type="search" placeholder="Filter by text" aria-label="Filter by text" autocomplete="off"
        spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)} />
      <label><input type="checkbox" checked=${isFailed} onChange=${() => setFailed(!isFailed)} /> failed only</label>
      <label><input type="checkbox" checked=${hasPolls} onChange=${() => setPolls(!hasPolls)} /> every repeat</label></div>
    <${Found} query=${found}>${(data) => html`<${Waterfall} all=${data.reconciles.filter(fits)} />`}<//>`;
}

export function Waterfall({ all }) {
  if (!all.length) return html`<p class="quiet">No reconciles.</p>`;
  return html`<ol class="waterfall">${all.map((one) => html`<${Reconcile} key=${`${one.at} ${one.controller} ${fullName(one.object)}`} of=${one} />`)}</ol>`;
}

function Reconcile({ of }) {
  return html`<li><details><summary>
      <time datetime=${of.at} title=${of.at}>${clock(of.at)}</time>${" "}<${Tone} label=${of.result.replace("_", " ")} of=${resultTone(of.result)} />${" "}
      <${ObjectLink} to=${of.object} label=${fullName(of.object)} /> <span class="quiet">by ${of.controller}${of.manager ? ` in ${of.manager}` : ""} in ${duration(of.seconds)}${of.waited >= 0.001 ? ` after ${duration(of.waited)} in the queue` : ""}${of.times > 1 ? html`, the last of ${of.times} ${of.is_poll && !of.error ? "polls" : "times"} since <time datetime=${of.first}>${clock(of.first)}</time>` : ""}</span></summary>
    <p>because ${of.reasons.join("; ") || "of no reason"}</p>
    ${of.error ? html`<p class="error">${of.error}</p>` : ""}
    <ul class="spans">${of.spans.map((one, at) => html`<${Span} key=${at} of=${one} whole=${of.waited + of.seconds} />`)}</ul>
    ${of.moreRequests ? html`<p class="quiet">and ${of.moreRequests} more requests</p>` : ""}</details></li>`;
}

function Span({ of, whole }) {
  const part = (seconds) => `${Math.min(100, 100 * seconds / Math.max(whole, 1e-9)).toFixed(2)}%`;
  const isRequest = of.result !== undefined;
  const bar = `bar-of${isRequest ? " request" : ""}${of.isFailed ? " failed" : ""}`;
  return html`<li><span class=${isRequest ? "what inner" : "what"}>${of.name} ${isRequest ? html`<${Tone} label=${of.result} of=${of.isFailed ? "bad" : "none"} />` : ""}</span>
    <span class="track" aria-hidden="true"><span class=${bar} style=${{ marginLeft: part(of.from), width: part(of.seconds) }}></span></span>
    <span class="quiet">${duration(of.seconds)}</span></li>`;
}
