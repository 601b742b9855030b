// The newest events of all objects.

import { html, useState } from "./html.js";
import { useFeed, useQuery } from "./live.js";
import { Crumbs, EventTable, Found } from "./parts.js";

export function EventsPage() {
  const [text, setText] = useState("");
  const [isWarning, setWarning] = useState(false);
  useFeed(["v1/Event"]);
  const found = useQuery("api/events", { every: 500 });
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (one) => (!isWarning || one.type !== "Normal") && words.every((word) => JSON.stringify(one).toLowerCase().includes(word));
  return html`<${Found} query=${found} title="Events">${(data) => html`<${Crumbs} />
    <h1>Events <small>the last ${data.events.length}</small></h1>
    ${data.isPartial ? html`<p class="quiet">There are too many events; only a part of them was read.</p>` : ""}
    <div class="bar"><input id="filter" type="search" placeholder="Filter by text" aria-label="Filter by text" autocomplete="off"
        spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)} />
      <label><input type="checkbox" checked=${isWarning} onChange=${(event) => setWarning(event.target.checked)} /> warnings only</label></div>
    <${EventTable} events=${data.events.filter(fits)} withObject />`}<//>`;
}
