// Services and their ports; those that this machine can reach are links.

import { html } from "./html.js";
import { shortKind } from "./links.js";
import { useFeed, useQuery } from "./live.js";
import { Crumbs, Found, ObjectLink, Table } from "./parts.js";

// Only addresses of the web become links; the server makes them of addresses and numbers.
const toEndpoint = (url) => /^https?:\/\/[A-Za-z0-9[\]:.-]+\/$/.test(url) ? url : "#/endpoints";

export function EndpointsPage() {
  useFeed(["v1/Service"]);
  const found = useQuery("api/endpoints", { every: 1000 });
  return html`<${Crumbs} /><h1>Endpoints</h1><${Found} query=${found}>${(data) => html`<${Endpoints} all=${data.endpoints} />`}<//>`;
}

function Endpoints({ all }) {
  const rows = all.map((one, at) => ({ key: `${at}`, cells: [
    html`<${ObjectLink} to=${one} />`, one.namespace || "", shortKind(one.kind) === "Service" && one.kind !== "v1/Service" ? one.kind : "",
    one.url ? html`<a href=${toEndpoint(one.url)} target="_blank" rel="noopener noreferrer">${one.url}</a>` : `${one.address}:${one.port}`,
    one.portName, one.protocol, one.url ? "" : "inside the cluster"] }));
  return html`<${Table} heads=${[{ name: "Service", className: "name" }, "Namespace", "Kind", { name: "Address", className: "words" }, "Port", "Protocol", "Reachable"]}
    rows=${rows} none="No Services." label="Endpoints" />`;
}
