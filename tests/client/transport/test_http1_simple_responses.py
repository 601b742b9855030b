"""Simple responses read without the parser: the result is the same, and all others are left to the parser."""

import asyncio
import copy
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelset.client.transport import http1 as connections
from levelset.client.transport.http1 import Connection, Exchange, LazyHeaders, read_simple_response
from levelset.client.transport.interface import Call, Response
from levelset.errors import Unreachable
from levelset.http.messages import Headers
from tests.aio.virtual_time import run
from tests.client.transport.test_http1_responses import FakePool, FakeTransport, cut

FIELDS = (
    b"Audit-Id: 6b1d2c0e-31b7-4b7e\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"Date: Mon, 16 Nov 2026 12:14:40 GMT\r\n"
)
PLAIN = b"HTTP/1.1 200 OK\r\n%bContent-Length: 5\r\n\r\nhello" % FIELDS
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: t\r\n\r\n"


def with_fields(*lines: bytes, status: bytes = b"200 OK", body: bytes = b"hello") -> bytes:
    return b"HTTP/1.1 %b\r\n%b\r\n%b" % (status, b"".join(b"%b\r\n" % line for line in lines), body)


LENGTH = b"Content-Length: 5"
SEEN_AT_A_GLANCE = {
    "plain": PLAIN,
    "small letters": with_fields(b"content-type: a/b", b"content-length: 5", b"x-one: 1"),
    "the length in front": with_fields(LENGTH, b"Date: now", b"Retry-After: 5"),
    "nothing but a length": with_fields(LENGTH),
    "no body": with_fields(b"Content-Length: 0", body=b""),
    "no words": with_fields(LENGTH, status=b"201 "),
    "spaces behind a value": with_fields(b"X-One: a b  ", LENGTH),
    "a field twice": with_fields(b"Vary: a", b"vary: b", LENGTH, b"VARY: c", b"Content-Type: d", b"Content-Type: e"),
    "a failure": with_fields(LENGTH, status=b"500 Internal Server Error"),
    "refused": with_fields(LENGTH, status=b"401 Unauthorized"),
    "a redirection": with_fields(LENGTH, status=b"302 Found"),
    "408 that keeps the connection": with_fields(LENGTH, status=b"408 Request Timeout"),
    "a name that only looks like another": with_fields(b"X-Content-Length: 7", b"Not-Connection: close", LENGTH),
    "one chunk": with_fields(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n"),
    "one chunk in small letters": with_fields(
        b"transfer-encoding: chunked", b"X: y", body=b"005\r\nhello\r\n0\r\n\r\n"
    ),
    "one long chunk": with_fields(b"Transfer-Encoding: chunked", body=b"2aA\r\n%b\r\n0\r\n\r\n" % (b"\r\n" * 341)),
    "a chunk with its own end": with_fields(
        b"Date: now", b"Transfer-Encoding: chunked", body=b"7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"
    ),
    "bytes of all kinds": with_fields(b"Content-Length: 256", body=bytes(range(256))),
}
LEFT_TO_THE_PARSER = {
    "chunks and a trailer": b"HTTP/1.1 200 OK\r\n" + FIELDS + CHUNKS,
    "a length and chunks": b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + CHUNKS,
    "chunks and a length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + LENGTH + b"\r\n\r\n0\r\n\r\n",
    "no chunk": with_fields(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "no chunk twice": with_fields(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n0\r\n\r\n"),
    "two chunks": with_fields(b"Transfer-Encoding: chunked", body=b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
    "a chunk and a trailer": with_fields(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\nT: t\r\n\r\n"),
    "a chunk with an extension": with_fields(b"Transfer-Encoding: chunked", body=b"5;x\r\nhello\r\n0\r\n\r\n"),
    "a chunk of no length": with_fields(b"Transfer-Encoding: chunked", body=b"z\r\nhello\r\n0\r\n\r\n"),
    "a chunk that is too long": with_fields(b"Transfer-Encoding: chunked", body=b"4\r\nhello\r\n0\r\n\r\n"),
    "a chunk that is too short": with_fields(b"Transfer-Encoding: chunked", body=b"6\r\nhello\r\n0\r\n\r\n"),
    "a chunk without an end": with_fields(b"Transfer-Encoding: chunked", body=b"5\r\nhello"),
    "a chunk and something else": with_fields(b"Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\nx"),
    "a chunk and line feeds": with_fields(b"Transfer-Encoding: chunked", body=b"5\nhello\n0\n\n"),
    "chunks twice": with_fields(*[b"Transfer-Encoding: chunked"] * 2, body=b"5\r\nhello\r\n0\r\n\r\n"),
    "chunked in capitals": with_fields(b"Transfer-Encoding: CHUNKED", body=b"5\r\nhello\r\n0\r\n\r\n"),
    "chunked and more": with_fields(b"Transfer-Encoding: gzip, chunked", body=b"5\r\nhello\r\n0\r\n\r\n"),
    "no content in a chunk": with_fields(
        b"Transfer-Encoding: chunked", status=b"204 No Content", body=b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "another coding": with_fields(b"Transfer-Encoding: gzip", LENGTH),
    "until the end": with_fields(b"Date: now"),
    "two lengths that differ": with_fields(LENGTH, b"Content-Length: 3"),
    "the same length twice": with_fields(LENGTH, LENGTH),
    "the same length twice in other letters": with_fields(LENGTH, b"content-length: 5"),
    "two lengths in one": with_fields(b"Content-Length: 5, 5"),
    "a length in strange letters": with_fields(b"CONTENT-length: 5"),
    "leading zeros": with_fields(b"Content-Length: 0000000005"),
    "a length with a sign": with_fields(b"Content-Length: +5"),
    "a negative length": with_fields(b"Content-Length: -5"),
    "a length with a space behind": with_fields(b"Content-Length: 5 "),
    "a length without a space": with_fields(b"Content-Length:5"),
    "no length": with_fields(b"Content-Length:"),
    "a length with a space in front of the colon": with_fields(b"Content-Length : 5"),
    "a length in hex": with_fields(b"Content-Length: 0x5"),
    "a length beyond the limit": with_fields(b"Content-Length: 2001", body=b"x" * 800),
    "a length beyond all bounds": with_fields(b"Content-Length: 99999999999999999999999"),
    "too little": with_fields(b"Content-Length: 6"),
    "a byte too much": with_fields(b"Content-Length: 4"),
    "a line too much": PLAIN + b"\r\n",
    "two responses": PLAIN + PLAIN,
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN,
    "never the response": with_fields(b"Content-Length: 0", status=b"102 Processing", body=b""),
    "another protocol": with_fields(b"Upgrade: x", b"Connection: upgrade", status=b"101 Switching Protocols", body=b""),
    "no content": with_fields(status=b"204 No Content", body=b""),
    "no content of some length": with_fields(LENGTH, status=b"204 No Content", body=b""),
    "no content and some": with_fields(LENGTH, status=b"204 No Content"),
    "not modified": with_fields(LENGTH, status=b"304 Not Modified", body=b""),
    "not modified and a body": with_fields(LENGTH, status=b"304 Not Modified"),
    "a status beyond": with_fields(LENGTH, status=b"600 What"),
    "a status of two digits": with_fields(LENGTH, status=b"20 OK"),
    "a status of four digits": with_fields(LENGTH, status=b"2000 OK"),
    "a status without a space": with_fields(LENGTH, status=b"200"),
    "HTTP/1.0": PLAIN.replace(b"1.1", b"1.0"),
    "HTTP/1.0 that stays": PLAIN.replace(b"1.1", b"1.0").replace(b"Date", b"Connection: keep-alive\r\nDate"),
    "HTTP/2.0": PLAIN.replace(b"1.1", b"2.0"),
    "http": PLAIN.replace(b"HTTP", b"http"),
    "ICE": PLAIN.replace(b"HTTP/1.1", b"ICY"),
    "an empty line before": b"\r\n" + PLAIN,
    "the connection ends": with_fields(b"Connection: close", LENGTH),
    "the connection ends, in small letters": with_fields(LENGTH, b"connection: Close"),
    "the connection stays": with_fields(b"Connection: keep-alive", LENGTH),
    "a proxy's connection": with_fields(b"Proxy-Connection: close", LENGTH),
    "408 that closes": with_fields(b"Connection: close", LENGTH, status=b"408 Request Timeout"),
    "a folded line": with_fields(b"X-One: a", b" b", LENGTH),
    "a folded length": with_fields(b"Content-Length:", b" 5"),
    "a folded end": with_fields(LENGTH, b"\tb"),
    "line feeds only": PLAIN.replace(b"\r\n", b"\n"),
    "a line feed in a value": with_fields(b"X-One: a\nContent-Length: 3", LENGTH),
    "a carriage return in a value": with_fields(b"X-One: a\rContent-Length: 3", LENGTH),
    "a zero": with_fields(b"X-One: a\0b", LENGTH),
    "a tab": with_fields(b"X-One: \ta\tb\t", LENGTH),
    "DEL": with_fields(b"X-One: a\x7f", LENGTH),
    "letters beyond ASCII": with_fields("X-One: ä".encode(), LENGTH),
    "words beyond ASCII": with_fields(LENGTH, status="200 schön".encode()),
    "a control letter in the words": with_fields(LENGTH, status=b"200 O\x01K"),
    "no value": with_fields(b"X-One:", LENGTH),
    "a space for a value": with_fields(b"X-One: ", LENGTH),
    "no space": with_fields(b"X-One:1", LENGTH),
    "many spaces": with_fields(b"X-One:   1", LENGTH),
    "a space in front of the colon": with_fields(b"X-One : 1", LENGTH),
    "no name": with_fields(b": 1", LENGTH),
    "no colon": with_fields(b"X-One", LENGTH),
    "a strange name": with_fields(b"X_One!: 1", LENGTH),
    "a warning": with_fields(b'Warning: 299 - "old"', LENGTH),
    "an announced trailer": with_fields(b"Trailer: x", LENGTH),
    "half a head": PLAIN[:60],
    "a part of the body": PLAIN[:-1],
    "nothing but an empty line": b"\r\n\r\n",
    "garbage": b"\x16\x03\x01 hello\r\n\r\n",
    "a head beyond the limit": b"HTTP/1.1 200 OK\r\n" + b"X-One: 1\r\n" * 90,
}
ALL = {**SEEN_AT_A_GLANCE, **LEFT_TO_THE_PARSER}


async def fate_of(chunks: Iterable[bytes], *, is_reused: bool = False, **call: Any) -> tuple[object, ...]:
    """The result of these bytes: the response or the error, and the state of the connection."""
    pool, transport = FakePool(), FakeTransport()
    connection = Connection(pool)
    connection.connection_made(transport)
    future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    request = Call(**{"method": "GET", "path": "/", **call})
    exchange = Exchange(request, future, connection, "http://test", 100, is_reused)
    connection.send(b"", exchange)
    for chunk in chunks:
        if not transport.is_ended:
            connection.get_buffer(-1)[: len(chunk)] = chunk
            connection.buffer_updated(len(chunk))
    state = pool.returned, transport.is_ended, exchange.received
    transport.sock.close()
    transport.other.close()
    connection.connection_lost(None)
    try:
        response = await future
        body = response.body if response.stream is None else b"".join([chunk async for chunk in response.stream])
    except Unreachable as error:
        return str(error), error.is_sent, state
    return response.status, body, response.stream is None, list(response.headers), state


def both_fates(chunks: list[bytes], **options: Any) -> tuple[tuple[object, ...], tuple[object, ...]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "read_simple_response", lambda *_: None)
        parsed = run(fate_of(chunks, **options))
    return run(fate_of(chunks, **options)), parsed


def read(data: bytes, most: int = 2000) -> Response | None:
    return read_simple_response(memoryview(bytearray(data + b"old bytes")), len(data), most)


@pytest.mark.parametrize("name", sorted(ALL))
def test_only_simple_responses_bypass_the_parser(name: str):
    assert (read(ALL[name]) is not None) == (name in SEEN_AT_A_GLANCE)


@pytest.mark.parametrize("is_reused", [False, True])
@pytest.mark.parametrize("name", sorted(ALL))
def test_the_parser_reads_the_same(name: str, is_reused: bool):
    chunks = cut(ALL[name], range(1000, 9000, 1000))
    for method in ("GET", "HEAD", "DELETE"):
        for is_stream in (False, True):
            fate, parsed = both_fates(chunks, method=method, is_stream=is_stream, is_reused=is_reused)
            assert fate == parsed


@pytest.mark.parametrize(
    "name", ["plain", "one chunk", "two responses", "chunks and a trailer", "interim", "a warning"]
)
def test_the_parser_reads_the_same_wherever_it_is_cut(name: str):
    data = ALL[name]
    for place in range(1, len(data)):
        fate, parsed = both_fates([data[:place], data[place:]])
        assert fate == parsed
    fate, parsed = both_fates([data[place : place + 1] for place in range(len(data))])
    assert fate == parsed


BYTES = [*(bytes([number]) for number in range(256)), b"\r\n", b"\r\n\r\n", b": ", b"Content-Length: 5\r\n", b"chunked"]


@given(
    name=st.sampled_from(sorted(SEEN_AT_A_GLANCE)),
    changes=st.lists(st.tuples(st.integers(0, 250), st.integers(0, 3), st.sampled_from(BYTES)), max_size=3),
    is_stream=st.booleans(),
)
@example(name="plain", changes=[(170, 0, b"Content-Length: 5\r\n")], is_stream=False)
def test_the_parser_reads_the_same_whatever_is_changed(
    name: str, changes: list[tuple[int, int, bytes]], is_stream: bool
):
    data = SEEN_AT_A_GLANCE[name]
    for place, gone, new in changes:
        data = data[:place] + new + data[place + gone :]
    fate, parsed = both_fates([data[:1024]], is_stream=is_stream)
    assert fate == parsed


def test_simple_and_parsed_responses_alternate_on_one_connection():
    async def fates() -> list[tuple[int, bytes, str | None]]:
        pool, transport = FakePool(), FakeTransport()
        connection = Connection(pool)
        connection.connection_made(transport)
        found: list[tuple[int, bytes, str | None]] = []
        for name in ("plain", "chunks and a trailer", "a warning", "plain", "no content", "a failure", "two responses"):
            future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
            call = Call(method="GET", path="/")
            connection.send(b"", Exchange(call, future, connection, "http://test", 100, is_reused=bool(found)))
            connection.get_buffer(-1)[: len(ALL[name])] = ALL[name]
            connection.buffer_updated(len(ALL[name]))
            response = await future
            found.append((response.status, response.body, response.headers.find("warning")))
        assert (pool.returned, transport.is_ended) == (6, True)
        transport.sock.close()
        transport.other.close()
        return found

    plain = (200, b"hello", None)
    warned = (200, b"hello", '299 - "old"')
    failed = (500, b"hello", None)
    assert run(fates()) == [plain, plain, warned, plain, (204, b"", None), failed, plain]


def test_no_state_of_an_earlier_response_is_left_when_the_connection_closes():
    """A 204 has no length: its state must not turn the end of the connection into a response."""

    async def fates() -> None:
        pool, transport = FakePool(), FakeTransport()
        connection = Connection(pool)
        connection.connection_made(transport)
        for data in (with_fields(status=b"204 No Content", body=b""), b""):
            future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
            call = Call(method="GET", path="/")
            connection.send(b"", Exchange(call, future, connection, "http://test", 100, is_reused=True))
            if data:
                connection.get_buffer(-1)[: len(data)] = data
                connection.buffer_updated(len(data))
                assert (await future).status == 204
        transport.sock.close()
        transport.other.close()
        connection.connection_lost(None)
        await future

    with pytest.raises(Unreachable, match="closed the connection before it responded"):
        run(fates())


# --- headers ----------------------------------------------------------------------------------------------------------


def headers_of(name: str) -> Headers:
    response = read(SEEN_AT_A_GLANCE[name])
    assert response is not None
    assert isinstance(response.headers, LazyHeaders)
    return response.headers


def test_lazy_headers_are_found_at_any_time():
    headers = headers_of("a field twice")
    assert headers.find("warning") is None
    assert headers.find("content-length") == "5"
    assert headers_of("a field twice").get_all("Vary") == ("a", "b", "c")
    assert headers_of("a field twice").get("VARY") == "a, b, c"
    assert headers.get("content-type") == headers.find("content-type") == "d, e"
    assert headers.find("x-one") is None
    assert headers.find("transfer-encoding") is None
    assert headers_of("one chunk").find("transfer-encoding") == "chunked"
    assert headers_of("spaces behind a value").find("x-one") == "a b"


def test_lazy_headers_equal_plain_headers():
    others = Headers([("Date", "now"), ("Content-Length", "5"), ("Retry-After", "5")])
    assert sorted(headers_of("the length in front")) == sorted(others)
    assert repr(headers_of("nothing but a length")) == "Headers(content-length)"
    assert len(headers_of("the length in front")) == 3
    assert "Retry-After" in headers_of("the length in front")
    assert "retry" not in headers_of("the length in front")


def test_lazy_headers_can_be_copied():
    copies = (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)))
    for make in copies:
        found = read_simple_response(
            memoryview(SEEN_AT_A_GLANCE["a field twice"]), len(SEEN_AT_A_GLANCE["a field twice"]), 100
        )
        assert found is not None
        made = make(found.headers)
        assert list(made) == list(found.headers)
        assert (made.find("vary"), made.get_all("Vary")) == ("a, b, c", ("a", "b", "c"))


def test_headers_have_no_other_attributes():
    headers = headers_of("plain")
    with pytest.raises(AttributeError, match="fields"):
        headers.fields  # noqa: B018
    assert not hasattr(headers, "__deepcopy__")


@pytest.mark.parametrize("name", ["", "w", "warning", "\udc80", "transfer-encoding", "upgrade", "proxy-connection"])
def test_headers_that_were_not_sent_are_not_found(name: str):
    assert headers_of("plain").find(name) is headers_of("plain").get(name) is None


def test_a_body_beyond_the_limit_is_left_to_the_parser():
    assert read(PLAIN, most=5) is not None
    assert read(PLAIN, most=4) is None
