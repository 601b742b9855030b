// Queries, and the feed that says when to repeat them. The feed has the names of changed objects, not their content.

import { useEffect, useRef, useState } from "./html.js";

export async function query(path) {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store" });
  const text = await response.text();
  if (response.ok) return text;
  let message = text;
  try { message = JSON.parse(text).error || text; } catch { /* a sentence */ }
  throw Object.assign(new Error(message || `The server responded ${response.status}.`), { status: response.status });
}

// The data at a path, queried again whenever the feed reports a change. `every` is the shortest time between two
// queries in milliseconds, and `atLeast` the longest, for what changes with time alone. The data of the last path stays
// until that of the next one has arrived.
export function useQuery(path, { every = 0, atLeast = 0 } = {}) {
  const [state, setState] = useState({ text: "", data: null, error: null, path: null });
  useEffect(() => {
    let isCurrent = true, isRunning = false, isWanted = false, timer = null, last = 0;
    async function load() {
      if (isRunning || timer) { isWanted = true; return; }
      isRunning = true;
      last = Date.now();
      try {
        const text = await query(path);
        const keep = (old) => old.text === text && old.path === path && !old.error;
        if (isCurrent) setState((old) => keep(old) ? old : { text, data: JSON.parse(text), error: null, path });
      } catch (error) {
        if (isCurrent) setState((old) => ({ text: "", data: error.status === 404 ? null : old.data, error, path }));
      }
      isRunning = false;
      if (isWanted && isCurrent) {
        isWanted = false;
        timer = setTimeout(() => { timer = null; load(); }, Math.max(0, last + every - Date.now()));
      }
    }
    load();
    const stop = onChange(load);
    const again = atLeast && setInterval(() => { if (!document.hidden && Date.now() - last >= atLeast) load(); }, atLeast / 4);
    return () => { isCurrent = false; clearTimeout(timer); clearInterval(again); stop(); };
  }, [path]);
  return state;
}

// ---- the feed -----------------------------------------------------------------------------------------------------

const listeners = new Set();
const stateListeners = new Set();
let source = null, wanted = null, retry = null, wasLost = false;
let connection = { text: "connecting", tone: "busy" };

export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Subscribes the page to the changes of these kinds, and with `status` to those of the controllers.
export function useFeed(kinds, status = false) {
  const some = [...new Set(kinds)].slice(0, 8);
  const address = "feed?" + some.map((one) => `kind=${encodeURIComponent(one)}`).join("&") + (status ? "&status=1" : "");
  useEffect(() => { wanted = address; connect(); }, [address]);
}

export function useConnection() {
  const [state, setState] = useState(connection);
  useEffect(() => { stateListeners.add(setState); return () => stateListeners.delete(setState); }, []);
  return state;
}

function setConnection(text, tone) {
  connection = { text, tone };
  for (const one of stateListeners) one(connection);
}

function connect() {
  if (document.hidden || !wanted) { disconnect(); return; }
  if (source && source.address === wanted && source.readyState !== EventSource.CLOSED) return;
  disconnect();
  source = new EventSource(wanted);
  source.address = wanted;
  source.onopen = () => {
    setConnection("live", "good");
    if (wasLost) notify({ kinds: {}, status: true });  // what happened meanwhile is unknown
    wasLost = false;
  };
  source.onerror = () => {
    wasLost = true;
    setConnection("not connected", "bad");
    if (source && source.readyState === EventSource.CLOSED && !retry) {
      retry = setTimeout(() => { retry = null; connect(); }, 2000);
    }
  };
  source.addEventListener("change", (event) => notify(JSON.parse(event.data)));
}

function disconnect() {
  if (source) source.close();
  source = null;
  clearTimeout(retry);
  retry = null;
}

function notify(change) { for (const one of [...listeners]) one(change); }

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { disconnect(); setConnection("paused", "none"); }
  else { notify({ kinds: {}, status: true }); connect(); }
});

// The names that have changed since the last drawing, for a short highlight.
export function useFresh(kind) {
  const names = useRef(new Set());
  useEffect(() => onChange((change) => {
    for (const name of change.kinds[kind] || []) names.current.add(name);
    setTimeout(() => names.current.clear(), 1600);
  }), [kind]);
  return names.current;
}
