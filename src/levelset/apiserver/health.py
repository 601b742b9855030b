"""The health endpoints of the server, `/healthz`, `/livez` and `/readyz`, in the text format of Kubernetes."""

from collections.abc import Callable, Mapping
from typing import Final

from levelset.http import Request, Response

__all__ = ["Health"]

Check = Callable[[], bool]

_TEXT: Final = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))


class Health:
    """Serves /healthz, /livez and /readyz from named checks; those of `ready` count for /readyz only."""

    def __init__(self, *, live: Mapping[str, Check] | None = None, ready: Mapping[str, Check] | None = None) -> None:
        self.live: dict[str, Check] = {"ping": lambda: True, **(live or {})}
        self.ready: dict[str, Check] = dict(ready or {})

    def page(self, request: Request) -> Response | None:
        """Returns the response, or None if the path is not a health endpoint."""
        segments = request.segments
        checks = self._checks(segments[0]) if segments else None
        if checks is None:
            return None
        if request.method not in ("GET", "HEAD"):
            return Response(405, _TEXT, b"method not allowed\n")
        if len(segments) == 1:
            return _all(segments[0], checks, request)
        check = checks.get(segments[1]) if len(segments) == 2 else None
        if check is None:
            return Response(404, _TEXT, b"404 page not found\n")
        return Response(200, _TEXT, b"ok") if check() else _failed(f"{segments[1]} failed")

    def _checks(self, name: str) -> dict[str, Check] | None:
        if name == "readyz":
            return {**self.live, **self.ready}
        return self.live if name in ("healthz", "livez") else None


def _all(name: str, checks: Mapping[str, Check], request: Request) -> Response:
    excluded = set(request.parameters.get("exclude", ()))
    results = {check: check in excluded or test() for check, test in checks.items()}
    lines = [_line(check, passed=passed, excluded=check in excluded) for check, passed in results.items()]
    # As upstream: report unknown names, so that a misspelt exclusion does not go unnoticed.
    unknown = sorted(excluded - checks.keys())
    lines += [f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}"] if unknown else []
    if not all(results.values()):
        return _failed("\n".join([*lines, f"{name} check failed"]))
    if "verbose" in request.parameters:
        return Response(200, _TEXT, "\n".join([*lines, f"{name} check passed", ""]).encode())
    return Response(200, _TEXT, b"ok")


def _line(check: str, *, passed: bool, excluded: bool) -> str:
    if excluded:
        return f"[+]{check} excluded: ok"
    return f"[+]{check} ok" if passed else f"[-]{check} failed: reason withheld"


def _failed(text: str) -> Response:
    return Response(500, _TEXT, f"{text}\n".encode())
