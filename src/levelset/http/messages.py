"""Requests and responses as plain values: what a server edge and an application say to each other.

The two meet in one callable, the `Handler`. It may be an ordinary function or a coroutine function; one that can answer
at once should be ordinary, because then the server needs no task for the request.

An answer that is on its way and comes without a task: who waits for it is called in the moment it is there.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Protocol, cast
from urllib.parse import unquote, unquote_plus

import msgspec
from msgspec.structs import force_setattr

__all__ = ["Deferred", "Handler", "Headers", "Peer", "Push", "Request", "Response", "Sink", "Tunnel", "parse_query"]


class Peer(msgspec.Struct, frozen=True):
    """Who the client is according to its verified certificate: Kubernetes reads a user and its groups in it."""

    common_name: str
    organizations: tuple[str, ...] = ()


class Headers:
    """The header fields of a request, found by name in any case.

    A field that was sent several times reads as one, joined with commas, and one by one with `get_all`. `find` is `get`
    for names in lower case; a server asks for half a dozen fields of every request, and that takes a third of the time.
    """

    __slots__ = ("_repeated", "_values", "find")

    def __init__(self, fields: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, str] = {}
        self._repeated: dict[str, list[str]] | None = None
        self.find: Callable[[str], str | None] = self._values.get
        if fields:  # one that is put together with `add` begins empty
            is_map = fields.__class__ is not tuple and isinstance(fields, Mapping)
            pairs = cast("Mapping[str, str]", fields).items() if is_map else cast("Iterable[tuple[str, str]]", fields)
            for name, value in pairs:
                self.add(name.lower(), value)

    def add(self, name: str, value: str) -> None:
        """Adds one field while the headers are being put together; `name` must be in lower case."""
        values = self._values
        if name not in values:
            values[name] = value
            return
        if self._repeated is None:
            self._repeated = {}
        self._repeated.setdefault(name, [values[name]]).append(value)
        values[name] = f"{values[name]}, {value}"

    def get(self, name: str) -> str | None:
        """The value of a field, or None if it was not sent."""
        value = self._values.get(name)
        # Most names are asked for as they are kept, and most fields were not sent.
        return self._values.get(name.lower()) if value is None and not name.islower() else value

    def get_all(self, name: str) -> tuple[str, ...]:
        """The values of a field that may be sent several times, in order; empty if it was not sent."""
        name = name.lower()
        if self._repeated is not None and name in self._repeated:
            return tuple(self._repeated[name])
        return (self._values[name],) if name in self._values else ()

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for name in self._values:
            for value in self.get_all(name):
                yield name, value

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        # Only the names: values may be credentials, and this ends up in logs.
        return f"Headers({', '.join(self._values)})"


_NO_HEADERS = Headers()


class Request(msgspec.Struct, frozen=True, eq=False):
    """One request as it came in.

    `path` and `query` are as the client wrote them, still percent-encoded; `segments` and `parameters` are decoded.
    `peer` is there only if the client showed a certificate that the server trusts. `remarks` is where those who handle
    the request leave what is to be known about it later; None if nobody will ask.
    """

    method: str
    path: str
    query: str = ""
    headers: Headers = _NO_HEADERS
    body: bytes = b""
    peer: Peer | None = None
    remarks: dict[str, str] | None = None
    _parameters: dict[str, tuple[str, ...]] | None = None

    @property
    def segments(self) -> tuple[str, ...]:
        """The decoded parts of the path between the slashes; an encoded slash does not part them."""
        path = self.path.strip("/")
        if not path:
            return ()
        parts = path.split("/")
        return tuple([unquote(part) for part in parts] if "%" in path else parts)

    @property
    def parameters(self) -> Mapping[str, tuple[str, ...]]:
        """The decoded query: each name with all its values, in order."""
        found = self._parameters
        if found is None:
            found = parse_query(self.query)
            force_setattr(self, "_parameters", found)
        return found

    def parameter(self, name: str) -> str | None:
        """The first value of a query parameter, or None if it was not sent."""
        found = self.parameters.get(name) if self.query else None
        return found[0] if found else None


def parse_query(query: str) -> dict[str, tuple[str, ...]]:
    """Decodes a query string; a name without `=` has an empty value, and bytes that are no UTF-8 become U+FFFD."""
    found: dict[str, list[str]] = {}
    for pair in query.split("&"):
        if not pair:
            continue
        name, _, value = pair.partition("=")
        if "%" in pair or "+" in pair:
            name, value = unquote_plus(name), unquote_plus(value)
        found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}


class Sink(Protocol):
    """Where a pushed body goes: `write` never waits, and all that is written in one tick of the loop leaves as one.

    The producer decides what a slow client means: it may look at `is_backed_up` and `backlog`, wait, skip, or `abort`.
    Whatever it goes on writing is kept in memory without a bound.
    """

    @property
    def is_closed(self) -> bool:
        """Whether the body has ended, no matter which side ended it."""
        ...

    @property
    def is_backed_up(self) -> bool:
        """Whether the client does not take its bytes as fast as they come."""
        ...

    @property
    def backlog(self) -> int:
        """The number of bytes that were written here and have not left yet."""
        ...

    def write(self, data: bytes, /) -> None:
        """Adds to the body; does nothing once it has ended."""
        ...

    def close(self) -> None:
        """Ends the body properly, after all that was written."""
        ...

    def abort(self) -> None:
        """Cuts the connection, so that the client sees that the body is not complete."""
        ...

    def when_closed(self, callback: Callable[[], None], /) -> None:
        """Has `callback` called once when the body ends: by `close`, by the client's leaving, by the server's stop."""
        ...

    async def wait_drained(self) -> None:
        """Waits until all that was written has left, or the body has ended."""
        ...


class Tunnel(Sink, Protocol):
    """Both directions of a connection that was upgraded to another protocol: bytes out as for a Sink, and bytes in."""

    def when_received(self, callback: Callable[[bytes], None], /) -> None:
        """Has `callback` called with every piece that comes in."""
        ...


Push = Callable[[Sink], None]
"""A body that is pushed: it is called with the sink once the head of the response is on its way."""


class Response(msgspec.Struct, frozen=True, eq=False):
    """One answer: the body is bytes, an async iterable of bytes, or a `Push`.

    The server frames the message itself: Content-Length, Transfer-Encoding, Connection and Date in `headers` are left
    out. `upgrade` takes the connection over after a 101; it is for requests that asked for it.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | AsyncIterable[bytes] | Push = b""
    upgrade: Callable[[Tunnel], None] | None = None


