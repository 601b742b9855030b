"""Conformance checks for implementations of `levelset.client.Transport`.

With pytest, one test per check:

```python
@pytest.mark.parametrize("check", TRANSPORT_CONTRACT, ids=lambda check: check.__name__)
async def test_the_contract(check):
    async with open_target() as target:
        await check(MyTransport(target.url), target)
```

Without pytest, all of them: `await check_transport(lambda target: MyTransport(target.url))`. Every check needs a
transport and a target of its own, closes the transport, and raises `AssertionError` with a sentence if the transport
violates the contract. `Target` is the small server that the checks use.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from levelset.client.transport.interface import BodyStream, Call, Transport
from levelset.errors import TimedOut, Unreachable
from levelset.http import Request, Response, Server
from levelset.testing.contracts.assertions import expect, raises

__all__ = [
    "TRANSPORT_CONTRACT",
    "Target",
    "TransportCheck",
    "a_call_arrives_unchanged",
    "a_call_that_takes_too_long_times_out",
    "a_cancelled_call_ends_and_the_next_one_works",
    "a_refused_stream_has_a_whole_body",
    "a_stream_comes_piece_by_piece",
    "a_stream_ends_with_its_last_piece",
    "any_bytes_are_sent_and_received_unchanged",
    "calls_do_not_wait_for_one_another",
    "check_transport",
    "closing_a_stream_closes_it_on_the_server",
    "closing_a_stream_wakes_its_reader",
    "closing_ends_streams_and_refuses_calls",
    "every_status_is_returned_as_a_response",
    "open_target",
    "the_timeout_of_a_stream_applies_to_its_head_only",
]

_PATIENCE: Final = 10.0
"""Only a broken transport waits this long; without a limit a hanging check would not say what is broken."""
_BYTES: Final = (("Content-Type", "application/octet-stream"),)
_JSON: Final = (("Content-Type", "application/json"),)


class Target:
    """A test server; `seen` are the received requests, `url` is its address (empty if it does not listen).

    | path | response |
    |---|---|
    | `/echo` | 200 with the body of the request |
    | `/status/409` | that status, with a small body |
    | `/hang` | none, until the request is cancelled |
    | `/lines` | three lines, one after the other, as a stream |
    | `/endless` | the pieces given to `push`, as a stream that does not end by itself |
    """

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Request] = []
        self.streams = 0
        """The number of endless streams that are being read."""
        self._pushed: asyncio.Queue[bytes] = asyncio.Queue()
        self._changed = asyncio.Event()

    def handle(self, request: Request, /) -> Response | Awaitable[Response]:
        """Handles one request."""
        self.seen.append(request)
        match request.segments:
            case ["echo"]:
                return Response(200, _BYTES, request.body)
            case ["status", code]:
                return Response(int(code), _JSON, b'{"code":%d}' % int(code))
            case ["hang"]:
                return self._hang()
            case ["lines"]:
                return Response(200, _JSON, _lines())
            case ["endless"]:
                return Response(200, _JSON, self._endless())
            case _:
                return Response(404, _JSON, b"{}")

    def push(self, piece: bytes) -> None:
        """Sends a piece on an endless stream."""
        self._pushed.put_nowait(piece)

    async def wait_streams(self, number: int) -> None:
        """Waits until so many endless streams are being read; AssertionError after a timeout."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while self.streams != number:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{self.streams} streams are open at the server, but {number} should be") from None

    async def _hang(self) -> Response:
        never: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        return await never

    async def _endless(self) -> AsyncGenerator[bytes, None]:
        self._count(1)
        try:
            while True:
                yield await self._pushed.get()
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self.streams += change
        self._changed.set()


async def _lines() -> AsyncGenerator[bytes, None]:
    for number in range(3):
        yield b"line %d\n" % number
        await asyncio.sleep(0)


@asynccontextmanager
async def open_target(*, listen: bool = True) -> AsyncGenerator[Target, None]:
    """A target for the duration of the block, on its own port; without `listen` only `handle` can be called."""
    target = Target()
    if not listen:
        yield target
        return
    server = Server(target.handle)
    await server.start()
    target.url = server.url
    try:
        yield target
    finally:
        await server.stop(within=0.0)


