// A chart of the last hour, drawn as SVG: lines over time, with a scale, and the values under the pointer.

import { html, useRef, useState } from "./html.js";
import { clock } from "./parts.js";

const WIDTH = 320, HEIGHT = 96, TOP = 8, BOTTOM = 16;

// The points of a line; values that are missing interrupt it. Pure.
export function linePath(times, values, scale) {
  let path = "", isDown = false;
  values.forEach((value, at) => {
    if (isNumber(value)) path += `${isDown ? "L" : "M"}${place(times[at], value, scale)}`;
    isDown = isNumber(value);
  });
  return path;
}

// The values without a neighbour, as points: a line has none of them. Pure.
export function pointPath(times, values, scale) {
  const isAlone = (value, at) => isNumber(value) && !isNumber(values[at - 1]) && !isNumber(values[at + 1]);
  return values.map((value, at) => isAlone(value, at) ? `M${place(times[at], value, scale)}h0` : "").join("");
}

// The last value that is not missing; null if all are. Pure.
export const lastOf = (values) => values.findLast(isNumber) ?? null;

function place(time, value, { from, to, max }) {
  const x = (time - from) / Math.max(1, to - from) * WIDTH;
  const y = TOP + (1 - value / (max || 1)) * (HEIGHT - TOP - BOTTOM);
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}

// A round number that is at least as large.
export function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value * 0.999);
}

export function Chart({ title, times, lines, format }) {
  const [at, setAt] = useState(null);
  const box = useRef(null);
  const known = lines.flatMap((one) => one.values.filter(isNumber));
  const max = ceiling(Math.max(0, ...known));
  const to = times[times.length - 1] || 0, from = Math.min(to - 60, times[0] || 0);
  const point = (event) => {
    const area = box.current.getBoundingClientRect();
    const time = from + (event.clientX - area.left) / area.width * (to - from);
    setAt(nearest(times, time));
  };
  const isPointed = at !== null && at < times.length;
  const values = lines.map((one) => isPointed ? one.values[at] : lastOf(one.values));
  const texts = lines.map((one, number) => `${one.name} ${isNumber(values[number]) ? format(values[number]) : "none"}`);
  const x = isPointed ? (times[at] - from) / Math.max(1, to - from) * WIDTH : 0;
  const scale = { from, to, max };
  return html`<figure class="chart">
    <figcaption>${title}${texts.map((text, number) => html` <span key=${number} class=${`key s${number} ${lines[number].className || ""}`}>${text}</span>`)}
      <span class="quiet">${isPointed ? ` at ${clock(times[at] * 1000)}` : ""}</span></figcaption>
    <svg ref=${box} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}, last value: ${texts.join(", ")}`}
      onPointerMove=${point} onPointerLeave=${() => setAt(null)}>
      <path class="grid" d=${`M0 ${TOP}H${WIDTH}M0 ${HEIGHT - BOTTOM}H${WIDTH}`} />
      ${lines.map((one, number) => html`<path key=${one.name} class=${`series s${number} ${one.className || ""}`} d=${linePath(times, one.values, scale)} />
        <path key=${`${one.name} points`} class=${`points s${number} ${one.className || ""}`} d=${pointPath(times, one.values, scale)} />`)}
      ${isPointed ? html`<path class="cursor" d=${`M${x.toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`} />` : ""}
    </svg>
    <div class="scale quiet"><span>${clock(from * 1000)}</span><span>0 to ${format(max)}</span><span>${clock(to * 1000)}</span></div>
  </figure>`;
}

// The reconciles of a controller over the last samples, as a line in a table; failed ones in red.
export function Sparkline({ of, name }) {
  const found = of && of.controllers[name];
  if (!found || of.times.length < 2) return "";
  const { times } = of;
  const from = times[0], to = times[times.length - 1], max = ceiling(Math.max(0, ...found.reconciles));
  const total = (values) => values.reduce((sum, one, at) => sum + (one || 0) * (at ? times[at] - times[at - 1] : 0), 0);
  const text = `${Math.round(total(found.reconciles))} reconciles, ${Math.round(total(found.errors))} failed`;
  return html`<svg class="sparkline" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${text}><title>${text}</title>
    <path class="series" d=${linePath(times, found.reconciles, { from, to, max })} />
    ${found.errors.some(Boolean) ? html`<path class="series bad" d=${linePath(times, found.errors, { from, to, max })} />` : ""}</svg>`;
}

function isNumber(value) { return typeof value === "number"; }

function nearest(times, time) {
  let best = 0;
  times.forEach((one, at) => { if (Math.abs(one - time) < Math.abs(times[best] - time)) best = at; });
  return best;
}
