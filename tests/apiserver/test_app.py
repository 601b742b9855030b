import gzip
import json
import logging
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from levelset.apiserver.app import App, Page
from levelset.apiserver.authn.authenticator import Access, Caller
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import World
from levelset.http import Headers, Request, Response
from levelset.storage import MemoryStorage

CONFIGMAPS = "/api/v1/namespaces/x/configmaps"


def make(*pages: Page, access: Access | None = None) -> tuple[App, World]:
    world = World(MemoryStorage(), Catalog(builtin_kinds()), access=access)
    return App(world, pages=pages), world


def put(world: World, name: str, data: str = "v") -> None:
    metadata = f'{{"name":"{name}","namespace":"x","labels":{{"l":"{name}"}}}}'
    value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"k":"{data}"}}}}'
    assert isinstance(world.storage, MemoryStorage)
    world.storage.put_nowait(f"/registry/core/configmaps/x/{name}", value.encode(), expected=0)


def get(app: App, path: str, query: str = "", **headers: str) -> Response:
    named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    answer = app.handle(Request("GET", path, query, named))
    assert isinstance(answer, Response)  # what is in memory is answered at once
    return answer


async def send(app: App, method: str, path: str, body: Any = None, query: str = "") -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    answer = app.handle(Request(method, path, query, body=data))
    return await answer if isinstance(answer, Awaitable) else answer


