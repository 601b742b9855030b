import pytest

from levelset.apiserver.wire.document_cache import Document, DocumentCache, accepts, check_reading, make_document
from levelset.errors import ApiError
from levelset.http import Headers, Request


def asked(**headers: str) -> Request:
    return Request("GET", "/", "", Headers({name.replace("_", "-"): value for name, value in headers.items()}))


def test_a_document_comes_with_its_tag() -> None:
    document = make_document(b"{}")
    response = document.respond(asked(), vary="Accept", cache="public")
    headers = dict(response.headers)
    assert (response.status, response.body) == (200, b"{}")
    assert headers["ETag"] == f'"{document.digest}"'
    assert (headers["Content-Type"], headers["Vary"], headers["Cache-Control"]) == (
        "application/json",
        "Accept",
        "public",
    )


@pytest.mark.parametrize("known", ['"A"', '"B", "A"', 'W/"A"', "*"])
def test_who_has_it_already_gets_no_body(known: str) -> None:
    response = Document(b"{}", "A").respond(asked(if_none_match=known))
    assert (response.status, response.body) == (304, b"")


@pytest.mark.parametrize("known", ['"B"', "A", ""])
def test_who_has_another_one_gets_it(known: str) -> None:
    assert Document(b"{}", "A").respond(asked(if_none_match=known)).status == 200


def test_documents_are_made_once_for_each_generation() -> None:
    generation, made = 1, list[int]()

    def make() -> object:
        made.append(generation)
        return {"n": generation}

    cache = DocumentCache(lambda: generation)
    assert cache.get("a", make) is cache.get("a", make)
    generation = 2
    assert cache.get("a", make).body == b'{"n":2}'
    assert made == [1, 2]


def test_clauses_are_read_in_the_order_of_their_quality() -> None:
    header = 'text/html;q=0.2, application/json;as=Table;v="v1" ,*/*;q=0.1,odd;q=x'
    assert [media for media, _ in accepts(header)] == ["application/json", "text/html", "*/*", "odd"]
    assert next(iter(accepts(header)))[1] == {"as": "Table", "v": "v1"}


@pytest.mark.parametrize("header", [None, "", " "])
def test_who_says_nothing_takes_anything(header: str | None) -> None:
    assert list(accepts(header)) in ([("*/*", {})], [])


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
def test_documents_are_only_read(method: str) -> None:
    check_reading(asked())
    with pytest.raises(ApiError) as caught:
        check_reading(Request(method, "/api"))
    assert caught.value.code == 405