TransportCheck = Callable[[Transport, Target], Awaitable[None]]


_SHORT: Final = 0.05


async def check_transport(make: Callable[[Target], Transport], *, listen: bool = True) -> None:
    """Runs every check of the contract; `make` returns a new transport for a target.

    Without `listen`, the target has no port and only its `handle` is called: for transports without a network.
    """
    for check in TRANSPORT_CONTRACT:
        async with open_target(listen=listen) as target:
            await check(make(target), target)


async def a_call_arrives_unchanged(transport: Transport, target: Target) -> None:
    path, query = "/echo/a%2Fb/%C3%A9", "labelSelector=a%3Db&limit=5"
    async with _closing(transport):
        headers = {"Content-Type": "application/json", "X-Own": "yes"}
        await transport.send(_call(path, method="PATCH", query=query, headers=headers, body=b'{"a":1}'))
    (seen,) = target.seen
    expect((seen.method, seen.path, seen.query), ("PATCH", path, query), "the request line")
    expect((seen.headers.get("content-type"), seen.headers.get("x-own")), ("application/json", "yes"), "its headers")
    expect(seen.body, b'{"a":1}', "its body")


async def every_status_is_returned_as_a_response(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        for status in (200, 201, 400, 401, 403, 404, 409, 410, 429, 500, 503):
            answer = await transport.send(_call(f"/status/{status}"))
            expect(answer.status, status, "the status of an answer")
            expect((answer.body, answer.stream), (b'{"code":%d}' % status, None), f"the body of a {status}")
            expect(answer.headers.get("content-type"), "application/json", f"a header of a {status}")
    expect(len(target.seen), 11, "the number of requests for eleven calls")


async def any_bytes_are_sent_and_received_unchanged(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        for body in (b"", b"\0", bytes(range(256)), b"\r\n\r\n", b"x" * 2_000_000):
            answer = await transport.send(_call("/echo", method="POST", body=body))
            expect(len(answer.body), len(body), "the length of an echo")
            expect(answer.body == body, True, f"whether an echo of {len(body)} bytes is unchanged")
    expect(len(target.seen), 5, "the number of requests for five calls")


async def calls_do_not_wait_for_one_another(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        hanging = asyncio.ensure_future(transport.send(_call("/hang")))
        while not target.seen:  # noqa: ASYNC110 -- the target has no event for this
            await asyncio.sleep(0)
        try:
            echoes = (transport.send(_call("/echo", method="POST", body=b"a")) for _ in range(8))
            expect([one.body for one in await asyncio.gather(*echoes)], [b"a"] * 8, "calls beside one that hangs")
            expect(hanging.done(), False, "whether the one that hangs had to end first")
        finally:
            await _cancel(hanging)


async def a_call_that_takes_too_long_times_out(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        for kind in ("whole", "stream"):
            await _time_out(transport, target, kind)
        expect((await transport.send(_call("/echo"))).status, 200, "the call after those that timed out")
    sent = Counter(one.query for one in target.seen)
    expect(max(sent.values()), 1, "how often a call that timed out was sent")


async def _time_out(transport: Transport, target: Target, kind: str) -> None:
    """Makes calls that time out, until one has reached the target before: on a busy machine the first may not."""
    within, query = _SHORT, ""
    while not any(one.query == query for one in target.seen):
        query = f"{kind}={within:g}"
        with raises(TimedOut):
            await transport.send(_call("/hang", query=query, timeout=within, is_stream=kind == "stream"))
        within *= 2
        expect(within < _PATIENCE, True, f"whether a call arrives within {within:g} seconds")


async def a_cancelled_call_ends_and_the_next_one_works(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        hanging = asyncio.ensure_future(transport.send(_call("/hang")))
        while not target.seen:  # noqa: ASYNC110 -- the target has no event for this
            await asyncio.sleep(0)
        await _cancel(hanging)
        expect(hanging.cancelled(), True, "whether a call that was cancelled is cancelled")
        expect((await transport.send(_call("/echo"))).status, 200, "the call after one that was cancelled")


async def a_stream_ends_with_its_last_piece(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        pieces = await _stream(transport, "/lines")
        got = b"".join([piece async for piece in pieces])
        expect(got, b"line 0\nline 1\nline 2\n", "everything that came on a stream")
        await pieces.aclose()
    expect(len(target.seen), 1, "the number of requests for one stream")


async def a_stream_comes_piece_by_piece(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        pieces = await _stream(transport, "/endless", target)
        for number in range(3):
            target.push(b"piece %d" % number)
            expect(await _next(pieces), b"piece %d" % number, "what has been sent on a stream that goes on")
        await pieces.aclose()


async def the_timeout_of_a_stream_applies_to_its_head_only(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        within, pieces = _SHORT, None
        while pieces is None:  # a busy machine needs longer for the head
            try:
                pieces = await _stream(transport, "/endless", target, timeout=within)
            except TimedOut:
                within *= 2
                expect(within < _PATIENCE, True, f"whether a stream begins within {within} seconds")
        await asyncio.sleep(2 * within)
        target.push(b"late")
        while (piece := await _next(pieces)) == b"begin":
            pass  # of a stream that did not begin in time
        expect(piece, b"late", "a piece that comes after the time for the head")
        await pieces.aclose()


async def a_refused_stream_has_a_whole_body(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        answer = await transport.send(_call("/status/410", is_stream=True))
        found = (answer.status, answer.body, answer.stream)
        expect(found, (410, b'{"code":410}', None), "a stream that was refused")
    expect(len(target.seen), 1, "the number of requests for one stream")


async def closing_a_stream_closes_it_on_the_server(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        pieces = await _stream(transport, "/endless", target)
        await pieces.aclose()
        await target.wait_streams(0)
        expect((await transport.send(_call("/echo"))).status, 200, "the call after a stream was closed")


async def closing_a_stream_wakes_its_reader(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        pieces = await _stream(transport, "/endless", target)
        reading = asyncio.ensure_future(_next(pieces))
        for _ in range(10):
            await asyncio.sleep(0)
        await pieces.aclose()
        with raises((StopAsyncIteration, Unreachable)):
            await reading


async def closing_ends_streams_and_refuses_calls(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        pieces = await _stream(transport, "/endless", target)
        reading = asyncio.ensure_future(_next(pieces))
        await asyncio.sleep(0)
        await transport.aclose()
        with raises(Unreachable):
            await reading
        with raises(Unreachable) as caught:
            await transport.send(_call("/echo"))
        expect(caught.error.is_sent, False, "whether a call of a closed transport may have been sent")
        await target.wait_streams(0)


def _call(path: str, *, method: str = "GET", timeout: float = _PATIENCE, **more: Any) -> Call:
    return Call(method=method, path=path, timeout=timeout, about=f"{method} {path}", **more)


async def _stream(transport: Transport, path: str, target: Target | None = None, **more: Any) -> BodyStream:
    """An open stream; with a target, after its first piece: some transports send the head with it."""
    if target is not None:
        target.push(b"begin")
    answer = await transport.send(_call(path, is_stream=True, **more))
    expect(answer.status, 200, "the status of a stream")
    assert answer.stream is not None, "a stream has no pieces"
    if target is not None:
        expect(await _next(answer.stream), b"begin", "the first piece")
        await target.wait_streams(1)
    return answer.stream


async def _next(pieces: BodyStream) -> bytes:
    async with asyncio.timeout(_PATIENCE):
        return await anext(aiter(pieces))


async def _cancel(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _closing(transport: Transport) -> AsyncGenerator[None, None]:
    """Closes the transport; closing twice is allowed."""
    try:
        yield
    finally:
        await transport.aclose()


TRANSPORT_CONTRACT: tuple[TransportCheck, ...] = (
    a_call_arrives_unchanged,
    every_status_is_returned_as_a_response,
    any_bytes_are_sent_and_received_unchanged,
    calls_do_not_wait_for_one_another,
    a_call_that_takes_too_long_times_out,
    a_cancelled_call_ends_and_the_next_one_works,
    a_stream_ends_with_its_last_piece,
    a_stream_comes_piece_by_piece,
    the_timeout_of_a_stream_applies_to_its_head_only,
    a_refused_stream_has_a_whole_body,
    closing_a_stream_closes_it_on_the_server,
    closing_a_stream_wakes_its_reader,
    closing_ends_streams_and_refuses_calls,
)
