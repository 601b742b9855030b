// The addresses inside the page: everything is behind the #, so that the server sees none of it.

const enc = encodeURIComponent;

export function readRoute(hash = location.hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [what = "", kind = "", namespace = "", name = ""] = path.split("/").map(decode);
  return { what, kind, namespace, name, options: new URLSearchParams(search) };
}

function decode(text) { try { return decodeURIComponent(text); } catch { return text; } }

export function toKind(kind, options = {}) {
  const search = new URLSearchParams(Object.entries(options).filter(([, value]) => value)).toString();
  return `#/kind/${enc(kind)}` + (search ? `?${search}` : "");
}
export const toObject = (one) => `#/object/${enc(one.kind)}/${enc(one.namespace || "")}/${enc(one.name)}`;
export const toController = (one) => `#/controller/${enc(controllerName(one))}`;
// The controllers of several managers may have the same name.
export const controllerName = (one) => one.manager ? `${one.name} in ${one.manager}` : one.name;
export const toReconciles = (text) => `#/reconciles?q=${enc(text)}`;
export const toLogs = (some) => "#/logs?" + some.map((one) => `of=${enc(logName(one))}`).join("&");
export const toStep = (number, step) => `#/runs/${Number(number)}?step=${Number(step)}`;
// The only link that leaves the page: a document of its own, without rights.
export const toReport = (number) => `report?number=${Number(number)}`;
export const toSearch = (text) => `#/search?q=${enc(text)}`;
export const shortKind = (kind) => kind.slice(kind.lastIndexOf("/") + 1);
export const groupOf = (kind) => kind.slice(0, Math.max(0, kind.lastIndexOf("/")));
// In any version of the group.
export const isSameKind = (one, other) => shortKind(one) === shortKind(other) && groupOf(one).replace(/\/?[^/]*$/, "") === groupOf(other).replace(/\/?[^/]*$/, "");
export const fullName = (one) => `${shortKind(one.kind)} ${one.namespace ? one.namespace + "/" : ""}${one.name}`;

// A log in an address: kind, namespace, name and container, and whether it is that before the last restart.
export const logName = (one) => [one.kind, one.namespace || "", one.name, one.container || "", ...(one.previous ? ["previous"] : [])].map(enc).join(",");
export function readLogName(text) {
  const [kind = "", namespace = "", name = "", container = "", which = ""] = text.split(",").map(decode);
  return { kind, namespace, name, container, previous: which === "previous" };
}
