"""Test control over the watches of a client: events can be held back, streams cut off or expired.

```python
watches = WatchControl()
client = await Client.connect(server, wire_hooks=[watches])
held = watches.hold(lambda event: event.kind == "Secret" and event.revision > 7)
...
held.release()
```
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from levelset.aio import timing
from levelset.aio.supervisor import Interruption
from levelset.client.transport.interface import BodyStream, Call, Hook, Response, Send
from levelset.errors import Unreachable
from levelset.testing.call_info import CallInfo, call_info

__all__ = ["DelayedWatches", "HeldEvents", "WatchControl", "WatchedEvent"]

_GONE: Final = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version","reason":"Expired","code":410}}\n'
)


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str | None = None
    resourceVersion: str = ""  # noqa: N815  # the name in the API


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()


class _Line(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    object: _Object = _Object()


_lines: Final = msgspec.json.Decoder(_Line)


class WatchedEvent(msgspec.Struct, frozen=True):
    """One watch event: its type, object and revision (0 if it has none)."""

    type: str
    kind: str
    namespace: str | None
    name: str
    revision: int
    group: str = ""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.kind, self.namespace, self.name) if part)
        return f"{self.type} {where} at {self.revision}"


class HeldEvents:
    """Events that are held back; later events of the same watch wait behind them."""

    __slots__ = ("_watches", "matches")

    def __init__(self, matches: Callable[[WatchedEvent], bool], watches: "WatchControl") -> None:
        self.matches = matches
        self._watches = watches

    def release(self) -> None:
        """Delivers the held events; idempotent."""
        self._watches.release(self)


@dataclass(eq=False)
class WatchControl:
    """A wire hook that controls the watches of a client.

    `on_event` is called for each event when it is delivered to the client. Bookmarks have no name; they can be held
    like other events.
    """

    on_event: Callable[[WatchedEvent], None] | None = None
    _held: list[HeldEvents] = field(default_factory=list[HeldEvents])
    _open: "dict[_Stream, None]" = field(default_factory=dict["_Stream", None])
    """An ordered set: iteration in the order of opening keeps runs deterministic."""

    async def __call__(self, call: Call, send: Send) -> Response:
        """Sends the call; the response of a watch becomes a controlled stream."""
        return await self._send(call, send, self.on_event)

    def observed_by(self, on_event: Callable[[WatchedEvent], None]) -> Hook:
        """A hook for one of several clients with its own `on_event`, under the same control."""

        async def hook(call: Call, send: Send) -> Response:
            return await self._send(call, send, on_event)

        return hook

    async def _send(self, call: Call, send: Send, on_event: Callable[[WatchedEvent], None] | None) -> Response:
        response = await send(call)
        if response.stream is None or call.verb != "watch":
            return response
        stream = _Stream(response.stream, call_info(call), self, on_event)
        self._open[stream] = None
        return Response(status=response.status, headers=response.headers, stream=stream)

    def hold(self, matches: Callable[[WatchedEvent], bool]) -> HeldEvents:
        """Holds back the matching events until they are released."""
        held = HeldEvents(matches, self)
        self._held.append(held)
        return held

    def release(self, held: HeldEvents) -> None:
        """Delivers the events of a hold."""
        if held in self._held:
            self._held.remove(held)
            for stream in tuple(self._open):
                stream.wake()

    def cut(self, kind: str | None = None) -> int:
        """Breaks the open watches (of one kind); returns their number. Held events on them are lost."""
        return self._end(kind, None)

    def expire(self, kind: str | None = None) -> int:
        """Ends the open watches (of one kind) with 410 Gone, so that clients relist; returns their number."""
        return self._end(kind, _GONE)

    def _end(self, kind: str | None, last: bytes | None) -> int:
        ended = [stream for stream in self._open if kind in {None, stream.kind}]
        for stream in ended:
            stream.end(last)
        return len(ended)

    def may_pass(self, event: WatchedEvent) -> bool:
        """Whether no hold matches this event."""
        return not any(held.matches(event) for held in self._held)

    def forget(self, stream: "_Stream") -> None:
        """Removes a closed watch."""
        self._open.pop(stream, None)

    @property
    def is_holding(self) -> bool:
        """Whether any hold is active."""
        return bool(self._held)


class _Stream:
    """The body of one watch; split into lines while a hold or an `on_event` needs single events."""

    __slots__ = (
        "_is_over",
        "_iterator",
        "_last",
        "_on_event",
        "_pieces",
        "_reading",
        "_waiter",
        "_waiting",
        "_watches",
        "group",
        "kind",
    )

    def __init__(
        self, pieces: BodyStream, what: CallInfo, watches: WatchControl, on_event: Callable[[WatchedEvent], None] | None
    ) -> None:
        self.group, self.kind = what.group, what.kind
        self._on_event = on_event
        self._pieces = pieces
        self._iterator = aiter(pieces)
        self._watches = watches
        self._waiting: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._reading = Interruption()
        self._is_over = False
        self._last: bytes | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._is_over:
                return self._last_line()
            if not self._waiting:
                await self._fill()
                continue
            passed = self._take()
            if passed:
                return passed
            await self._wait()

    async def aclose(self) -> None:
        """Closes the watch; a pending read raises Unreachable."""
        self.end(None)
        await self._pieces.aclose()

    def wake(self) -> None:
        """Checks again whether the next event may pass."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, last: bytes | None) -> None:
        """Ends the watch while it is read, with a last line or with Unreachable."""
        self._watches.forget(self)
        self._is_over, self._last = True, last
        self._waiting.clear()
        self.wake()
        self._reading.interrupt()

    async def _fill(self) -> None:
        """Reads the next piece of the body; `end` interrupts it."""
        self._reading.enter()
        try:
            piece = await anext(self._iterator)
        except asyncio.CancelledError:
            if not self._reading.leave():
                raise
        except (StopAsyncIteration, Unreachable):
            self._watches.forget(self)
            raise
        else:
            self._waiting.extend(piece.splitlines(keepends=True))
        finally:
            self._reading.leave()

    def _take(self) -> bytes:
        """The lines that may be delivered now; empty if the first of them is held back."""
        watches, waiting = self._watches, self._waiting
        if not watches.is_holding and self._on_event is None:
            passed = b"".join(waiting)
            waiting.clear()
            return passed
        lines: list[bytes] = []
        while waiting:
            event = self._read(waiting[0])
            if not watches.may_pass(event):
                break
            lines.append(waiting.popleft())
            if self._on_event is not None:
                self._on_event(event)
        return b"".join(lines)

    def _last_line(self) -> bytes:
        last, self._last = self._last, None
        if last is None:
            raise Unreachable("the watch was cut off")
        return last

    def _read(self, line: bytes) -> WatchedEvent:
        found = _lines.decode(line)
        metadata = found.object.metadata
        version = metadata.resourceVersion
        revision = int(version) if version.isdigit() else 0
        return WatchedEvent(found.type, self.kind, metadata.namespace, metadata.name, revision, self.group)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


