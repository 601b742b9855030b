import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.http.limits import Limits
from levelset.http.messages import Peer, Request
from levelset.http.parser import HeaderCache, RequestParser

LIMITS = Limits(target_bytes=40)
GET = b"GET /a?b=c HTTP/1.1\r\nHost: h\r\nX-Y: z\r\n\r\n"
PUT = b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"


def read(data: bytes, known: HeaderCache | None = None) -> list[object]:
    """The requests that a new connection parses from the data."""
    reader = RequestParser(LIMITS, None, known)
    reader.feed(data)
    return [
        (fields_of(parsed.request), parsed.failure, parsed.keep_alive, parsed.is_old, parsed.is_upgrade)
        for parsed in reader.ready
    ]


def fields_of(request: Request | None) -> object:
    if request is None:
        return None
    return (request.method, request.path, request.query, list(request.headers), request.body, request.peer)


def knowing(data: bytes) -> HeaderCache:
    known = HeaderCache(LIMITS)
    read(data, known)
    return known


@pytest.mark.parametrize("data", [GET, PUT, GET.replace(b"X-Y: z", b"Connection: Keep-Alive")])
def test_a_request_with_cached_headers_is_recognised(data):
    known = knowing(data)
    found = known.find(data, Peer("eve"))
    assert found is not None
    assert found.peer == Peer("eve")
    assert read(data, known) == read(data)


def test_another_target_another_method_and_another_body_make_no_difference():
    known = knowing(PUT)
    data = PUT.replace(b"PUT /a", b"POST /other?x=%20").replace(b"abc", b"\r\n\r")
    assert known.find(data, None) is not None
    assert read(data, known) == read(data)


@pytest.mark.parametrize(
    "data",
    [
        GET.replace(b"HTTP/1.1", b"HTTP/1.0"),
        GET.replace(b"X-Y: z", b"Connection: close"),
        GET.replace(b"X-Y: z", b"Connection: upgrade\r\nUpgrade: websocket"),
        PUT.replace(b"Content-Length: 3", b"Expect: 100-continue\r\nContent-Length: 3"),
        b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        GET.replace(b"X-Y: z", b"X-Y: " + b"z" * 3000),
        GET.replace(b"X-Y: z", b"X-Y: a\nX-Z: z"),
        b"\r\n" + GET,
        GET + GET,
    ],
)
def test_unusual_requests_are_left_to_the_parser(data):
    known = knowing(data)
    assert known.find(data, None) is None
    assert read(data, known) == read(data)


@pytest.mark.parametrize(
    "data",
    [
        PUT[:-1],
        PUT + b"x",
        PUT[:20],
        PUT.replace(b"/a", b"/" + b"a" * 50),
        PUT.replace(b"/a", b"/a#b"),
        PUT.replace(b"/a", b"a"),
        PUT.replace(b"/a", b"/\xff"),
        PUT.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PUT.replace(b"PUT", b"CONNECT"),
        PUT.replace(b"Host", b"host"),
    ],
)
def test_a_request_with_other_headers_is_not_found(data):
    known = knowing(PUT)
    assert known.find(data, None) is None
    assert read(data, known) == read(data)


def test_the_header_cache_is_bounded():
    known = HeaderCache(LIMITS)
    for number in range(3_000):
        read(GET.replace(b"X-Y: z", b"X-Y: %d" % number), known)
    assert len(known._blocks) <= 2_048
    assert known.find(GET.replace(b"X-Y: z", b"X-Y: 2999"), None) is not None


LINES = st.sampled_from(
    [b"Host: h", b"Host:h ", b"X: y", b"X:", b" folded", b"Upgrade: x", b"X: a\rb", b"bad line", b"Accept: a\nB: c",
     b"Content-Length: 3", b"Content-Length: 03",
     b"Connection: close", b"Connection: keep-alive", b"Transfer-Encoding: chunked", b"Expect: 100-continue"],
)  # fmt: skip


@given(
    st.lists(LINES, max_size=4),
    st.sampled_from([b"\r\n", b"\n"]),
    st.sampled_from([b"", b"abc", b"abcd", b"\r\n\r\n", b"ab"]),
    st.sampled_from(
        [b"GET / HTTP/1.1", b"POST /x?y HTTP/1.1", b"PUT /a b HTTP/1.1", b"GET / HTTP/1.0", b"HEAD / HTTP/1.1"]
    ),
)
def test_the_header_cache_never_changes_the_result(lines, end, body, first):
    data = end.join([first, *lines, b"", b""]) + body
    known = knowing(data)
    assert read(data, known) == read(data)