def tree(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def header(response: Response, name: str) -> str | None:
    return next((value for key, value in response.headers if key == name), None)


def test_an_object_is_answered_at_once_and_not_to_be_cached() -> None:
    app, world = make()
    put(world, "a")
    response = get(app, f"{CONFIGMAPS}/a")
    assert (response.status, tree(response)["metadata"]["resourceVersion"]) == (200, "1")
    assert header(response, "Cache-Control") == "no-cache, private"
    assert header(response, "Content-Type") == "application/json"


def test_every_answer_has_an_audit_id_of_its_own() -> None:
    app, _ = make()
    found = {header(get(app, path), "Audit-Id") for path in ("/", "/api/v1/pods", "/api/v1/pods", "/nothing")}
    assert len(found) == 4
    assert None not in found


def test_a_missing_object_is_not_found() -> None:
    app, _ = make()
    response = get(app, f"{CONFIGMAPS}/none")
    assert (response.status, tree(response)["details"]) == (404, {"name": "none", "kind": "configmaps"})


def test_an_unknown_resource_of_a_known_version_is_a_status_and_any_other_path_is_text() -> None:
    app, _ = make()
    assert tree(get(app, "/api/v1/namespaces/x/nothings"))["reason"] == "NotFound"
    assert get(app, "/apis/example.com/v1/nothings").body == b"404 page not found\n"
    assert get(app, "/nothing").body == b"404 page not found\n"


def test_pages_are_asked_for_paths_of_no_resource() -> None:
    app, _ = make(
        lambda request: None, lambda request: Response(200, (("Cache-Control", "public"),), request.path.encode())
    )
    response = get(app, "/version")
    assert (response.body, header(response, "Cache-Control")) == (b"/version", "public")


def test_a_caller_who_is_not_known_gets_nothing() -> None:
    app, world = make(access=Access(["secret"]))
    put(world, "a")
    assert get(app, f"{CONFIGMAPS}/a").status == 401
    assert get(app, f"{CONFIGMAPS}/a", authorization="Bearer wrong").status == 401
    assert get(app, f"{CONFIGMAPS}/a", authorization="Bearer secret").status == 200


def test_a_caller_who_is_known_but_not_the_owner_may_only_look_around() -> None:
    app, _ = make(lambda request: Response(200), access=Access({"t": Caller("bob")}))
    response = get(app, f"{CONFIGMAPS}/a", authorization="Bearer t")
    assert (response.status, tree(response)["details"]) == (403, {"name": "a", "kind": "configmaps"})
    expected = 'configmaps "a" is forbidden: User "bob" cannot get resource "configmaps" in API group ""'
    assert tree(response)["message"] == f'{expected} in the namespace "x"'
    assert "cannot watch" in tree(get(app, "/api/v1/pods", "watch=1", authorization="Bearer t"))["message"]
    assert get(app, "/apis", authorization="Bearer t").status == 200
    answer = app.handle(Request("POST", "/levelset/compact", headers=Headers({"Authorization": "Bearer t"})))
    assert isinstance(answer, Response)
    assert answer.status == 403


def test_an_unforeseen_error_is_logged_and_never_told(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Request) -> Response:
        raise KeyError("a secret of the implementation")

    app, _ = make(fail)
    with caplog.at_level(logging.ERROR):
        response = get(app, "/version")
    assert (response.status, tree(response)["reason"]) == (500, "InternalError")
    assert b"secret" not in bytes(tree(response)["message"], "utf-8")
    assert header(response, "Audit-Id") in tree(response)["message"]
    assert caplog.records[0].__dict__["audit_id"] == header(response, "Audit-Id")


async def test_an_unforeseen_error_while_waiting_is_treated_alike(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> Response:
        raise KeyError("x")

    app, _ = make(lambda request: fail())
    with caplog.at_level(logging.CRITICAL):
        assert (await send(app, "GET", "/version")).status == 500


@pytest.mark.parametrize("text", ["abc", "5", "s", "1s2", "-1s", "1s "])
def test_a_timeout_that_is_none_is_a_bad_request(text: str) -> None:
    app, _ = make()
    assert get(app, CONFIGMAPS, f"timeout={text}").status == 400


@pytest.mark.parametrize("text", ["1" * 30_000, "1s" + "1" * 30_000, "." * 30_000, "1." * 15_000])
def test_a_timeout_that_is_none_is_found_out_at_once(text: str) -> None:
    app, _ = make()
    start = time.process_time()
    assert get(app, CONFIGMAPS, f"timeout={text}").status == 400
    assert time.process_time() - start < 1


@pytest.mark.parametrize("text", ["5s", "1m30s", "1.5h", "0", "100ms", ""])
def test_a_timeout_is_a_duration(text: str) -> None:
    app, _ = make()
    assert get(app, CONFIGMAPS, f"timeout={text}").status == 200


def test_a_large_answer_is_packed_for_those_who_can_unpack_it() -> None:
    app, world = make()
    put(world, "a", "x" * 200_000)
    plain, packed = get(app, f"{CONFIGMAPS}/a"), get(app, f"{CONFIGMAPS}/a", accept_encoding="br, gzip;q=0.8")
    assert isinstance(packed.body, bytes)
    assert header(packed, "Content-Encoding") == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < 10_000


def test_a_small_answer_is_not_packed() -> None:
    app, world = make()
    put(world, "a")
    assert header(get(app, f"{CONFIGMAPS}/a", accept_encoding="gzip"), "Content-Encoding") is None


async def test_a_huge_answer_is_packed_aside() -> None:
    app, world = make()
    put(world, "a", "x" * 1_200_000)
    answer = app.handle(Request("GET", f"{CONFIGMAPS}/a", headers=Headers({"Accept-Encoding": "gzip"})))
    assert not isinstance(answer, Response)
    assert header(await answer, "Content-Encoding") == "gzip"


async def test_a_body_of_more_than_three_mebibytes_is_too_large() -> None:
    app, _ = make()
    answer = app.handle(Request("POST", CONFIGMAPS, body=b"x" * (3 * 1024 * 1024 + 1)))
    assert isinstance(answer, Response)
    assert (answer.status, tree(answer)["reason"]) == (413, "RequestEntityTooLarge")


def test_a_deprecated_version_says_so_in_every_answer() -> None:
    app, world = make()
    served = world.catalog.find("", "v1", "configmaps")
    assert served is not None
    world.catalog.change(remove=[served], add=[replace(served, deprecation='use "v2"')])
    assert header(get(app, CONFIGMAPS), "Warning") == '299 - "use \\"v2\\""'


def test_a_path_that_was_asked_for_before_is_answered_from_the_catalog_of_now() -> None:
    app, world = make()
    put(world, "a")
    served = world.catalog.find("", "v1", "configmaps")
    assert served is not None
    found = [get(app, f"{CONFIGMAPS}/a").status]
    world.catalog.change(remove=[served])
    found.append(get(app, f"{CONFIGMAPS}/a").status)
    world.catalog.change(add=[replace(served, deprecation="old")])
    assert [*found, header(get(app, f"{CONFIGMAPS}/a"), "Warning")] == [200, 404, '299 - "old"']


def test_a_list_after_a_watch_of_the_same_path_is_a_list() -> None:
    app, world = make()
    put(world, "a")
    bodies = [get(app, CONFIGMAPS, query).body for query in ("watch=1", "", "watch=false", "watch=1")]
    assert [isinstance(body, bytes) for body in bodies] == [False, True, True, False]