class DelayedWatches:
    """A wire hook that delivers watch events so many seconds late."""

    def __init__(self, seconds: float, matches: Callable[[Call], bool] = lambda _: True) -> None:
        self._seconds = seconds
        self._matches = matches

    async def __call__(self, call: Call, send: Send) -> Response:
        """Sends the call; the body of a watch is delayed."""
        response = await send(call)
        if response.stream is None or call.verb != "watch" or not self._matches(call):
            return response
        return Response(
            status=response.status, headers=response.headers, stream=_DelayedBody(response.stream, self._seconds)
        )


class _DelayedBody:
    """A delayed body stream; its own task reads the pieces as they arrive."""

    def __init__(self, pieces: BodyStream, seconds: float) -> None:
        self._pieces = pieces
        self._seconds = seconds
        self._waiting: deque[tuple[float, bytes | Exception | None]] = deque()
        self._arrived = asyncio.Event()
        self._taking = asyncio.create_task(self._take(), name="late watch")

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        due, piece = self._waiting[0]
        await timing.sleep_until(due)
        if piece is None:
            raise StopAsyncIteration
        if isinstance(piece, Exception):
            raise piece
        self._waiting.popleft()
        return piece

    async def aclose(self) -> None:
        self._taking.cancel()
        await asyncio.gather(self._taking, return_exceptions=True)
        await self._pieces.aclose()
        self._waiting.clear()
        self._put(Unreachable("the watch was closed"))

    async def _take(self) -> None:
        try:
            async for piece in self._pieces:
                self._put(piece)
        except Unreachable as error:
            self._put(error)
        else:
            self._put(None)

    def _put(self, piece: bytes | Exception | None) -> None:
        self._waiting.append((timing.now() + self._seconds, piece))
        self._arrived.set()
