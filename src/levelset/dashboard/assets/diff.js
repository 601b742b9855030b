// A difference of two texts, line by line.

import { html } from "./html.js";

export function Diff({ lines }) {
  if (!lines.length) return html`<p class="quiet">They do not differ.</p>`;
  const kind = (line) => /^(\+\+\+|---|@@)/.test(line) ? "mark" : line.startsWith("+") ? "add" : line.startsWith("-") ? "remove" : null;
  return html`<pre class="diff" tabindex="0" role="region" aria-label="Difference">${lines.map((line, at) => html`<span key=${at} class=${kind(line)}>${line}${"\n"}</span>`)}</pre>`;
}
