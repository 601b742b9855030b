"""The `proxy` subresource of pods, services and nodes: forwards a request to what they serve.

`/api/v1/namespaces/NAMESPACE/pods/[SCHEME:]NAME[:PORT]/proxy/PATH`, as kube-apiserver has it: a Pod at its first
address, by default at the first port of its containers, a Service at an endpoint that is a Pod of its namespace, a Node
at its kubelet or another port. Credentials of the client are not forwarded, and certificates behind `https:` are not
verified. Unlike upstream, loopback addresses are allowed, because Pods that are processes of this machine have them;
links in HTML are not rewritten, and connections are not upgraded.
"""

import ssl
from collections.abc import Awaitable
from functools import cache
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from levelset.apiserver.registry.service_addresses import ServiceAddresses
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs.get_and_list import get_item
from levelset.apiserver.verbs.subresources.connect_admission import proxied_path
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.errors import ApiError, BadRequest, NotFound, Unreachable
from levelset.http import ForwardedRequest, Request, Response, forward

__all__ = ["proxy"]

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_PRIVATE_HEADERS: Final = ("authorization", "cookie", "x-forwarded-uri")
_CORS_HEADERS: Final = frozenset(
    f"access-control-allow-{one}" for one in ("credentials", "headers", "methods", "origin")
)
_ADDRESS_TYPES: Final = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
_KUBELET_PORT: Final = 10250


class _Location(NamedTuple):
    """Where an object is reached; an empty scheme is http."""

    scheme: str
    host: str
    port: str


def proxy(state: ServerState, served: ServedResource, path: RequestPath, request: Request) -> Awaitable[Response]:
    """The response of what the object serves; raises NotFound, BadRequest, and 503 if it cannot be reached."""
    if request.method not in _METHODS:
        raise method_not_allowed()
    locate = {"pods": _pod_location, "services": _service_location, "nodes": _node_location}[served.plural]
    location = locate(state, served, path)
    return _forward(request, location, *proxied_path(served, request.path))


async def _forward(request: Request, location: _Location, prefix: str, rest: str) -> Response:
    query = f"?{request.query}" if request.query else ""
    if not rest and request.method in ("GET", "HEAD"):
        return Response(301, (("Location", f"{prefix}/{query}"),))
    headers = [
        one for one in request.headers if one[0] not in _PRIVATE_HEADERS and not one[0].startswith("impersonate-")
    ]
    headers.append(("X-Forwarded-Uri", request.path))
    tls = _unverified() if location.scheme == "https" else None
    try:
        port = int(location.port or (443 if tls else 80))
        if "host" not in request.headers:
            headers.append(("Host", f"{location.host}:{port}"))
        given = ForwardedRequest(request.method, f"{rest or '/'}{query}", tuple(headers), request.body)
        response = await forward(given, location.host, port, tls=tls)
    except ValueError as error:
        raise _unavailable(f"error trying to reach service: unknown port {location.port!r}") from error
    except Unreachable as error:
        raise _unavailable(f"error trying to reach service: {error}") from error
    hosts = (f"{location.host}:{port}", request.headers.find("host") or "")
    return Response(response.status, _rewritten(response.headers, prefix, hosts), response.body)


def _rewritten(
    headers: tuple[tuple[str, str], ...], prefix: str, hosts: tuple[str, str]
) -> tuple[tuple[str, str], ...]:
    """The headers without CORS fields; a redirect on the same host leads through the proxy again."""
    fields = [one for one in headers if one[0].lower() not in _CORS_HEADERS]
    return tuple(
        (name, _location(value, prefix, hosts) if name.lower() == "location" else value) for name, value in fields
    )


def _location(url: str, prefix: str, hosts: tuple[str, str]) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if (parts.netloc and parts.netloc not in hosts) or not parts.path.startswith("/"):
        return url
    if parts.netloc != hosts[1]:
        parts = parts._replace(scheme="", netloc="")
    path = parts.path if parts.path.startswith(prefix) else prefix + parts.path
    return urlunsplit(parts._replace(path=path))


