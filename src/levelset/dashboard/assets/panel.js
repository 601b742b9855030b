// What the system of an object declares for its page: sections of text, and a conversation with the object.

import { html, useRef, useState } from "./html.js";
import { act } from "./actions.js";
import { Failure } from "./parts.js";

export function Panel({ self, panel, hasActions }) {
  if (!panel) return "";
  return html`${panel.error ? html`<${Failure} error=${new Error(panel.error)} />` : ""}
    ${panel.sections.map((one) => html`<section key=${one.title} aria-label=${one.title}><h2>${one.title}</h2>
      ${one.rows.length ? html`<dl class="panel">${one.rows.map(([label, value], at) => html`<div key=${at}><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>` : ""}
      ${one.text ? html`<pre tabindex="0" role="region" aria-label=${`${one.title}, text`}>${one.text}</pre>` : ""}</section>`)}
    ${panel.chat ? html`<${Chat} self=${self} title=${panel.chat} hasActions=${hasActions} />` : ""}`;
}

// One conversation for as long as the page of the object is open.
function Chat({ self, title, hasActions }) {
  const [said, setSaid] = useState([]);
  const [error, setError] = useState(null);
  const [isWaiting, setWaiting] = useState(false);
  const field = useRef(null);
  const session = useRef(`dashboard-${crypto.randomUUID()}`);
  const send = async (event) => {
    event.preventDefault();
    const text = field.current.value.trim();
    if (!text || isWaiting) return;
    setWaiting(true);
    setError(null);
    setSaid((before) => [...before, { by: "You", text }]);
    field.current.value = "";
    try {
      const found = await act("message", { ...self, text, session: session.current });
      setSaid((before) => [...before, { by: self.name, text: found.message }]);
    } catch (failure) { setError(failure); }
    setWaiting(false);
  };
  if (!hasActions) return html`<section aria-label=${title}><h2>${title}</h2>
    <p class="quiet">To send messages from here, start the program with --dashboard-actions.</p></section>`;
  return html`<section aria-label=${title}><h2>${title}</h2>
    <ol class="chat" role="log" aria-label="Conversation">${said.map((one, at) => html`<li key=${at}><b>${one.by}</b> <span>${one.text}</span></li>`)}</ol>
    ${error ? html`<${Failure} error=${error} />` : ""}
    <form class="bar" onSubmit=${send}><input ref=${field} type="text" maxlength="10000" required aria-label="Message" placeholder="Say something" />
      <button disabled=${isWaiting}>${isWaiting ? "Waiting" : "Send"}</button></form></section>`;
}
