"""Finds controllers that keep a test busy for ever while virtual time stands still.

Only repetition counts, never real time, so that a slow machine does not make a test fail: reconciles of one object,
writes of controllers, and rounds of the event loop, all since the clock last moved or the test itself last wrote.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.client.transport.interface import Call, Response, Send
from levelset.objects.ref import Ref
from levelset.runtime.controller.request import Reason
from levelset.testing.call_info import is_write
from levelset.testing.timeline import Timeline
from levelset.testing.virtual_time import HotLoop, VirtualLoop

__all__ = ["HotLoopGuard"]

_MOST_RECONCILES: Final = 2_000
"""How often one object may be reconciled in one instant; a controller that makes one child at a time needs many."""
_MOST_WRITES: Final = 10_000
_WRITES_PER_WRITE: Final = 100
"""Controllers may write so often in one instant, and so often more for each write of the test."""
_MOST_CALLS: Final = 10_000
"""How often the same call may be sent in one instant, by the test or by one reconcile."""
_SHOWN: Final = 5


class HotLoopGuard:
    """Counts reconciles, writes and calls in one instant of virtual time, and fails the loop if they do not end.

    It observes the reconciles of all processes, listens to the server's writes, and has wire hooks for the clients of
    the processes and of the test itself, whose writes start the count again.
    """

    def __init__(self, loop: VirtualLoop, timeline: Timeline) -> None:
        self._loop = loop
        self._timeline = timeline
        self._at = -1.0
        self._reconciles: Counter[tuple[str, Ref[Any]]] = Counter()
        self._calls: Counter[str] = Counter()
        self._writes = 0
        self._test_writes = 0
        self._last: deque[tuple[ServedResource, Tree | None, Tree | None]] = deque(maxlen=_SHOWN)

    async def send_of_test(self, call: Call, send: Send) -> Response:
        """The wire hook of the test's own client."""
        if is_write(call):
            self._test_writes += 1
            self._start_again()
        self._loop.note_progress()
        return await self._counted("the test", call, send)

    async def send_of_process(self, call: Call, send: Send) -> Response:
        """The wire hook of the client of a process."""
        return await self._counted("a reconcile", call, send)

    async def _counted(self, sender: str, call: Call, send: Send) -> Response:
        self._check_time()
        what = f"{call.method} {call.path}?{call.query}"
        self._calls[what] += 1
        if self._calls[what] < _MOST_CALLS:
            return await send(call)
        self._fail(f"{sender} has sent `{call.words}` {_MOST_CALLS} times")
        # In process a call need not suspend: only a call that never returns gives the control back to the loop.
        never: asyncio.Future[Response] = self._loop.create_future()
        return await never

    def queued(self, _: str, _depth: int, /) -> None:
        """Ignored: only reconciles are counted."""

    def started(self, name: str, ref: Ref[Any], _: tuple[Reason, ...], /) -> None:
        """Counts a reconcile."""
        self._check_time()
        self._loop.note_progress()
        self._calls.clear()
        self._reconciles[name, ref] += 1
        if self._reconciles[name, ref] == _MOST_RECONCILES:
            self._fail(f"{name} has reconciled {ref} {_MOST_RECONCILES} times")

    def finished(self, _: str, _ref: Ref[Any], _outcome: Any, _seconds: float, /) -> None:
        """Ignored: a reconcile counts when it starts."""

    def note_write(self, served: ServedResource, before: Tree | None, after: Tree | None) -> None:
        """Counts a write that the server has stored."""
        self._check_time()
        self._loop.note_progress()
        self._last.append((served, before, after))
        self._writes += 1
        if self._writes == _MOST_WRITES + _WRITES_PER_WRITE * self._test_writes:
            self._fail(f"the controllers have written {self._writes} times")

    def _check_time(self) -> None:
        now = self._loop.time()
        if now != self._at:
            self._at = now
            self._start_again()

    def _start_again(self) -> None:
        self._reconciles.clear()
        self._calls.clear()
        self._writes = 0

    def _fail(self, what: str) -> None:
        lines = [f"{what} while virtual time stood still at {self._loop.time():.3f} s: it would never end"]
        lines += _titled("the last reconciles:", self._timeline.reconciles, lambda one: f"{one.outcome.ref}: {one}")
        lines += _titled("the last writes:", self._last, _describe_write)
        self._loop.fail(HotLoop("\n".join(lines)))


def _titled(title: str, entries: "deque[Any]", describe: Callable[[Any], str]) -> list[str]:
    last = list(entries)[-_SHOWN:]
    return [f"  {title}", *(f"    {describe(one)}" for one in last)] if last else []


def _describe_write(write: tuple[ServedResource, Tree | None, Tree | None]) -> str:
    served, before, after = write
    verb = "created" if before is None else "deleted" if after is None else "changed"
    tree: Any = before if after is None else after
    metadata: dict[str, Any] = tree["metadata"]
    where = "/".join(part for part in (served.kind, metadata.get("namespace"), metadata["name"]) if part)
    return f"{verb} {where}"