def _pod_location(state: ServerState, served: ServedResource, path: RequestPath) -> _Location:
    scheme, name, port = _identity(path, "pod")
    pod = _read(state, served, path.namespace, name)
    if not port:
        containers = list_member(map_member(pod, "spec"), "containers")
        ports = [found for one in containers for found in list_member(one, "ports")]
        port = str(ports[0]["containerPort"]) if ports else ""
    return _Location(scheme, _checked(next(iter(_pod_addresses(pod)), "")), port)


def _service_location(state: ServerState, served: ServedResource, path: RequestPath) -> _Location:
    scheme, name, port = _identity(path, "service")
    service = _read(state, served, path.namespace, name)
    if port.isascii() and port.isdigit():
        ports = list_member(map_member(service, "spec"), "ports")
        entry = next((one for one in ports if one.get("port") == int(port)), None)
        if entry is None:
            raise _unavailable(f'no service port {port} found for service "{name}"')
        port = entry.get("name") or ""
    namespace = path.namespace or ""
    for endpoint in ServiceAddresses(state).endpoints(namespace, name, port):
        # Only to Pods: who may write endpoints must not reach other addresses of this machine.
        if endpoint.address in _target_addresses(state, namespace, endpoint.target):
            return _Location(scheme, _checked(endpoint.address), str(endpoint.port))
    raise _unavailable(f'no endpoints available for service "{path.name}"')


def _node_location(state: ServerState, served: ServedResource, path: RequestPath) -> _Location:
    scheme, name, port = _identity(path, "node")
    status = map_member(_read(state, served, None, name), "status")
    known = {one.get("type"): one.get("address") for one in reversed(list_member(status, "addresses"))}
    host = next((known[kind] for kind in _ADDRESS_TYPES if known.get(kind)), None)
    if host is None:
        raise ApiError(f"no preferred addresses found; known addresses: {sorted(known.values())}", code=500, reason="")
    kubelet = map_member(map_member(status, "daemonEndpoints"), "kubeletEndpoint").get("Port") or _KUBELET_PORT
    if not port or port == str(kubelet):
        return _Location("https", _checked(host), str(kubelet))
    return _Location(scheme, _checked(host), port)


def _identity(path: RequestPath, kind: str) -> tuple[str, str, str]:
    """Scheme, name and port of `name`, `name:port` or `scheme:name:port`; raises BadRequest."""
    parts = (path.name or "").split(":")
    scheme = parts.pop(0) if len(parts) == 3 else ""
    name, port = parts[0], parts[1] if len(parts) > 1 else ""
    if len(parts) > 2 or not name or scheme not in ("", "http", "https"):
        raise BadRequest(f'invalid {kind} request "{path.name}"')
    return scheme, name, port


def _read(state: ServerState, served: ServedResource, namespace: str | None, name: str) -> Object:
    return served_tree(served, get_item(state, served, namespace, name))


def _target_addresses(state: ServerState, namespace: str, target: Object) -> list[str]:
    """The addresses of the Pod that an endpoint refers to."""
    pods = state.catalog.find("", "v1", "pods")
    assert pods is not None  # built in
    if target.get("kind", "Pod") != "Pod" or target.get("namespace", namespace) != namespace or not target.get("name"):
        return []
    try:
        return _pod_addresses(_read(state, pods, namespace, target["name"]))
    except NotFound:
        return []


def _pod_addresses(pod: Object) -> list[str]:
    status = map_member(pod, "status")
    found: list[Any] = [one.get("ip") for one in list_member(status, "podIPs")] or [status.get("podIP")]
    return [str(one) for one in found if one]


def _checked(host: str) -> str:
    """The address, if requests may be forwarded to it; raises BadRequest. A name of a node is resolved later."""
    try:
        address = ip_address(host)
    except ValueError:
        if host:
            return host
        raise BadRequest("address not allowed") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        raise BadRequest("address not allowed")
    return host


def _unavailable(problem: str) -> ApiError:
    return ApiError(problem, code=503, reason="ServiceUnavailable")


@cache
def _unverified() -> ssl.SSLContext:
    # As upstream: what a Pod serves has no certificate that this server could know.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
