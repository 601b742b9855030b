"""Health endpoints: `/healthz`, `/livez` and `/readyz`, in the format of kube-apiserver.

Each consists of named checks. `?verbose` lists them all, `?exclude=NAME` leaves some out, and `/readyz/NAME` runs one
alone. A failing check says why: a watch without permission shows the error that the API server returned.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from levelset.errors import ConfigError
from levelset.http.messages import Request, Response
from levelset.runtime.cache.informer import Stats

__all__ = ["Check", "CheckResult", "Checks", "Health", "watch_check_results"]

Check = Callable[[], str | Awaitable[str | None] | None]
"""Returns a note or None if the check passes; raises if it fails. May be a coroutine function."""

_PLAIN: Final = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check."""

    name: str
    is_ok: bool
    note: str = ""

    def __str__(self) -> str:
        how = f"[+]{self.name} ok" if self.is_ok else f"[-]{self.name} failed"
        return f"{how}: {self.note}" if self.note else how


class Checks:
    """The checks of one endpoint by name, always with `ping`; they may be added and removed at any time."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {"ping": _ping}
        self._sources: list[Callable[[], Iterable[CheckResult]]] = []

    def add(self, name: str, check: Check) -> None:
        """Adds a check; ConfigError for an empty name or one that is taken."""
        if not name or name in self._checks:
            raise ConfigError(f"health check {name!r}: the name is empty or already taken; choose another one")
        self._checks[name] = check

    def remove(self, name: str) -> None:
        """Removes a check."""
        self._checks.pop(name, None)

    def add_source(self, source: Callable[[], Iterable[CheckResult]]) -> None:
        """Adds a function that returns a varying number of results, such as one for each watch."""
        self._sources.append(source)

    async def run(self, *, only: str | None = None, without: Collection[str] = ()) -> Sequence[CheckResult]:
        """Runs the checks, `only` one of them or all but those in `without`."""
        found: list[CheckResult] = []
        for name, check in tuple(self._checks.items()):
            if name not in without and only in {None, name}:
                found.append(await _run_check(name, check))
        many = [one for source in self._sources for one in source()]
        return found + [one for one in many if one.name not in without and only in {None, one.name}]


class Health:
    """The liveness checks (`live`: `/healthz`, `/livez`) and the readiness checks (`ready`: `/readyz`)."""

    def __init__(self) -> None:
        self.live = Checks()
        self.ready = Checks()
        self._endpoints = {"healthz": self.live, "livez": self.live, "readyz": self.ready}

    async def handle(self, request: Request) -> Response:
        """Handles a request: 200 and `ok`, or 500 and the failing checks."""
        name, *rest = request.segments or ("",)
        checks = self._endpoints.get(name)
        if checks is None:
            return _response(404, f"not found; there is /{', /'.join(self._endpoints)}")
        if request.method not in {"GET", "HEAD"}:
            return _response(405, "only GET and HEAD are allowed")
        if rest:
            return await _one(checks, "/".join(rest))
        without = [name for value in request.parameters.get("exclude", ()) for name in value.split(",") if name]
        return await _all(checks, name, without, is_verbose=request.parameter("verbose") is not None)


def watch_check_results(stats: Iterable[Stats], *, prefix: str = "watch") -> Iterable[CheckResult]:
    """One result for each watch: whether it has synced, the age of its last event, and its error."""
    for one in stats:
        parts = [
            f"{one.objects} objects" if one.is_ready else "not synced yet",
            "no event yet" if one.lag is None else f"last event {one.lag:.0f} s ago",
            *([f"last error: {one.error}"] if one.error else []),
        ]
        yield CheckResult(f"{prefix}/{one.name}", one.is_ready, ", ".join(parts))


async def _one(checks: Checks, name: str) -> Response:
    found = await checks.run(only=name)
    if not found:
        return _response(404, f"there is no check named {name}; ?verbose lists their names")
    bad = [one for one in found if not one.is_ok]
    return _response(500, f"{bad[0]}") if bad else _response(200, "ok")


async def _all(checks: Checks, name: str, without: Sequence[str], *, is_verbose: bool) -> Response:
    found = await checks.run(without=without)
    is_ok = all(one.is_ok for one in found)
    if is_ok and not is_verbose:
        return _response(200, "ok")
    lines = [*map(str, found), *(f"[+]{name} excluded: ok" for name in without)]
    lines.append(f"{name} check {'passed' if is_ok else 'failed'}")
    return _response(200 if is_ok else 500, "\n".join(lines) + "\n")


async def _run_check(name: str, check: Check) -> CheckResult:
    try:
        result = check()
        note = await result if inspect.isawaitable(result) else result
    except Exception as error:  # noqa: BLE001 -- whatever a check raises is its result
        return CheckResult(name, is_ok=False, note=str(error) or type(error).__name__)
    return CheckResult(name, is_ok=True, note=note or "")


def _ping() -> None:
    """Always passes: the process responds."""


def _response(status: int, text: str) -> Response:
    return Response(status, _PLAIN, text.encode())
