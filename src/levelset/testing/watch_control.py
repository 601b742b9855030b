"""The watches of one client in the hand of a test: what comes on them can be held, cut off and expired.

```python
watches = Watches()
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
from levelset.client.transport.interface import Answer, Call, Hook, Pieces, Send
from levelset.errors import Unreachable
from levelset.testing.call_info import About, about

__all__ = ["Held", "LateWatches", "WatchedEvent", "Watches"]

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


@dataclass(frozen=True, slots=True)
class WatchedEvent:
    """One event on a watch: what happened to which object, and the revision that it came with (0 if it has none)."""

    type: str
    kind: str
    namespace: str | None
    name: str
    revision: int
    group: str = ""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.kind, self.namespace, self.name) if part)
        return f"{self.type} {where} at {self.revision}"


class Held:
    """Some events that are kept back; whatever comes after one of them on the same watch waits as well."""

    __slots__ = ("_watches", "fits")

    def __init__(self, fits: Callable[[WatchedEvent], bool], watches: "Watches") -> None:
        self.fits = fits
        self._watches = watches

    def release(self) -> None:
        """Lets them come; may be repeated."""
        self._watches.release(self)


@dataclass(eq=False)
class Watches:
    """A hook that passes watches through a hand.

    `on_event` is told of each event at the moment it is handed to the client. Bookmarks have no name; they are held
    like all others.
    """

    on_event: Callable[[WatchedEvent], None] | None = None
    _held: list[Held] = field(default_factory=list[Held])
    _open: "dict[_Stream, None]" = field(default_factory=dict["_Stream", None])
    """In the order in which they were opened: a set would have another order in each run."""

    async def __call__(self, call: Call, send: Send) -> Answer:
        """Sends the call; the pieces of a watch go through the hand."""
        return await self._send(call, send, self.on_event)

    def telling(self, on_event: Callable[[WatchedEvent], None]) -> Hook:
        """A hook for one of several clients: the same hand, but somebody else is told of the events."""

        async def hook(call: Call, send: Send) -> Answer:
            return await self._send(call, send, on_event)

        return hook

    async def _send(self, call: Call, send: Send, on_event: Callable[[WatchedEvent], None] | None) -> Answer:
        answer = await send(call)
        if answer.pieces is None or call.verb != "watch":
            return answer
        stream = _Stream(answer.pieces, about(call), self, on_event)
        self._open[stream] = None
        return Answer(status=answer.status, headers=answer.headers, pieces=stream)

    def hold(self, fits: Callable[[WatchedEvent], bool]) -> Held:
        """Keeps these events back until they are released."""
        held = Held(fits, self)
        self._held.append(held)
        return held

    def release(self, held: Held) -> None:
        """Lets the events come that this kept back."""
        if held in self._held:
            self._held.remove(held)
            for stream in tuple(self._open):
                stream.wake()

    def cut(self, kind: str | None = None) -> int:
        """Breaks the open watches (of one kind); how many these were. What was kept back on them is lost with them."""
        return self._end(kind, None)

    def expire(self, kind: str | None = None) -> int:
        """Ends the open watches (of one kind) with 410: what they show now has to be listed again."""
        return self._end(kind, _GONE)

    def _end(self, kind: str | None, last: bytes | None) -> int:
        ended = [stream for stream in self._open if kind in {None, stream.kind}]
        for stream in ended:
            stream.end(last)
        return len(ended)

    def may_pass(self, event: WatchedEvent) -> bool:
        """Whether nobody keeps this event back."""
        return not any(held.fits(event) for held in self._held)

    def forget(self, stream: "_Stream") -> None:
        """The watch has been closed."""
        self._open.pop(stream, None)

    @property
    def is_holding(self) -> bool:
        """Whether something may be kept back."""
        return bool(self._held)


class _Stream:
    """The pieces of one watch; given on line by line while somebody wants to know the events."""

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
        self, pieces: Pieces, what: About, watches: Watches, on_event: Callable[[WatchedEvent], None] | None
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
                return self._say_last()
            if not self._waiting:
                await self._fill()
                continue
            passed = self._take()
            if passed:
                return passed
            await self._wait()

    async def aclose(self) -> None:
        """Ends the watch; who waits for a piece of it gets Unreachable."""
        self.end(None)
        await self._pieces.aclose()

    def wake(self) -> None:
        """Looks again whether the next event may pass."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, last: bytes | None) -> None:
        """Ends the watch under its reader's hands, with a last line or with Unreachable."""
        self._watches.forget(self)
        self._is_over, self._last = True, last
        self._waiting.clear()
        self.wake()
        self._reading.interrupt()

    async def _fill(self) -> None:
        """Waits for the next piece; an end from outside interrupts that."""
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
        """The lines that may pass now, together; nothing if the first of them is kept back."""
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

    def _say_last(self) -> bytes:
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


class LateWatches:
    """A hook: everything that comes on a watch is handed on so many seconds later than it came."""

    def __init__(self, seconds: float, fits: Callable[[Call], bool] = lambda _: True) -> None:
        self._seconds = seconds
        self._fits = fits

    async def __call__(self, call: Call, send: Send) -> Answer:
        """Sends the call; the pieces of a watch come later."""
        answer = await send(call)
        if answer.pieces is None or call.verb != "watch" or not self._fits(call):
            return answer
        return Answer(status=answer.status, headers=answer.headers, pieces=_Late(answer.pieces, self._seconds))


class _Late:
    """Pieces that come later than they do; a task of its own takes them as they come."""

    def __init__(self, pieces: Pieces, seconds: float) -> None:
        self._pieces = pieces
        self._seconds = seconds
        self._waiting: deque[tuple[float, bytes | Exception | None]] = deque()
        self._came = asyncio.Event()
        self._taking = asyncio.create_task(self._take(), name="late watch")

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._waiting:
            self._came.clear()
            await self._came.wait()
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
        self._came.set()
