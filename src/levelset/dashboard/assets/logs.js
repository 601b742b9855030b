// Logs: which there are, and up to four of them side by side, live, with search, follow, wrap and download.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { parseAnsi } from "./ansi.js";
import { fullName, logName, readLogName, shortKind, toLogs } from "./links.js";
import { useFeed, useQuery } from "./live.js";
import { Crumbs, Found, ObjectLink, Table, Tone } from "./parts.js";

const MOST_LINES = 2000, MOST_PANES = 4, PAST_LINES = 1000, LONGEST_LINE = 10_000;
const enc = encodeURIComponent;
const addressOf = (one) => `log?kind=${enc(one.kind)}&name=${enc(one.name)}&namespace=${enc(one.namespace)}&container=${enc(one.container)}${one.previous ? "&previous=1" : ""}`;
const toDownload = (one) => `${addressOf(one)}&download=1`;

export function LogsPage({ route }) {
  const shown = route.options.getAll("of").slice(0, MOST_PANES).map(readLogName);
  useFeed([...new Set(["v1/Pod", ...shown.map((one) => one.kind)])].filter(Boolean));
  const choices = useQuery("api/logs", { every: 2000 });
  const [text, setText] = useState("");
  const hasLastRun = (one) => Boolean(choices.data && choices.data.logs.some((each) => logName(each) === logName({ ...one, container: "", previous: false }) && each.restarted.includes(one.container)));
  const without = (one) => shown.filter((each) => logName(each) !== logName(one));
  return html`<${Crumbs} /><h1>Logs</h1>
    ${shown.length ? html`<div class="panes">${shown.map((one) => html`<${Pane} key=${logName(one)} of=${one} all=${shown} hasLastRun=${hasLastRun(one)} others=${without(one)} />`)}</div>` : ""}
    <h2>${shown.length ? "Other logs" : "Which"}</h2>
    <div class="bar"><input id="filter" type="search" placeholder="Filter by text" aria-label="Filter by text" autocomplete="off"
      spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)} /></div>
    <${Found} query=${choices}>${(data) => html`<${Choices} data=${data} shown=${shown} text=${text} />`}<//>`;
}

function Choices({ data, shown, text }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const names = new Set(shown.map(logName));
  const all = data.logs.flatMap((one) => (one.containers.length ? one.containers : [""]).map((container) => ({ ...one, container })))
    .filter((one) => words.every((word) => `${fullName(one)} ${one.container} ${one.state}`.toLowerCase().includes(word)));
  const rows = all.map((one) => ({ key: logName(one), cells: [
    html`<a href=${toLogs([one])}>${one.name}${one.container && one.containers.length > 1 ? ` / ${one.container}` : ""}</a>`,
    shortKind(one.kind), one.namespace || "", html`<${Tone} label=${one.state} of=${one.tone} />`,
    shown.length && shown.length < MOST_PANES && !names.has(logName(one)) ? html`<a href=${toLogs([...shown, one])}>beside</a>` : ""] }));
  return html`${data.isPartial ? html`<p class="quiet">There are more: the page of an object leads to its log.</p>` : ""}
    <${Table} heads=${[{ name: "Name", className: "name" }, "Kind", "Namespace", "State", "Show"]} rows=${rows}
      none=${words.length ? "No log matches." : "No object of this server has a log."} label="Logs" />`;
}

// ---- one log ------------------------------------------------------------------------------------------------------

