"""Answers whether the process lives and is ready: `/healthz`, `/livez` and `/readyz`, as Kubernetes asks.

Each is made of named checks. `?verbose` lists them all, `?exclude=NAME` leaves some out, and `/readyz/NAME` asks for
one alone. What fails says why: a watch without permission is named here, with what the server said.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from levelset.errors import ConfigError
from levelset.http.messages import Request, Response
from levelset.runtime.cache.informer import Stats

__all__ = ["Check", "Checks", "Finding", "Health", "watch_findings"]

Check = Callable[[], str | Awaitable[str | None] | None]
"""Returns a note, or None, if all is well; raises what is wrong. May be a coroutine function."""

_PLAIN: Final = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one check."""

    name: str
    is_ok: bool
    note: str = ""

    def __str__(self) -> str:
        how = f"[+]{self.name} ok" if self.is_ok else f"[-]{self.name} failed"
        return f"{how}: {self.note}" if self.note else how


class Checks:
    """The checks of one question, by name; there is always `ping`. They may come and go at any time."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {"ping": _ping}
        self._sources: list[Callable[[], Iterable[Finding]]] = []

    def add(self, name: str, check: Check) -> None:
        """Asks this too from now on; ConfigError for a name that is taken."""
        if not name or name in self._checks:
            raise ConfigError(f"a health check named {name!r} is there already, or none is; choose another name")
        self._checks[name] = check

    def remove(self, name: str) -> None:
        """Asks this no longer."""
        self._checks.pop(name, None)

    def add_source(self, source: Callable[[], Iterable[Finding]]) -> None:
        """Has checks whose number changes, such as one for each watch."""
        self._sources.append(source)

    async def find(self, *, only: str | None = None, without: Collection[str] = ()) -> Sequence[Finding]:
        """What the checks say now, those in `without` left out."""
        found: list[Finding] = []
        for name, check in tuple(self._checks.items()):
            if name not in without and only in {None, name}:
                found.append(await _ask(name, check))
        many = [one for source in self._sources for one in source()]
        return found + [one for one in many if one.name not in without and only in {None, one.name}]


class Health:
    """The two questions and the pages that answer them: does it live (`live`), and may it be relied on (`ready`)."""

    def __init__(self) -> None:
        self.live = Checks()
        self.ready = Checks()
        self._pages = {"healthz": self.live, "livez": self.live, "readyz": self.ready}

    async def handle(self, request: Request) -> Response:
        """The answer: 200 and `ok`, or 500 and what is wrong."""
        page, *rest = request.segments or ("",)
        checks = self._pages.get(page)
        if checks is None:
            return _answer(404, f"there is no such page; ask /{', /'.join(self._pages)}")
        if request.method not in {"GET", "HEAD"}:
            return _answer(405, "only GET is answered here")
        if rest:
            return await _one(checks, "/".join(rest))
        without = [name for value in request.parameters.get("exclude", ()) for name in value.split(",") if name]
        return await _all(checks, page, without, is_verbose=request.parameter("verbose") is not None)


def watch_findings(stats: Iterable[Stats], *, prefix: str = "watch") -> Iterable[Finding]:
    """One finding for each watch: whether it has synced, how old its last news are, and what troubles it."""
    for one in stats:
        parts = [
            f"{one.objects} objects" if one.is_ready else "not synced yet",
            "never heard of" if one.lag is None else f"last heard of {one.lag:.0f} s ago",
            *([f"last error: {one.trouble}"] if one.trouble else []),
        ]
        yield Finding(f"{prefix}/{one.name}", one.is_ready, ", ".join(parts))


async def _one(checks: Checks, name: str) -> Response:
    found = await checks.find(only=name)
    if not found:
        return _answer(404, f"there is no check named {name}; ask with ?verbose for their names")
    bad = [one for one in found if not one.is_ok]
    return _answer(500, f"{bad[0]}") if bad else _answer(200, "ok")


async def _all(checks: Checks, page: str, without: Sequence[str], *, is_verbose: bool) -> Response:
    found = await checks.find(without=without)
    is_ok = all(one.is_ok for one in found)
    if is_ok and not is_verbose:
        return _answer(200, "ok")
    lines = [*map(str, found), *(f"[+]{name} excluded: ok" for name in without)]
    lines.append(f"{page} check {'passed' if is_ok else 'failed'}")
    return _answer(200 if is_ok else 500, "\n".join(lines) + "\n")


async def _ask(name: str, check: Check) -> Finding:
    try:
        said = check()
        note = await said if inspect.isawaitable(said) else said
    except Exception as error:  # noqa: BLE001 -- whatever a check raises is its answer
        return Finding(name, is_ok=False, note=str(error) or type(error).__name__)
    return Finding(name, is_ok=True, note=note or "")


def _ping() -> None:
    """All is well if this is asked at all."""


def _answer(status: int, text: str) -> Response:
    return Response(status, _PLAIN, text.encode())
