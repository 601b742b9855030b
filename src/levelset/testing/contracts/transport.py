"""The promises of `levelset.client.Transport`, as checks for whoever writes another one.

With pytest, one test per promise:

```python
@pytest.mark.parametrize("check", TRANSPORT_CONTRACT, ids=lambda check: check.__name__)
async def test_the_contract(check):
    async with open_target() as target:
        await check(MyTransport(target.url), target)
```

Without, all of them: `await check_transport(lambda target: MyTransport(target.url))`. Every check wants a transport and
a target of its own, closes the transport, and raises `AssertionError` with a sentence where a promise is broken.

A small server that a transport is tried on: it says back what came, hangs, streams, and knows who has left.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from levelset.client.transport.interface import Call, Pieces, Transport
from levelset.errors import TimedOut, Unreachable
from levelset.http import Request, Response, Server
from levelset.testing.contracts.assertions import expect, raises

__all__ = [
    "TRANSPORT_CONTRACT",
    "Target",
    "TransportCheck",
    "a_call_arrives_as_it_was_written",
    "a_call_that_takes_too_long_times_out",
    "a_cancelled_call_is_over_and_the_next_one_works",
    "a_refused_stream_has_a_whole_body",
    "a_stream_comes_piece_by_piece",
    "a_stream_that_ends_is_over",
    "an_answer_is_an_answer_whatever_its_status",
    "any_bytes_come_and_go_unchanged",
    "calls_do_not_wait_for_one_another",
    "check_transport",
    "closing_a_stream_tells_the_server",
    "closing_a_stream_wakes_its_reader",
    "closing_ends_streams_and_refuses_calls",
    "open_target",
    "the_time_of_a_stream_is_for_its_head_only",
]

_PATIENCE: Final = 10.0
_BYTES: Final = (("Content-Type", "application/octet-stream"),)
_JSON: Final = (("Content-Type", "application/json"),)


class Target:
    """Answers by path; `seen` are the requests that came, `url` is where it listens (empty if it does not).

    | path | answer |
    |---|---|
    | `/echo` | 200 with the body that came |
    | `/status/409` | that status, with a small body |
    | `/hang` | none, until it is given up |
    | `/lines` | three lines, one after the other, as a stream |
    | `/endless` | what `push` says, as a stream that does not end by itself |
    """

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Request] = []
        self.streams = 0
        """How many endless streams are being read."""
        self._pushed: asyncio.Queue[bytes] = asyncio.Queue()
        self._changed = asyncio.Event()

    def handle(self, request: Request, /) -> Response | Awaitable[Response]:
        """Answers one request."""
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
        """Sends a piece on the endless stream."""
        self._pushed.put_nowait(piece)

    async def wait_streams(self, number: int) -> None:
        """Waits until so many endless streams are being read; AssertionError if that never is."""
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
    """A target for the length of a block, on a port of its own; without `listen` it is only there to be called."""
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


"""Only a broken transport ever waits this long: a contract that hangs would not say what is broken."""
_SHORT: Final = 0.05


async def check_transport(make: Callable[[Target], Transport], *, listen: bool = True) -> None:
    """Runs every check of the contract on a transport of its own; `make` is given what the transport shall reach.

    Without `listen`, the target is not on a port, but there to be called: for transports that need no network.
    """
    for check in TRANSPORT_CONTRACT:
        async with open_target(listen=listen) as target:
            await check(make(target), target)


async def a_call_arrives_as_it_was_written(transport: Transport, target: Target) -> None:
    path, query = "/echo/a%2Fb/%C3%A9", "labelSelector=a%3Db&limit=5"
    async with _closing(transport):
        headers = {"Content-Type": "application/json", "X-Own": "yes"}
        await transport.send(_call(path, method="PATCH", query=query, headers=headers, body=b'{"a":1}'))
    (seen,) = target.seen
    expect((seen.method, seen.path, seen.query), ("PATCH", path, query), "the first line of the request")
    expect((seen.headers.get("content-type"), seen.headers.get("x-own")), ("application/json", "yes"), "its headers")
    expect(seen.body, b'{"a":1}', "its body")


async def an_answer_is_an_answer_whatever_its_status(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        for status in (200, 201, 400, 401, 403, 404, 409, 410, 429, 500, 503):
            answer = await transport.send(_call(f"/status/{status}"))
            expect(answer.status, status, "the status of an answer")
            expect((answer.body, answer.pieces), (b'{"code":%d}' % status, None), f"the body of a {status}")
            expect(answer.headers.get("content-type"), "application/json", f"a header of a {status}")
    expect(len(target.seen), 11, "the number of requests for eleven calls")


async def any_bytes_come_and_go_unchanged(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        for body in (b"", b"\0", bytes(range(256)), b"\r\n\r\n", b"x" * 2_000_000):
            answer = await transport.send(_call("/echo", method="POST", body=body))
            expect(len(answer.body), len(body), "the length of an echo")
            expect(answer.body == body, True, f"whether an echo of {len(body)} bytes is unchanged")
    expect(len(target.seen), 5, "the number of requests for five calls")


async def calls_do_not_wait_for_one_another(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        hanging = asyncio.ensure_future(transport.send(_call("/hang")))
        while not target.seen:  # noqa: ASYNC110 -- there is nothing to wait for but the other side
            await asyncio.sleep(0)
        answers = await asyncio.gather(*(transport.send(_call("/echo", method="POST", body=b"a")) for _ in range(8)))
        expect([one.body for one in answers], [b"a"] * 8, "calls beside one that hangs")
        expect(hanging.done(), False, "whether the one that hangs had to end first")
        await _cancel(hanging)


async def a_call_that_takes_too_long_times_out(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        with raises(TimedOut):
            await transport.send(_call("/hang", timeout=_SHORT))
        with raises(TimedOut):
            await transport.send(_call("/hang", timeout=_SHORT, is_stream=True))
        expect((await transport.send(_call("/echo"))).status, 200, "the call after those that timed out")
    expect(len(target.seen), 3, "the number of requests: what times out is not sent again")


async def a_cancelled_call_is_over_and_the_next_one_works(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        hanging = asyncio.ensure_future(transport.send(_call("/hang")))
        while not target.seen:  # noqa: ASYNC110 -- there is nothing to wait for but the other side
            await asyncio.sleep(0)
        await _cancel(hanging)
        expect(hanging.cancelled(), True, "whether a call that was cancelled is cancelled")
        expect((await transport.send(_call("/echo"))).status, 200, "the call after one that was cancelled")


async def a_stream_that_ends_is_over(transport: Transport, target: Target) -> None:
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


async def the_time_of_a_stream_is_for_its_head_only(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        pieces = await _stream(transport, "/endless", target, timeout=_SHORT)
        await asyncio.sleep(2 * _SHORT)
        target.push(b"late")
        expect(await _next(pieces), b"late", "a piece that comes after the time for the head")
        await pieces.aclose()


async def a_refused_stream_has_a_whole_body(transport: Transport, target: Target) -> None:
    async with _closing(transport):
        answer = await transport.send(_call("/status/410", is_stream=True))
        found = (answer.status, answer.body, answer.pieces)
        expect(found, (410, b'{"code":410}', None), "a stream that was refused")
    expect(len(target.seen), 1, "the number of requests for one stream")


async def closing_a_stream_tells_the_server(transport: Transport, target: Target) -> None:
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
    return Call(method=method, path=path, timeout=timeout, words=f"{method} {path}", **more)


async def _stream(transport: Transport, path: str, target: Target | None = None, **more: Any) -> Pieces:
    """An open stream; with a target, once that is sure to send on it: the head may come with the first piece."""
    if target is not None:
        target.push(b"begin")
    answer = await transport.send(_call(path, is_stream=True, **more))
    expect(answer.status, 200, "the status of a stream")
    assert answer.pieces is not None, "a stream has no pieces"
    if target is not None:
        expect(await _next(answer.pieces), b"begin", "the first piece")
        await target.wait_streams(1)
    return answer.pieces


async def _next(pieces: Pieces) -> bytes:
    async with asyncio.timeout(_PATIENCE):
        return await anext(aiter(pieces))


async def _cancel(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _closing(transport: Transport) -> AsyncGenerator[None, None]:
    """Closes the transport, also one that was closed before: closing again is harmless."""
    try:
        yield
    finally:
        await transport.aclose()


TRANSPORT_CONTRACT: tuple[TransportCheck, ...] = (
    a_call_arrives_as_it_was_written,
    an_answer_is_an_answer_whatever_its_status,
    any_bytes_come_and_go_unchanged,
    calls_do_not_wait_for_one_another,
    a_call_that_takes_too_long_times_out,
    a_cancelled_call_is_over_and_the_next_one_works,
    a_stream_that_ends_is_over,
    a_stream_comes_piece_by_piece,
    the_time_of_a_stream_is_for_its_head_only,
    a_refused_stream_has_a_whole_body,
    closing_a_stream_tells_the_server,
    closing_a_stream_wakes_its_reader,
    closing_ends_streams_and_refuses_calls,
)