function Pane({ of, all, others, hasLastRun }) {
  const [text, setText] = useState("");
  const [isOnly, setOnly] = useState(false);
  const [isWrapped, setWrapped] = useState(true);
  const [isFollowed, setFollowed] = useState(true);
  const log = useLog(of);
  const box = useRef(null);
  useLayoutEffect(() => { if (isFollowed && box.current) box.current.scrollTop = box.current.scrollHeight; }, [log.lines, isFollowed, isWrapped, text]);
  // Only who scrolls up reads: lines that wrap otherwise when a pane is added move the end away, and it is followed.
  const top = useRef(0);
  const scroll = () => {
    const it = box.current;
    if (it.scrollHeight - it.scrollTop - it.clientHeight < 40) setFollowed(true);
    else if (it.scrollTop < top.current) setFollowed(false);
    top.current = it.scrollTop;
  };
  useEffect(() => {
    if (!isFollowed) return undefined;
    const it = box.current;
    const observer = new ResizeObserver(() => { it.scrollTop = it.scrollHeight; });
    observer.observe(it);
    return () => observer.disconnect();
  }, [isFollowed]);
  const word = text.toLowerCase();
  const isMatch = (one) => word && one.plain.toLowerCase().includes(word);
  const matches = word ? log.lines.filter(isMatch) : [];
  const lines = isOnly && word ? matches : log.lines;
  const label = `${fullName(of)}${of.container ? ` ${of.container}` : ""}${of.previous ? ", last run" : ""}`;
  return html`<section class="pane" aria-label=${`Log of ${label}`}>
    <div class="bar"><strong><${ObjectLink} to=${of} label=${label} /></strong>
      <span data-tone=${log.tone} role="status">${log.error ? "failed" : log.state}</span><span class="space"></span>
      ${of.previous || hasLastRun ? html`<a href=${toLogs(all.map((one) => one === of ? { ...of, previous: !of.previous } : one))}>${of.previous ? "This run" : "Last run"}</a> ` : ""}<a href=${toDownload(of)} download>Download</a> <a href=${toLogs(others)} aria-label=${`Close the log of ${label}`}>Close</a></div>
    <div class="bar"><input type="search" placeholder="Search" aria-label=${`Search the log of ${label}`} autocomplete="off" spellcheck=${false}
        value=${text} onInput=${(event) => setText(event.target.value)} />
      ${word ? html`<span class="quiet">${matches.length} ${matches.length === 1 ? "line" : "lines"}</span>` : ""}
      ${word ? html`<label><input type="checkbox" checked=${isOnly} onChange=${() => setOnly(!isOnly)} /> only these</label>` : ""}
      <label><input type="checkbox" checked=${isWrapped} onChange=${() => setWrapped(!isWrapped)} /> wrap</label>
      <label><input type="checkbox" checked=${isFollowed} onChange=${() => setFollowed(!isFollowed)} /> follow</label></div>
    ${log.error ? html`<p class="error-box">${log.error}</p>` : ""}
    <pre class=${isWrapped ? "log" : "log unwrapped"} ref=${box} tabindex="0" role="log" aria-live=${isFollowed ? "polite" : "off"} onScroll=${scroll}
      aria-label=${`Lines of ${label}`}>${log.dropped ? html`<span class="quiet">${log.dropped} earlier lines are not shown${"\n"}</span>` : ""}${
      lines.map((one) => isMatch(one) && !isOnly ? html`<mark key=${one.number}>${one.drawn}</mark>` : one.drawn)}</pre>
  </section>`;
}

// The last lines of a log, as they arrive. Lines are drawn once: the same element is reused while they are shown.
function useLog(of) {
  const [log, setLog] = useState({ lines: [], dropped: 0, state: "connecting", tone: "busy" });
  useEffect(() => {
    const abort = new AbortController();
    let lines = [], dropped = 0, timer = null, number = 0, ansi, retry = null;
    const show = (state, tone) => { timer = null; setLog({ lines, dropped, state, tone, error: tone === "bad" ? state : "" }); };
    const add = (texts) => {
      for (const text of texts) {
        const { parts, state } = parseAnsi(text.slice(0, LONGEST_LINE), ansi);
        ansi = state;
        lines.push(drawnLine(number++, parts));
      }
      dropped += Math.max(0, lines.length - MOST_LINES);
      lines = lines.slice(-MOST_LINES);
      if (!timer) timer = setTimeout(() => show("live", "good"), 100);
    };
    const start = async () => {
      [lines, dropped, ansi] = [[], 0, undefined];
      try {
        await readLines(`${addressOf(of)}${of.previous ? "" : "&follow=1"}&tail=${PAST_LINES}`, abort.signal, add);
        clearTimeout(timer);
        show("ended", "none");
      } catch (error) {
        if (abort.signal.aborted) return;
        clearTimeout(timer);
        show(error.message, "bad");
      }
      if (!of.previous) retry = setTimeout(start, 5000);  // it may be started again
    };
    start();
    return () => { abort.abort(); clearTimeout(timer); clearTimeout(retry); };
  }, [logName(of)]);
  return log;
}

function drawnLine(number, parts) {
  const plain = parts.map((one) => one.text).join("");
  const inner = parts.map((one, at) => html`<span key=${at} class=${one.className || null} style=${one.style}>${one.text}</span>`);
  return { number, plain, drawn: html`<span class="line" key=${number}>${inner}${"\n"}</span>` };
}

async function readLines(address, signal, add) {
  const response = await fetch(address, { credentials: "same-origin", cache: "no-store", signal });
  if (!response.ok) {
    const text = await response.text();
    let message = text;
    try { message = JSON.parse(text).error; } catch { /* a sentence */ }
    throw new Error(message);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop().slice(0, LONGEST_LINE);
    if (parts.length) add(parts.map((one) => one.replace(/\r$/, "")));
  }
  if (rest) add([rest]);
}
