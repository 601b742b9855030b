"""Answers that are read without the parser are read as the parser reads them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelset.client.heads import read_plain
from levelset.errors import Unreachable
from tests.aio.clock import run
from tests.client.test_answers import answer_to

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nX-One:  a \r\nContent-Length: 5\r\n\r\nhello"


def read(*pieces: bytes, method: str = "GET") -> object:
    try:
        answer, body, desk = run(answer_to(pieces, method=method))
    except Unreachable as error:
        return str(error)
    return answer.status, list(answer.headers), body, desk.given


def test_a_plain_answer_is_read() -> None:
    found = read_plain(PLAIN)
    assert found is not None
    status, headers, body = found
    assert (status, body) == (200, b"hello")
    assert list(headers) == [("content-type", "text/x"), ("x-one", "a"), ("content-length", "5")]
    assert (headers.get("X-One"), headers.find("x-one"), headers.get_all("x-two")) == ("a", "a", ())


@pytest.mark.parametrize(
    "data",
    [
        PLAIN[:-1],
        PLAIN + b"x",
        PLAIN[:30],
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN.replace(b"200", b"204"),
        PLAIN.replace(b"200 OK", b"101 Switching Protocols"),
        PLAIN.replace(b"X-One:  a ", b"Transfer-Encoding: chunked"),
        PLAIN.replace(b"X-One:  a ", b"Connection: close"),
        PLAIN.replace(b"X-One:  a ", b"Content-Type: again"),
        PLAIN.replace(b"X-One:  a ", b" folded"),
        PLAIN.replace(b"Length: 5", b"Length: 05"),
        PLAIN.replace(b"Content-Length: 5\r\n", b""),
        PLAIN.replace(b"a \r\n", b"a \n"),
    ],
)
def test_anything_else_is_left_to_the_parser(data: bytes) -> None:
    assert read_plain(data) is None


LINES = st.sampled_from(
    [b"X: y", b"X:y ", b"X:", b"X:   ", b" folded", b"bad line", b"X: a\rb", b"Y: a\nB: c", b"\xff: x", b"Z: \xff",
     b"Content-Length: 3", b"content-length: 0", b"Content-Length: 03", b"Content-Length: +3", b"Upgrade: x",
     b"Connection: close", b"Connection: keep-alive", b"Connection: upgrade", b"Transfer-Encoding: chunked"],
)  # fmt: skip


@example([b"Content-Length: 3"], b"\r\n", b"abc", b"HTTP/1.1 200 OK", "HEAD")
@example([b"Content-Length: 3"], b"\r\n", b"abc", b"HTTP/1.1 200 OK", "GET")
@given(
    lines=st.lists(LINES, max_size=4),
    end=st.sampled_from([b"\r\n", b"\n"]),
    body=st.sampled_from([b"", b"abc", b"abcd", b"\r\n\r\n", b"ab"]),
    first=st.sampled_from(
        [b"HTTP/1.1 200 OK", b"HTTP/1.1 409 ", b"HTTP/1.1 204 No", b"HTTP/1.0 200 OK", b"HTTP/1.1 304 N"]
    ),
    method=st.sampled_from(["GET", "HEAD", "PATCH"]),
)
def test_no_answer_reads_differently_from_how_the_parser_reads_it(
    lines: list[bytes], end: bytes, body: bytes, first: bytes, method: str
) -> None:
    data = end.join([first, *lines, b"", b""]) + body
    assert read(data, method=method) == read(data[:1], data[1:], method=method)
