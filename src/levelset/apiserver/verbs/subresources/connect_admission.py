"""Admission of requests that connect to an object: `exec`, `attach`, `portforward` and `proxy`, operation CONNECT.

Plugins get the options of the request as an object, as in Kubernetes: a PodExecOptions with the values of the query, a
PodProxyOptions with the rest of the path. What a mutating plugin changes in them is what is carried out.
"""

from typing import Any, Final
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from levelset.apiserver.admission.chain import AdmissionContext
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.verbs.write_admission import admit_connect
from levelset.apiserver.wire.request_options import is_true
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.http import Request
from levelset.objects.json_tree import is_list

__all__ = ["admitted", "proxied_path"]

_KINDS: Final = {
    ("pods", "attach"): "PodAttachOptions",
    ("pods", "exec"): "PodExecOptions",
    ("pods", "portforward"): "PodPortForwardOptions",
    ("pods", "proxy"): "PodProxyOptions",
    ("services", "proxy"): "ServiceProxyOptions",
    ("nodes", "proxy"): "NodeProxyOptions",
}
_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")


async def admitted(
    state: ServerState, served: ServedResource, path: RequestPath, request: Request, context: AdmissionContext
) -> Request:
    """The request as the plugins leave it; raises the rejection of one of them."""
    options, target = _options(served, path.subresource, request), (path.name or "", path.namespace)
    changed = await admit_connect(state, served, options, context, target=target, subresource=path.subresource)
    return request if changed is None else _changed(served, path.subresource, request, changed)


def proxied_path(served: ServedResource, path: str) -> tuple[str, str]:
    """The path of a request up to `proxy`, and the rest, which begins with a slash unless it is empty."""
    # Counted in the path as it was parsed: what was authorized is what is requested, whatever the rest of it is.
    segments = 7 if served.namespaced else 5
    parts = path.lstrip("/").split("/", segments)
    return f"/{'/'.join(parts[:segments])}", f"/{parts[segments]}" if len(parts) > segments else ""


def _options(served: ServedResource, subresource: str, request: Request) -> Tree:
    """The options of the request; as Go writes them, without those that are empty, except for a command."""
    tree: Tree = {"kind": _KINDS[served.plural, subresource], "apiVersion": "v1"}
    given = request.parameters
    if subresource == "proxy":
        rest = proxied_path(served, request.path)[1]
        return {**tree, "path": rest} if rest else tree
    if subresource == "portforward":
        ports = [int(one) for text in given.get("ports", ()) for one in text.split(",") if one.isdecimal()]
        return {**tree, "ports": ports} if ports else tree
    tree |= {name: True for name in _FLAGS if is_true(request.parameter(name))}
    if container := request.parameter("container"):
        tree["container"] = container
    if subresource == "exec":
        tree["command"] = list(given.get("command", ())) or None
    return tree


def _changed(served: ServedResource, subresource: str, request: Request, options: Tree) -> Request:
    """The request with other options."""
    if subresource == "proxy":
        path = str(options.get("path") or "")
        rest = quote(path if path.startswith("/") or not path else f"/{path}", safe="/%:@!$&'()*+,;=~")
        return replace(request, path=proxied_path(served, request.path)[0] + rest)
    values: list[tuple[str, Any]] = []
    for name, value in options.items():
        if name in ("kind", "apiVersion") or value is None:
            continue
        values += [(name, one) for one in value] if is_list(value) else [(name, _text(value))]
    return replace(request, query=urlencode(values), _parameters=None)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
