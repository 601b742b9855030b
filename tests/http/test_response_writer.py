import pytest

from levelset.http.response_writer import HeadWriter, encode_head, frame_chunk, has_no_body


def test_a_head_has_status_headers_date_and_framing():
    head = HeadWriter().write(404, (("Content-Type", "text/plain"),), b"Content-Length: 2\r\n")
    lines = head.decode().split("\r\n")
    assert lines[:2] == ["HTTP/1.1 404 Not Found", "Content-Type: text/plain"]
    assert lines[2].startswith("Date: ")
    assert lines[2].endswith(" GMT")
    assert lines[3:] == ["Content-Length: 2", "", ""]


def test_framing_headers_are_set_by_the_server_only():
    assert (
        encode_head(200, [("content-length", "9"), ("Connection", "x"), ("A", "b")]) == b"HTTP/1.1 200 OK\r\nA: b\r\n"
    )


def test_an_upgrade_keeps_its_connection_header():
    assert b"Connection: Upgrade\r\n" in encode_head(101, [("Connection", "Upgrade")])


@pytest.mark.parametrize(
    "header", [("A", "b\r\nC: d"), ("A", "b\0"), ("A\n", "b"), ("", "b"), ("A B", "c"), ("A", "\u20ac")]
)
def test_a_header_cannot_break_out_of_its_line(header: tuple[str, str]):
    with pytest.raises(ValueError, match=r".+"):
        encode_head(200, [header])


def test_an_unregistered_status_has_no_reason_phrase():
    assert encode_head(299, []) == b"HTTP/1.1 299 \r\n"


def test_a_status_of_four_digits_is_refused():
    with pytest.raises(ValueError, match="between 100 and 999"):
        encode_head(1000, [])


def test_the_cache_of_response_heads_is_bounded():
    writer = HeadWriter()
    for number in range(5000):
        writer.write(200, (("ETag", str(number)),), b"")
    assert len(writer._cached_heads) <= 1024


def test_a_chunk_contains_all_parts_and_is_never_empty():
    assert frame_chunk([b"abc", b"", b"0123456789abc"]) == b"10\r\nabc0123456789abc\r\n"
    assert frame_chunk([b""]) == b""


def test_some_responses_have_no_body():
    assert has_no_body("HEAD", 200)
    assert has_no_body("GET", 204)
    assert has_no_body("GET", 304)
    assert not has_no_body("GET", 200)
