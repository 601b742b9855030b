"""Requests, responses and the `Handler` between them: the interface of the HTTP server and an application.

A handler may be a plain function or a coroutine function; one that can respond at once should be plain, because then
the server needs no task for the request. A handler whose response comes later, but not from a task of its own, returns
a `Deferred`.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Any, Protocol
from urllib.parse import unquote, unquote_plus

import msgspec
from msgspec.structs import force_setattr

__all__ = [
    "Handler",
    "HeadCheck",
    "Headers",
    "Peer",
    "Pieces",
    "Push",
    "Request",
    "Response",
    "Sink",
    "Tunnel",
    "parse_query",
]


class Peer(msgspec.Struct, frozen=True):
    """The client according to its verified certificate: Kubernetes maps it to a user (CN) and groups (O)."""

    common_name: str
    organizations: tuple[str, ...] = ()


class Headers:
    """The header fields of a message; names are case-insensitive.

    A repeated field reads as one value, joined with commas; `get_all` returns each. `find` is `get` for names in lower
    case: it takes a third of the time, and a server reads half a dozen fields of every request.
    """

    __slots__ = ("_repeated", "_values", "find")

    def __init__(self, fields: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, str] = {}
        values = self._values
        self._repeated: dict[str, list[str]] | None = None
        self.find: Callable[[str], str | None] = values.get
        if fields:  # empty if it is filled with `add`
            pairs: Any = fields
            # Compared first: the check of a Mapping costs as much as all of this.
            if fields.__class__ is dict or (fields.__class__ is not tuple and isinstance(fields, Mapping)):
                pairs = pairs.items()
            for given, value in pairs:
                name = given.lower()
                if name in values:
                    self.add(name, value)
                else:
                    values[name] = value

    def add(self, name: str, value: str) -> None:
        """Adds one field while the headers are being built; `name` must be in lower case."""
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
        # Most names are given in lower case, and most fields were not sent.
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
        # Names only: values may be credentials, and this ends up in logs.
        return f"Headers({', '.join(self._values)})"


_NO_HEADERS = Headers()


class Request(msgspec.Struct, frozen=True, eq=False):
    """One request.

    `path` and `query` are as the client sent them, percent-encoded; `segments` and `parameters` are decoded. `peer` is
    set if the client presented a certificate that the server trusts. `remarks` collects annotations of the handlers for
    the audit log; None if there is no audit log.
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
        """The decoded segments of the path; an encoded slash is not a separator."""
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
    """Decodes a query string; a name without `=` has an empty value, bytes that are not UTF-8 become U+FFFD."""
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
    """Where a pushed body is written: `write` never waits, and all writes of one loop iteration are sent as one.

    The producer decides what to do about a slow client: check `is_backed_up` and `backlog`, wait, skip, or `abort`.
    What it continues to write is buffered without a limit.
    """

    @property
    def is_closed(self) -> bool:
        """Whether the body has ended, from either side."""
        ...

    @property
    def is_backed_up(self) -> bool:
        """Whether the client reads slower than the body is written."""
        ...

    @property
    def backlog(self) -> int:
        """The number of bytes that were written and not sent yet."""
        ...

    def write(self, data: bytes, /) -> None:
        """Adds to the body; no effect once it has ended."""
        ...

    def close(self) -> None:
        """Ends the body after all that was written."""
        ...

    def abort(self) -> None:
        """Aborts the connection, so that the client sees that the body is incomplete."""
        ...

    def when_closed(self, callback: Callable[[], None], /) -> None:
        """Calls `callback` once when the body ends: by `close`, by a disconnect, or because the server stops."""
        ...

    async def wait_drained(self) -> None:
        """Waits until all that was written is sent, or the body has ended."""
        ...


class Tunnel(Sink, Protocol):
    """Both directions of a connection that was upgraded to another protocol: a Sink, and received bytes."""

    def when_received(self, callback: Callable[[bytes], None], /) -> None:
        """Calls `callback` with all bytes that are received."""
        ...

    def hold(self) -> None:
        """Stops receiving: the client has to wait until `release`."""
        ...

    def release(self) -> None:
        """Receives again."""
        ...


Push = Callable[[Sink], None]
"""A pushed body: called with the sink once the head of the response was sent."""


class Pieces:
    """A body that is made piece by piece while it is sent, and ends by itself, as a list does.

    As with a body of bytes, a client that reads nothing of it for `Limits.stall_within` loses the connection: it would
    keep what the rest is made of. Other iterables, such as a log that is followed, wait for the client.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], AsyncGenerator[bytes, None]]) -> None:
        self._make = make

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._make()


class Response(msgspec.Struct, frozen=True, eq=False):
    """One response: the body is bytes, an async iterable of bytes, or a `Push`.

    The server frames the message itself: Content-Length, Transfer-Encoding, Connection and Date in `headers` are
    ignored. `upgrade` takes over the connection after a 101, for requests with an Upgrade header.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | AsyncIterable[bytes] | Push = b""
    upgrade: Callable[[Tunnel], None] | None = None


Handler = Callable[[Request], Response | Awaitable[Response]]
"""An application: takes a request and returns a response, or an awaitable of one."""

HeadCheck = Callable[[Request], Response | str]
"""Decides about a request by its head, before its body is read.

Called with an empty body, and only if the body did not arrive with the head. A response, with a body of bytes, refuses
the request: it is sent at once, and the connection closes. Otherwise the result names the client to whom the bytes of
the body are counted; an empty name stands for its address. The handler has to check the complete request all the same.
"""
