"""Tells the page what has changed, as server-sent events: which objects, not what they are now.

Each kind that somebody looks at is watched once, by its metadata alone, and only as long as somebody looks. What a page
has not been told yet is kept by name: the same object is told once, and too many become "look at all of them again".
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from levelset.aio import Backoff, timing
from levelset.client import Client, OnlyMetadata
from levelset.client.watch_request import WatchEvent
from levelset.dashboard.views import kind_text
from levelset.errors import LevelsetError, TooManyRequests
from levelset.http import Push, Sink
from levelset.objects.ref import GroupVersionKind

__all__ = ["Feed"]

_log: Final = logging.getLogger(__name__)
_EVERY: Final = 0.25
"""A page is told at most so often, in seconds; the first of several changes is told at once."""
_BEAT: Final = 1.0
_MOST_NAMES: Final = 50
_MOST_KINDS: Final = 8
_MOST_READERS: Final = 32
_AGAIN: Final = Backoff(first=0.5, cap=30.0, quiet=60.0)


class Feed:
    """Everybody who looks, and the watches that they need; without any of them there is nothing to do.

    `pulse` gives a value that differs when there is something new about the controllers: it is asked once in a second
    while a page wants to know.
    """

    def __init__(self, client: Callable[[], Client], pulse: Callable[[], Any]) -> None:
        self._client = client
        self._pulse = pulse
        self._readers: set[_Reader] = set()
        self._watches: dict[GroupVersionKind, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._beat: asyncio.TimerHandle | None = None
        self._last: Any = None
        self._is_closed = False

    @property
    def watched(self) -> tuple[GroupVersionKind, ...]:
        """The kinds that are watched now, because somebody looks at them."""
        return tuple(self._watches)

    @property
    def readers(self) -> int:
        """How many pages are told."""
        return len(self._readers)

    def open(self, kinds: Iterable[GroupVersionKind], *, status: bool = False) -> Push:
        """A body that tells of changes in these kinds, and with `status` of the controllers, until its reader leaves.

        TooManyRequests if there are too many who read already, or too many kinds.
        """
        wanted = frozenset(kinds)
        if len(self._readers) >= _MOST_READERS or len(wanted) > _MOST_KINDS:
            raise TooManyRequests(f"at most {_MOST_READERS} pages with {_MOST_KINDS} kinds each: close some")

        def push(sink: Sink) -> None:
            if self._is_closed:
                sink.close()
                return
            self._join(_Reader(sink, wanted, status=status))

        return push

    async def close(self) -> None:
        """Ends all bodies and all watches; whoever comes later is sent away."""
        self._is_closed = True
        for reader in tuple(self._readers):
            reader.sink.close()
            self._leave(reader)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _join(self, reader: "_Reader") -> None:
        self._readers.add(reader)
        reader.sink.when_closed(lambda: self._leave(reader))
        reader.sink.write(b"retry: 2000\n\n")
        for gvk in reader.kinds - self._watches.keys():
            task = asyncio.get_running_loop().create_task(self._follow(gvk), name=f"dashboard/{gvk}")
            self._watches[gvk] = task
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        if reader.wants_status and self._beat is None:
            self._last = self._pulse()
            self._beat = asyncio.get_running_loop().call_later(_BEAT, self._look)

    def _leave(self, reader: "_Reader") -> None:
        self._readers.discard(reader)
        reader.stop()
        needed: set[GroupVersionKind] = {gvk for one in self._readers for gvk in one.kinds}
        for gvk in [one for one in self._watches if one not in needed]:
            self._watches.pop(gvk).cancel()
        if self._beat is not None and not any(one.wants_status for one in self._readers):
            self._beat.cancel()
            self._beat = None

    def _look(self) -> None:
        """Compares the controllers with what they were a second ago."""
        before, now = self._last, self._pulse()
        self._last = now
        self._beat = asyncio.get_running_loop().call_later(_BEAT, self._look)
        if now != before:
            for reader in self._readers:
                if reader.wants_status:
                    reader.note_status()

    async def _follow(self, gvk: GroupVersionKind) -> None:
        """Watches a kind until it is cancelled; after a gap everything of it is looked at again."""
        delays = _AGAIN.delays()
        while True:
            try:
                await self._watch(gvk)
            except LevelsetError as error:
                # The page has its own way to see that something is wrong: it asks the same server.
                _log.debug("the watch of %s for the dashboard has ended: %s", gvk, error)
            await timing.sleep(delays.next_delay(timing.now()))

    async def _watch(self, gvk: GroupVersionKind) -> None:
        client = self._client()
        page = await client.list_kept(OnlyMetadata(gvk), limit=1)
        async with client.watch(OnlyMetadata(gvk), resource_version=page.resource_version) as batches:
            # What happened between the page's own list and this watch is not known.
            self._tell(gvk, lambda reader: reader.note_all(gvk))
            async for batch in batches:
                for event in batch:
                    if event.status is not None:
                        raise event.status
                    self._note(gvk, event)

    def _note(self, gvk: GroupVersionKind, event: WatchEvent) -> None:
        if event.kept is not None and event.type != "BOOKMARK":
            head = event.kept
            name = f"{head.namespace}/{head.name}" if head.namespace else head.name
            self._tell(gvk, lambda reader: reader.note(gvk, name))

    def _tell(self, gvk: GroupVersionKind, note: "Callable[[_Reader], None]") -> None:
        for reader in self._readers:
            if gvk in reader.kinds:
                note(reader)


class _Reader:
    """One page: what it wants to know, and what it has yet to be told."""

    __slots__ = ("_names", "_next", "_status", "_timer", "kinds", "sink", "wants_status")

    def __init__(self, sink: Sink, kinds: frozenset[GroupVersionKind], *, status: bool) -> None:
        self.sink = sink
        self.kinds = kinds
        self.wants_status = status
        self._names: dict[GroupVersionKind, set[str] | None] = {}  # None: too many to name, or nobody knows which
        self._status = False
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0

    def note(self, gvk: GroupVersionKind, name: str) -> None:
        names = self._names.setdefault(gvk, set())
        if names is not None:
            names.add(name)
            if len(names) > _MOST_NAMES:
                self._names[gvk] = None
        self._arm()

    def note_all(self, gvk: GroupVersionKind) -> None:
        self._names[gvk] = None
        self._arm()

    def note_status(self) -> None:
        self._status = True
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is None and not self.sink.is_closed:
            self._timer = asyncio.get_running_loop().call_at(max(self._next, timing.now()), self._send)

    def _send(self) -> None:
        self._timer = None
        self._next = timing.now() + _EVERY
        if self.sink.is_backed_up:
            self._arm()  # it does not read what it has: what is to be told stays small, and waits
            return
        kinds = {kind_text(gvk): None if names is None else sorted(names) for gvk, names in self._names.items()}
        said = json.dumps({"kinds": kinds, "status": self._status})
        self._names.clear()
        self._status = False
        self.sink.write(f"event: change\ndata: {said}\n\n".encode())
