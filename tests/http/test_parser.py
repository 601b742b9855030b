import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.http.limits import Limits
from levelset.http.messages import Request
from levelset.http.parser import Phase, RequestParser

SMALL = Limits(target_bytes=100, head_bytes=1000, header_count=10, body_bytes=1000)


def read(*chunks: bytes, limits: Limits = SMALL) -> RequestParser:
    reader = RequestParser(limits)
    for chunk in chunks:
        reader.feed(chunk)
    return reader


def request_of(reader: RequestParser) -> Request:
    (parsed,) = reader.ready
    assert parsed.request is not None
    return parsed.request


def failure_of(reader: RequestParser) -> int:
    (parsed,) = reader.ready
    assert parsed.failure is not None
    assert reader.is_done
    return parsed.failure.status


def test_a_request_is_parsed_completely():
    request = request_of(read(b"PUT /a%20b?x=1&y HTTP/1.1\r\nHost: h\r\nX-Y:  z \t\r\nContent-Length: 3\r\n\r\nabc"))
    assert (request.method, request.path, request.query, request.body) == ("PUT", "/a%20b", "x=1&y", b"abc")
    assert request.headers.get("x-y") == "z"


def test_a_request_may_arrive_byte_by_byte():
    data = b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert request_of(read(*(data[i : i + 1] for i in range(len(data))))).body == b"abcde"


def test_a_head_that_is_too_long_is_refused_before_its_end_also_if_it_arrives_at_once():
    head = b"GET /a HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 2000
    assert failure_of(read(head)) == 431
    assert failure_of(read(b"\r\n" * 2000 + head)) == 431
    assert failure_of(read(*(head[i : i + 1] for i in range(len(head))))) == 431
    long_target = b"GET /" + b"a" * 99 + b" HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 950
    assert request_of(read(b"\r\n" * 2000 + long_target, b"\r\n\r\n")).headers.get("x") == "x" * 950


def test_trailers_do_not_become_headers():
    request = request_of(
        read(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer x\r\n\r\n")
    )
    assert request.headers.get("authorization") is None


def test_pipelined_requests_are_parsed_in_order():
    reader = read(b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3")
    assert [parsed.request.path for parsed in reader.ready if parsed.request] == ["/1", "/2"]
    assert reader.phase is Phase.HEAD


def test_bytes_after_connection_close_are_ignored():
    reader = read(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")
    assert request_of(reader).path == "/"
    assert reader.is_done


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://host:80/a/b?c", "/a/b", "c"),
        (b"http://host", "/", ""),
        (b"*", "*", ""),
        (b"/a#b", "/a", ""),
        (b"/a?b?c", "/a", "b?c"),
        (b"//x//y", "//x//y", ""),
    ],
)
def test_a_target_is_reduced_to_path_and_query(target: bytes, path: str, query: str):
    request = request_of(read(b"OPTIONS " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n"))
    assert (request.path, request.query) == (path, query)


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (400, b"nonsense\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc"),
        (405, b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
        (413, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n"),
        (413, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"a" * 1001),
        (414, b"GET /" + b"a" * 100 + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
        (417, b"POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 1000 + b"\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 10 + b"\r\n"),
        (501, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        (505, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    ],
)
def test_an_invalid_request_is_refused(status: int, data: bytes):
    assert failure_of(read(data)) == status


def test_an_endless_header_is_refused_before_it_fills_the_memory():
    reader = read(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
    for _ in range(100):
        reader.feed(b"a" * 100)
    assert failure_of(reader) == 431


def test_an_endless_trailer_is_refused():
    reader = read(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ")
    for _ in range(100):
        reader.feed(b"a" * 100)
    assert failure_of(reader) == 400


def test_a_long_body_in_small_chunks_is_accepted():
    reader = read(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(900):
        reader.feed(b"1\r\na\r\n")
    reader.feed(b"0\r\n\r\n")
    assert request_of(reader).body == b"a" * 900


def test_a_body_of_exactly_the_limit_is_read():
    data = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + b"a" * 1000
    assert len(request_of(read(data)).body) == 1000


def test_http_1_0_needs_no_host_and_does_not_keep_the_connection():
    (parsed,) = read(b"GET / HTTP/1.0\r\n\r\n").ready
    assert parsed.request is not None
    assert parsed.is_old
    assert not parsed.keep_alive


def test_http_1_0_with_keep_alive_keeps_the_connection():
    (parsed,) = read(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").ready
    assert parsed.is_old
    assert parsed.keep_alive


def test_expect_100_continue_is_recognised():
    reader = read(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n")
    assert reader.continue_due
    reader.feed(b"a")
    assert not reader.continue_due
    assert request_of(reader).body == b"a"


UPGRADE = b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"


def test_bytes_behind_an_upgrade_are_held():
    reader = read(UPGRADE + b"\x81\x01", b"\x02")
    assert reader.ready.popleft().is_upgrade
    assert reader.is_holding
    assert reader.take_rest() == b"\x81\x01\x02"


def test_an_upgrade_that_is_not_accepted_continues_with_http():
    reader = read(UPGRADE + b"GET /2 HTTP/1.1\r\n", b"Host: a\r\n\r\n")
    reader.ready.popleft()
    reader.release()
    assert request_of(reader).path == "/2"
    assert not reader.is_holding


WORDS = [
    b"GET ", b"POST ", b"/", b" HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n", b"Content-Length: ", b"5", b"Connection: ",
    b"close", b"upgrade\r\n", b"Upgrade: x\r\n", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"\x00", b"\xff",
    b":", b"Expect: 100-continue\r\n", b"a" * 200,
]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.binary(max_size=8)), max_size=30), st.integers(1, 50))
def test_arbitrary_bytes_do_not_break_the_parser(words: list[bytes], size: int):
    data = b"".join(words)
    reader = read(*(data[i : i + size] for i in range(0, len(data), size)))
    for parsed in reader.ready:
        assert (parsed.request is None) is not (parsed.failure is None)
        if parsed.request is not None:
            assert len(parsed.request.body) <= SMALL.body_bytes
