import pytest

from levelset.client.transport.http1 import RequestWriter
from levelset.client.transport.interface import Call
from levelset.errors import ConfigError

WRITER = RequestWriter("kube:6443", fixed=[("User-Agent", "levelset"), ("Accept", "application/json")])


def test_a_request_is_written_in_full():
    call = Call(method="GET", path="/api/v1/pods", query="limit=5", headers={"Accept": "text/plain"})
    assert WRITER.write(call, {"Authorization": "Bearer x"}) == (
        b"GET /api/v1/pods?limit=5 HTTP/1.1\r\nHost: kube:6443\r\nUser-Agent: levelset\r\n"
        b"Authorization: Bearer x\r\nAccept: text/plain\r\n\r\n"
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_write_has_a_content_length_even_without_a_body(method: str):
    assert WRITER.write(Call(method=method, path="/"), {}).endswith(b"Content-Length: 0\r\n\r\n")
    assert WRITER.write(Call(method=method, path="/", body=b"abc"), {}).endswith(b"Content-Length: 3\r\n\r\nabc")


def test_a_delete_has_a_body_only_if_there_is_one():
    assert b"Content-Length" not in WRITER.write(Call(method="DELETE", path="/"), {})
    assert WRITER.write(Call(method="DELETE", path="/", body=b"{}"), {}).endswith(b"Content-Length: 2\r\n\r\n{}")


def test_the_path_of_the_server_url_is_a_prefix_of_every_path():
    writer = RequestWriter("rancher", path="/k8s/clusters/c-1")
    assert writer.write(Call(method="GET", path="/api"), {}).startswith(b"GET /k8s/clusters/c-1/api HTTP/1.1\r\n")


def test_a_header_of_the_call_replaces_a_credential_and_a_fixed_one():
    call = Call(method="GET", path="/", headers={"user-agent": "me", "authorization": "mine"})
    written = WRITER.write(call, {"Authorization": "theirs"})
    assert b"user-agent: me\r\nauthorization: mine\r\n" in written
    assert b"theirs" not in written
    assert b"User-Agent" not in written


def test_a_fixed_header_may_be_repeated():
    writer = RequestWriter("kube", fixed=[("Impersonate-Group", "a"), ("Impersonate-Group", "b")])
    assert b"Impersonate-Group: a\r\nImpersonate-Group: b\r\n" in writer.write(Call(method="GET", path="/"), {})


@pytest.mark.parametrize("path", ["", "api", "/a b", "/a\r\nX: y", "/\N{SNOWMAN}", "/a\0", "/\x7f"])
def test_a_path_that_would_break_the_message_is_refused(path: str):
    with pytest.raises(ConfigError, match="not percent-encoded"):
        WRITER.write(Call(method="GET", path=path), {})


def test_a_query_or_a_method_that_would_break_the_message_is_refused():
    for call in (Call(method="GET", path="/", query="a=b c"), Call(method="GET / HTTP/1.1\r\nX:", path="/")):
        with pytest.raises(ConfigError, match="cannot be sent"):
            WRITER.write(call, {})


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0", "\N{SNOWMAN}"])
def test_a_header_that_would_break_the_message_is_refused_without_showing_its_value(value: str):
    with pytest.raises(ConfigError, match="Authorization") as caught:
        WRITER.write(Call(method="GET", path="/"), {"Authorization": value})
    assert value not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\n"])
def test_a_header_needs_a_name(name: str):
    with pytest.raises(ConfigError, match="name of a header"):
        WRITER.write(Call(method="GET", path="/", headers={name: "x"}), {})


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "Expect"])
def test_framing_headers_cannot_be_set_by_the_caller(name: str):
    with pytest.raises(ConfigError, match="set by the transport"):
        WRITER.write(Call(method="POST", path="/", headers={name: "5"}), {})


def test_the_cache_of_header_lines_is_bounded():
    writer = RequestWriter("kube")
    for number in range(1000):
        call = Call(method="GET", path="/", headers={"X": str(number)})
        assert b"X: %d\r\n" % number in writer.write(call, {})
    assert len(writer._cached_lines) <= 256
