import pytest

from levelset.apiserver.wire.document_cache import (
    Document,
    DocumentCache,
    check_read_method,
    make_document,
)
from levelset.errors import ApiError
from levelset.http import Headers, Request


def request(**headers: str) -> Request:
    return Request("GET", "/", "", Headers({name.replace("_", "-"): value for name, value in headers.items()}))


def test_a_document_has_an_etag() -> None:
    document = make_document(b"{}")
    response = document.respond(request(), vary="Accept", cache="public")
    headers = dict(response.headers)
    assert (response.status, response.body) == (200, b"{}")
    assert headers["ETag"] == f'"{document.digest}"'
    assert (headers["Content-Type"], headers["Vary"], headers["Cache-Control"]) == (
        "application/json",
        "Accept",
        "public",
    )


@pytest.mark.parametrize("etag", ['"A"', '"B", "A"', 'W/"A"', "*"])
def test_a_matching_etag_gets_304_without_a_body(etag: str) -> None:
    response = Document(b"{}", "A").respond(request(if_none_match=etag))
    assert (response.status, response.body) == (304, b"")


@pytest.mark.parametrize("etag", ['"B"', "A", ""])
def test_another_etag_gets_the_document(etag: str) -> None:
    assert Document(b"{}", "A").respond(request(if_none_match=etag)).status == 200


def test_a_document_is_encoded_once_per_generation() -> None:
    generation, made = 1, list[int]()

    def make() -> object:
        made.append(generation)
        return {"n": generation}

    cache = DocumentCache(lambda: generation)
    assert cache.get("a", make) is cache.get("a", make)
    generation = 2
    assert cache.get("a", make).body == b'{"n":2}\n'
    assert made == [1, 2]


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
def test_documents_support_only_get_and_head(method: str) -> None:
    check_read_method(request())
    with pytest.raises(ApiError) as caught:
        check_read_method(Request(method, "/api"))
    assert caught.value.code == 405
