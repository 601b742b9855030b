"""The page `/admin/execution` of a session's server: how far the session is, and a way to end it."""

import json
from collections.abc import Callable
from typing import Any, Final, Protocol

from levelset.http import Request, Response
from levelset_dcp.session.execution import Answer, Cleanup, ExecutionStatus, answer, read_wish

__all__ = ["Governed", "admin_page"]

PATH: Final = ("admin", "execution")
_JSON: Final = (("Content-Type", "application/json"),)


class Governed(Protocol):
    """A session, as far as this page is concerned."""

    @property
    def status(self) -> ExecutionStatus:
        """How far it is."""
        ...

    cleanup: Cleanup
    """Whether everything is deleted at the end."""

    def begin(self, status: ExecutionStatus) -> None:
        """Begins to go there."""
        ...


def admin_page(session: Governed, *, is_owner: Callable[[Request], bool]) -> Callable[[Request], Response | None]:
    """Answers GET and PATCH of the owner; None for other paths."""

    def page(request: Request) -> Response | None:
        if request.segments != PATH:
            return None
        if not is_owner(request):
            return _told(403, {"message": "only the owner of the server may look at its session"})
        if request.method == "GET":
            return _told(200, _shown(session))
        if request.method != "PATCH":
            return Response(405, (*_JSON, ("Allow", "GET, PATCH")), b'{"message": "ask with GET or PATCH"}')
        return _asked(session, request)

    return page


def _asked(session: Governed, request: Request) -> Response:
    wish = read_wish(request.headers.get("content-type") or "", request.body)
    decided = wish if isinstance(wish, Answer) else answer(session.status, wish)
    if decided.code >= 400:
        return _told(decided.code, {"message": decided.words})
    if decided.cleanup is not None:
        session.cleanup = decided.cleanup
    if decided.begins is not None:
        session.begin(decided.begins)
    return Response(204) if decided.code == 204 else _told(decided.code, _shown(session))


def _shown(session: Governed) -> Any:
    return {"status": session.status, "shutdownResourceCleanup": session.cleanup}


def _told(code: int, tree: Any) -> Response:
    return Response(code, _JSON, json.dumps(tree).encode())
