"""The endpoint `/admin/execution` of a session's server: its state machine, its handler and its client."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from msgspec import Struct

from levelset.apiserver import ConnectionInfo, read_kubeconfig
from levelset.errors import ConfigError, LevelsetError, Unreachable
from levelset.http import Request, Response
from levelset_dcp.records import HOME

__all__ = [
    "MAX_BODY",
    "AdminRequest",
    "AdminResponse",
    "AdministeredSession",
    "Cleanup",
    "ExecutionStatus",
    "admin_endpoint",
    "call_session",
    "decide",
    "default_kubeconfig",
    "find_session",
    "parse_request",
]

ExecutionStatus = Literal["Running", "CleaningResources", "CleanupComplete", "Stopping"]
Cleanup = Literal["Full", "None"]
MAX_BODY: Final = 512
_ORDER: Final[tuple[ExecutionStatus, ...]] = ("Running", "CleaningResources", "CleanupComplete", "Stopping")
_CLEANUPS: Final[tuple[Cleanup, ...]] = ("Full", "None")
_PATCH: Final = "application/merge-patch+json"
PATH: Final = ("admin", "execution")
_JSON: Final = (("Content-Type", "application/json"),)
_TIMEOUT: Final = 5.0


class AdminRequest(Struct, frozen=True):
    """A parsed PATCH request."""

    status: ExecutionStatus | None = None
    cleanup: Cleanup | None = None


class AdminResponse(Struct, frozen=True):
    """The response to a request, and the change that it causes."""

    code: int
    message: str = ""
    next_status: ExecutionStatus | None = None
    """The status that the session must move to; None if there is nothing to do."""
    cleanup: Cleanup | None = None


def parse_request(content_type: str, body: bytes) -> AdminRequest | AdminResponse:
    """Parses a PATCH request; an AdminResponse if it is rejected."""
    if content_type.partition(";")[0].strip().lower() != _PATCH:
        return AdminResponse(415, f"send a merge patch: Content-Type: {_PATCH}")
    if len(body) > MAX_BODY:
        return AdminResponse(413, f"the body has more than {MAX_BODY} bytes")
    try:
        tree: Any = json.loads(body)
    except (ValueError, RecursionError):
        return AdminResponse(400, 'the body is not JSON; send {"status": "Stopping"}')
    if not isinstance(tree, dict):
        return AdminResponse(400, 'expected an object, such as {"status": "Stopping"}')
    fields = cast("dict[str, Any]", tree)
    status, cleanup = fields.get("status"), fields.get("shutdownResourceCleanup")
    if status is not None and status not in _ORDER:
        return AdminResponse(422, f"status: {str(status)[:40]!r} is not one of {', '.join(_ORDER[1:])}")
    if cleanup is not None and cleanup not in _CLEANUPS:
        return AdminResponse(422, f"shutdownResourceCleanup: {str(cleanup)[:40]!r} is neither Full nor None")
    return AdminRequest(status, cleanup)


def decide(now: ExecutionStatus, request: AdminRequest) -> AdminResponse:
    """Decides about a request: 202 if it starts a transition, 204 without changes, 200 if it is done; or an error."""
    if request.cleanup is not None and now != "Running":
        return AdminResponse(422, f"shutdownResourceCleanup: cannot be changed, because the session is {now}")
    if request.cleanup == "None" and request.status in ("CleaningResources", "CleanupComplete"):
        return AdminResponse(422, f"status: {request.status} contradicts shutdownResourceCleanup None")
    if request.status is None or request.status == now:
        return AdminResponse(204 if request.cleanup is None else 200, cleanup=request.cleanup)
    if request.status == "Running":
        return AdminResponse(422, f"status: a session that is {now} cannot become Running")
    if _ORDER.index(request.status) < _ORDER.index(now):
        return AdminResponse(200)
    return AdminResponse(202, next_status=request.status, cleanup=request.cleanup)


class AdministeredSession(Protocol):
    """The part of a session that the endpoint needs."""

    @property
    def status(self) -> ExecutionStatus:
        """The current status."""
        ...

    cleanup: Cleanup
    """Whether all objects are deleted at the end."""

    def begin(self, status: ExecutionStatus) -> None:
        """Starts the transition to a status."""
        ...


def admin_endpoint(
    session: AdministeredSession, *, is_owner: Callable[[Request], bool]
) -> Callable[[Request], Response | None]:
    """The handler of GET and PATCH requests of the owner; it returns None for other paths."""

    def handle(request: Request) -> Response | None:
        if request.segments != PATH:
            return None
        if not is_owner(request):
            return _json_response(403, {"message": "only the owner of the server may access its session"})
        if request.method == "GET":
            return _json_response(200, _body(session))
        if request.method != "PATCH":
            return Response(405, (*_JSON, ("Allow", "GET, PATCH")), b'{"message": "use GET or PATCH"}')
        return _patch(session, request)

    return handle


def _patch(session: AdministeredSession, request: Request) -> Response:
    parsed = parse_request(request.headers.get("content-type") or "", request.body)
    response = parsed if isinstance(parsed, AdminResponse) else decide(session.status, parsed)
    if response.code >= 400:
        return _json_response(response.code, {"message": response.message})
    if response.cleanup is not None:
        session.cleanup = response.cleanup
    if response.next_status is not None:
        session.begin(response.next_status)
    return Response(204) if response.code == 204 else _json_response(response.code, _body(session))


def _body(session: AdministeredSession) -> Any:
    return {"status": session.status, "shutdownResourceCleanup": session.cleanup}


def _json_response(code: int, tree: Any) -> Response:
    return Response(code, _JSON, json.dumps(tree).encode())


def default_kubeconfig() -> Path:
    """The default path of a session's kubeconfig."""
    return Path.home() / HOME / "kubeconfig"


def find_session(path: Path) -> ConnectionInfo:
    """The contact of the session that a kubeconfig names; raises ConfigError if it does not run. Blocks."""
    try:
        contact = read_kubeconfig(path)
    except ConfigError as error:
        raise ConfigError(f"there is no session for {path}: run `levelset-dcp start`, or set --kubeconfig") from error
    if not contact.is_reachable():
        raise ConfigError(f"the session of {path} is not running: run `levelset-dcp start`")
    return contact


def call_session(contact: ConnectionInfo, change: Mapping[str, str] | None = None) -> Any:
    """Sends a GET request, or a PATCH with this change, to the endpoint; raises LevelsetError on an error. Blocks."""
    headers = {"Authorization": f"Bearer {contact.token}", "Content-Type": "application/merge-patch+json"}
    body = None if change is None else json.dumps(change).encode()
    url = f"{contact.url}/admin/execution"
    request = urllib.request.Request(url, body, headers, method="GET" if change is None else "PATCH")  # noqa: S310
    context = ssl.create_default_context(cadata=contact.ca.decode()) if contact.ca else None
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as response:  # noqa: S310
            return json.loads(response.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise LevelsetError(
            f"the session rejected the request ({error.code}): {error.read().decode(errors='replace')}"
        ) from error
    except OSError as error:
        raise Unreachable(f"the session at {contact.url} does not answer: {error}") from error
