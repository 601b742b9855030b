"""Notifies open pages of changes by server-sent events: the names of changed objects, not their content.

Each kind is watched once, metadata only, while a page subscribes to it. Pending notifications are deduplicated by name;
too many of them become "reload the whole kind".
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from levelset.aio import Backoff, timing
from levelset.client import Client, OnlyMetadata
from levelset.client.internals import list_page
from levelset.client.watch_events import WatchEvent
from levelset.dashboard.views import kind_text
from levelset.errors import LevelsetError, TooManyRequests
from levelset.http import Push, Sink
from levelset.objects.ref import GroupVersionKind

__all__ = ["EventFeed"]

_log: Final = logging.getLogger(__name__)
_MIN_INTERVAL: Final = 0.25
"""The minimum seconds between two events to a page; the first change is sent at once."""
_STATUS_INTERVAL: Final = 1.0
_MAX_NAMES: Final = 50
_MOST_KINDS: Final = 8
_MAX_SUBSCRIBERS: Final = 32
_RETRY_BACKOFF: Final = Backoff(first=0.5, cap=30.0, quiet=60.0)


class EventFeed:
    """The subscribed pages and the watches that they need.

    `pulse` returns a value that changes when the state of the controllers does; it is called every second while a page
    subscribes to the status.
    """

    def __init__(self, client: Callable[[], Client], pulse: Callable[[], Any]) -> None:
        self._client = client
        self._pulse = pulse
        self._subscribers: set[_Subscriber] = set()
        self._watches: dict[GroupVersionKind, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._status_timer: asyncio.TimerHandle | None = None
        self._last: Any = None
        self._is_closed = False

    @property
    def watched(self) -> tuple[GroupVersionKind, ...]:
        """The kinds that are watched for open pages."""
        return tuple(self._watches)

    @property
    def subscribers(self) -> int:
        """The number of subscribed pages."""
        return len(self._subscribers)

    def open(self, kinds: Iterable[GroupVersionKind], *, status: bool = False) -> Push:
        """A response body with the changes of these kinds, and with `status` of the controllers, until it is closed.

        TooManyRequests if there are too many subscribers or too many kinds.
        """
        wanted = frozenset(kinds)
        if len(self._subscribers) >= _MAX_SUBSCRIBERS or len(wanted) > _MOST_KINDS:
            raise TooManyRequests(f"at most {_MAX_SUBSCRIBERS} pages with {_MOST_KINDS} kinds each: close some")

        def push(sink: Sink) -> None:
            if self._is_closed:
                sink.close()
                return
            self._subscribe(_Subscriber(sink, wanted, status=status))

        return push

    async def close(self) -> None:
        """Closes all responses and watches; later subscribers are closed at once."""
        self._is_closed = True
        for subscriber in tuple(self._subscribers):
            subscriber.sink.close()
            self._unsubscribe(subscriber)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _subscribe(self, subscriber: "_Subscriber") -> None:
        self._subscribers.add(subscriber)
        subscriber.sink.when_closed(lambda: self._unsubscribe(subscriber))
        subscriber.sink.write(b"retry: 2000\n\n")
        for gvk in subscriber.kinds - self._watches.keys():
            task = asyncio.get_running_loop().create_task(self._keep_watching(gvk), name=f"dashboard/{gvk}")
            self._watches[gvk] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if subscriber.wants_status and self._status_timer is None:
            self._last = self._pulse()
            self._status_timer = asyncio.get_running_loop().call_later(_STATUS_INTERVAL, self._check_status)

    def _unsubscribe(self, subscriber: "_Subscriber") -> None:
        self._subscribers.discard(subscriber)
        subscriber.stop()
        needed: set[GroupVersionKind] = {gvk for one in self._subscribers for gvk in one.kinds}
        for gvk in [one for one in self._watches if one not in needed]:
            self._watches.pop(gvk).cancel()
        if self._status_timer is not None and not any(one.wants_status for one in self._subscribers):
            self._status_timer.cancel()
            self._status_timer = None

    def _check_status(self) -> None:
        """Notifies the subscribers if the state of the controllers has changed."""
        before, now = self._last, self._pulse()
        self._last = now
        self._status_timer = asyncio.get_running_loop().call_later(_STATUS_INTERVAL, self._check_status)
        if now != before:
            for subscriber in self._subscribers:
                if subscriber.wants_status:
                    subscriber.note_status()

    async def _keep_watching(self, gvk: GroupVersionKind) -> None:
        """Watches a kind until cancelled; after a gap subscribers reload the whole kind."""
        delays = _RETRY_BACKOFF.delays()
        while True:
            try:
                await self._watch(gvk)
            except LevelsetError as error:
                # Only a debug log: the page shows the error itself when it queries the same server.
                _log.debug("the watch of %s for the dashboard has ended: %s", gvk, error)
            await timing.sleep(delays.next_delay(timing.now()))

    async def _watch(self, gvk: GroupVersionKind) -> None:
        client = self._client()
        page = await list_page(client, OnlyMetadata(gvk), limit=1)
        async with client.watch(OnlyMetadata(gvk), resource_version=page.resource_version) as batches:
            # Changes between the page's own list and the start of this watch are unknown.
            self._notify(gvk, lambda subscriber: subscriber.note_all(gvk))
            async for batch in batches:
                for event in batch:
                    if event.status is not None:
                        raise event.status
                    self._note(gvk, event)

    def _note(self, gvk: GroupVersionKind, event: WatchEvent) -> None:
        if event.cached is not None and event.type != "BOOKMARK":
            head = event.cached
            name = f"{head.namespace}/{head.name}" if head.namespace else head.name
            self._notify(gvk, lambda subscriber: subscriber.note(gvk, name))

    def _notify(self, gvk: GroupVersionKind, note: "Callable[[_Subscriber], None]") -> None:
        for subscriber in self._subscribers:
            if gvk in subscriber.kinds:
                note(subscriber)


class _Subscriber:
    """One subscribed page and its pending notifications."""

    __slots__ = ("_names", "_next", "_status", "_timer", "kinds", "sink", "wants_status")

    def __init__(self, sink: Sink, kinds: frozenset[GroupVersionKind], *, status: bool) -> None:
        self.sink = sink
        self.kinds = kinds
        self.wants_status = status
        self._names: dict[GroupVersionKind, set[str] | None] = {}  # None: reload the whole kind
        self._status = False
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0

    def note(self, gvk: GroupVersionKind, name: str) -> None:
        names = self._names.setdefault(gvk, set())
        if names is not None:
            names.add(name)
            if len(names) > _MAX_NAMES:
                self._names[gvk] = None
        self._schedule()

    def note_all(self, gvk: GroupVersionKind) -> None:
        self._names[gvk] = None
        self._schedule()

    def note_status(self) -> None:
        self._status = True
        self._schedule()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        if self._timer is None and not self.sink.is_closed:
            self._timer = asyncio.get_running_loop().call_at(max(self._next, timing.now()), self._send)

    def _send(self) -> None:
        self._timer = None
        self._next = timing.now() + _MIN_INTERVAL
        if self.sink.is_backed_up:
            self._schedule()  # the client reads slowly: pending notifications are merged meanwhile
            return
        kinds = {kind_text(gvk): None if names is None else sorted(names) for gvk, names in self._names.items()}
        data = json.dumps({"kinds": kinds, "status": self._status})
        self._names.clear()
        self._status = False
        self.sink.write(f"event: change\ndata: {data}\n\n".encode())
