// The owners and children of an object as a graph that can be clicked: a layered layout from left to right.

import { html } from "./html.js";
import { fullName, shortKind, toObject } from "./links.js";

const WIDTH = 200, HEIGHT = 44, GAP_X = 40, GAP_Y = 12;

// Places the nodes of a tree: a layer for each depth, a parent in the middle of its children. Pure.
export function layout(root) {
  const nodes = [], edges = [];
  let row = 0;
  function place(one, depth, parent) {
    const node = { ...one, depth, x: depth * (WIDTH + GAP_X), y: 0 };
    nodes.push(node);
    if (parent) edges.push([parent, node]);
    const children = one.children.map((child) => place(child, depth + 1, node));
    node.y = children.length ? (children[0].y + children[children.length - 1].y) / 2 : row++ * (HEIGHT + GAP_Y);
    return node;
  }
  place(root, 0, null);
  const depth = Math.max(...nodes.map((one) => one.depth));
  return { nodes, edges, width: (depth + 1) * (WIDTH + GAP_X) - GAP_X, height: Math.max(1, row) * (HEIGHT + GAP_Y) - GAP_Y };
}

// The tree from the first owner down to the children of an object.
export function family(self, owners, children) {
  return [...owners].reverse().reduce((below, owner) => ({ ...owner, children: [below] }), { ...self, isSelf: true, exists: true, children });
}

export function Graph({ root }) {
  const { nodes, edges, width, height } = layout(root);
  return html`<div class="graph" role="group" aria-label="Owners and children" tabindex="0">
    <svg viewBox=${`-2 -2 ${width + 4} ${height + 4}`} width=${width + 4} height=${height + 4}>
      ${edges.map(([from, to], at) => html`<path key=${at} class="edge" d=${curve(from, to)} />`)}
      ${nodes.map((one) => html`<${Node} key=${`${one.kind} ${one.namespace} ${one.name}`} of=${one} />`)}
    </svg></div>`;
}

function curve(from, to) {
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

function Node({ of }) {
  const box = html`<g transform=${`translate(${of.x} ${of.y})`} class=${of.isSelf ? "node self" : of.exists === false ? "node missing" : "node"}>
    <title>${fullName(of)}${of.exists === false ? " (not found)" : ""}</title>
    <rect width=${WIDTH} height=${HEIGHT} rx="6" />
    <text x="10" y="17" class="kind">${shortKind(of.kind)}</text>
    <text x="10" y="35">${of.name.length > 26 ? `${of.name.slice(0, 25)}\u2026` : of.name}</text></g>`;
  return of.isSelf || of.exists === false ? box : html`<a href=${toObject(of)}>${box}</a>`;
}
