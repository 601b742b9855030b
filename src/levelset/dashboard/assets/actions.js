// Actions, if the program was started with them: each is sent by the page itself, and says what came of it.

import { html, useRef, useState } from "./html.js";
import { shortKind } from "./links.js";
import { query } from "./live.js";
import { Diff } from "./diff.js";
import { Failure } from "./parts.js";

export async function act(name, request) {
  const headers = { "Content-Type": "application/json", "X-Levelset-Action": "1" };
  const response = await fetch(`api/actions/${name}`, { method: "POST", headers, credentials: "same-origin", body: JSON.stringify(request) });
  const text = await response.text();
  let found = { error: text };
  try { found = JSON.parse(text); } catch { /* a sentence */ }
  if (!response.ok) throw Object.assign(new Error(found.error), { status: response.status });
  return found;
}

// A function that runs an action, and what came of the last one.
function useAction() {
  const [state, setState] = useState({ message: "", error: null, isRunning: false });
  const run = async (name, request) => {
    setState({ message: "", error: null, isRunning: true });
    try {
      const found = await act(name, request);
      setState({ message: found.message || "", error: null, isRunning: false });
      return found;
    } catch (error) {
      setState({ message: "", error, isRunning: false });
      return null;
    }
  };
  return [run, state];
}

const Result = ({ state }) => html`<span role="status" class="quiet">${state.isRunning ? "Working" : state.message}</span>
  ${state.error ? html`<${Failure} error=${state.error} />` : ""}`;

export function PauseButton({ controller }) {
  const [run, state] = useAction();
  const name = controller.isPaused ? "resume" : "pause";
  return html`<button type="button" disabled=${state.isRunning} onClick=${() => run(name, { controller: controller.name })}
    aria-label=${`${name} ${controller.name}`}>${controller.isPaused ? "Resume" : "Pause"}</button>`;
}

// All objects below, not only the next ones.
const countOf = (children) => children.reduce((sum, one) => sum + 1 + countOf(one.children), 0);

export function ObjectActions({ self, shown: one, hasController }) {
  const [run, state] = useAction();
  const [isEditing, setEditing] = useState(false);
  const dialog = useRef(null);
  const isWorkload = self.kind.startsWith("apps/") && ["Deployment", "StatefulSet", "DaemonSet"].includes(shortKind(self.kind));
  const scale = (event) => { event.preventDefault(); run("scale", { ...self, replicas: Number(event.target.elements.replicas.value) }); };
  const remove = () => { dialog.current.close(); run("delete", { ...self, uid: one.uid }); };
  return html`<div class="bar actions">
      ${hasController ? html`<button type="button" onClick=${() => run("reconcile", self)}>Reconcile now</button>` : ""}
      ${one.subresources.includes("scale") ? html`<form class="bar" onSubmit=${scale}><input name="replicas" type="number" min="0" max="10000" required
        aria-label="Replicas" placeholder="replicas" /><button>Scale</button></form>` : ""}
      ${isWorkload ? html`<button type="button" onClick=${() => run("restart", self)}>Restart</button>` : ""}
      ${shortKind(self.kind) === "Secret" ? "" : html`<button type="button" onClick=${() => setEditing(!isEditing)}>${isEditing ? "Stop editing" : "Edit"}</button>`}
      <button type="button" class="danger" onClick=${() => dialog.current.showModal()}>Delete</button>
      <${Result} state=${state} /></div>
    <dialog ref=${dialog} aria-label="Delete"><h2>Delete ${shortKind(self.kind)} ${one.name}?</h2>
      <p>${one.children.length ? `${countOf(one.children) === 1 ? "The object that it owns is" : `The ${countOf(one.children)} objects that it owns are`} deleted with it.` : "It cannot be undone."}</p>
      <form method="dialog" class="bar"><button>Keep it</button><button type="button" class="danger" onClick=${remove}>Delete it</button></form></dialog>
    ${isEditing ? html`<${Editor} self=${self} close=${() => setEditing(false)} />` : ""}`;
}

// Edits the text of an object: the server tries the change first, and what it would change is shown before it is made.
function Editor({ self, close }) {
  const [run, state] = useAction();
  const [text, setText] = useState(null);
  const [lines, setLines] = useState(null);
  const [failure, setFailure] = useState(null);
  const field = useRef(null);
  if (text === null && !failure) {
    const where = new URLSearchParams(self);
    query(`api/text?${where}`).then((found) => setText(JSON.parse(found).text), setFailure);
  }
  const preview = async () => { const found = await run("preview", { ...self, text: field.current.value }); setLines(found ? found.lines : null); };
  const write = async () => { if (await run("apply", { ...self, text: field.current.value })) close(); };
  if (failure) return html`<${Failure} error=${failure} />`;
  if (text === null) return html`<p class="quiet">Loading</p>`;
  return html`<section aria-label="Edit">
    <textarea ref=${field} rows="24" spellcheck=${false} aria-label="The object as YAML" defaultValue=${text} onInput=${() => setLines(null)}></textarea>
    <div class="bar"><button type="button" onClick=${preview}>Try it</button>
      <button type="button" disabled=${!lines || !lines.length} onClick=${write}>Write it</button><${Result} state=${state} /></div>
    ${lines ? html`<${Diff} lines=${lines} />` : html`<p class="quiet">Nothing is written before the server has tried it and the difference is shown.</p>`}
  </section>`;
}