Handler = Callable[[Request], Response | Awaitable[Response]]
"""An application: give it a request, get a response, at once or later."""


log = logging.getLogger(__name__)


class Deferred(asyncio.Future[Response]):
    """A response that somebody will settle; it can be awaited as any future, and nothing can call it back.

    A task or the callback of a future comes one turn of the loop after what it waits for. That is as long as answering
    a request takes, so a server that is handed one of these asks to be called at once instead.
    """

    # Small, because many are there at a time: what is held in lists and dicts wakes the garbage collector.
    __slots__ = ("_calls",)

    def __init__(self) -> None:
        super().__init__()
        self._calls: tuple[Callable[[Deferred], object], ...] = ()

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Refuses: what the answer tells of happens whether anybody listens or not."""
        return False

    def when_settled(self, call: Callable[["Deferred"], object]) -> None:
        """Has `call` called when the answer is there, before anybody who awaits it; at once if it is already."""
        if self.done():
            call(self)
        else:
            self._calls = (*self._calls, call)

    def settle(self, response: Response) -> None:
        """The answer is there."""
        self.set_result(response)
        if self._calls:
            self._tell()

    def fail(self, error: BaseException) -> None:
        """There will be no answer, because of the error."""
        self.set_exception(error)
        if self._calls:
            self._tell()

    def _tell(self) -> None:
        calls, self._calls = self._calls, ()
        for call in calls:
            try:
                call(self)
            except Exception:  # who settles many answers in a row must not stop at the first that cannot be sent
                log.exception("an answer could not be handed on")
