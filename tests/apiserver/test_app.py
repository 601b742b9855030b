import gzip
import json
import logging
import time
from collections.abc import Awaitable
from typing import Any

import pytest
from msgspec.structs import replace

from levelset.apiserver.app import App, Page
from levelset.apiserver.authn.authenticator import Authenticator, User
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import ServerState
from levelset.http import Headers, Request, Response
from levelset.storage import MemoryStorage

CONFIGMAPS = "/api/v1/namespaces/x/configmaps"


def make(*pages: Page, authenticator: Authenticator | None = None) -> tuple[App, ServerState]:
    state = ServerState(MemoryStorage(), Catalog(builtin_kinds()), authenticator=authenticator)
    return App(state, pages=pages), state


def put(state: ServerState, name: str, data: str = "v") -> None:
    metadata = f'{{"name":"{name}","namespace":"x","labels":{{"l":"{name}"}}}}'
    value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"k":"{data}"}}}}'
    assert isinstance(state.storage, MemoryStorage)
    state.storage.put_nowait(f"/registry/core/configmaps/x/{name}", value.encode(), expected=0)


def get(app: App, path: str, query: str = "", **headers: str) -> Response:
    named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    result = app.handle(Request("GET", path, query, named))
    assert isinstance(result, Response)  # an object in memory needs no waiting
    return result


async def send(app: App, method: str, path: str, body: Any = None, query: str = "") -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    result = app.handle(Request(method, path, query, body=data))
    return await result if isinstance(result, Awaitable) else result


def tree(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def header(response: Response, name: str) -> str | None:
    return next((value for key, value in response.headers if key == name), None)


def test_an_object_in_memory_is_returned_without_waiting_and_must_not_be_cached() -> None:
    app, state = make()
    put(state, "a")
    response = get(app, f"{CONFIGMAPS}/a")
    assert (response.status, tree(response)["metadata"]["resourceVersion"]) == (200, "1")
    assert header(response, "Cache-Control") == "no-cache, private"
    assert header(response, "Content-Type") == "application/json"


def test_every_response_has_its_own_audit_id() -> None:
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


def test_non_resource_paths_are_served_by_pages() -> None:
    app, _ = make(
        lambda request: None, lambda request: Response(200, (("Cache-Control", "public"),), request.path.encode())
    )
    response = get(app, "/version")
    assert (response.body, header(response, "Cache-Control")) == (b"/version", "public")


def test_an_unauthenticated_request_is_rejected() -> None:
    app, state = make(authenticator=Authenticator(["secret"]))
    put(state, "a")
    assert get(app, f"{CONFIGMAPS}/a").status == 401
    assert get(app, f"{CONFIGMAPS}/a", authorization="Bearer wrong").status == 401
    assert get(app, f"{CONFIGMAPS}/a", authorization="Bearer secret").status == 200


def test_without_rbac_a_user_other_than_the_owner_may_only_read_non_resource_paths() -> None:
    app, _ = make(lambda request: Response(200), authenticator=Authenticator({"t": User("bob")}))
    response = get(app, f"{CONFIGMAPS}/a", authorization="Bearer t")
    assert (response.status, tree(response)["details"]) == (403, {"name": "a", "kind": "configmaps"})
    expected = 'configmaps "a" is forbidden: User "bob" cannot get resource "configmaps" in API group ""'
    assert tree(response)["message"] == f'{expected} in the namespace "x"'
    assert "cannot watch" in tree(get(app, "/api/v1/pods", "watch=1", authorization="Bearer t"))["message"]
    assert get(app, "/apis", authorization="Bearer t").status == 200
    result = app.handle(Request("POST", "/levelset/compact", headers=Headers({"Authorization": "Bearer t"})))
    assert isinstance(result, Response)
    assert result.status == 403


def test_an_unexpected_error_is_logged_and_hidden_from_the_client(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Request) -> Response:
        raise KeyError("a secret of the implementation")

    app, _ = make(fail)
    with caplog.at_level(logging.ERROR):
        response = get(app, "/version")
    assert (response.status, tree(response)["reason"]) == (500, "InternalError")
    assert b"secret" not in bytes(tree(response)["message"], "utf-8")
    assert header(response, "Audit-Id") in tree(response)["message"]
    assert caplog.records[0].__dict__["audit_id"] == header(response, "Audit-Id")


async def test_an_unexpected_error_of_an_awaited_response_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> Response:
        raise KeyError("x")

    app, _ = make(lambda request: fail())
    with caplog.at_level(logging.CRITICAL):
        assert (await send(app, "GET", "/version")).status == 500


@pytest.mark.parametrize("text", ["abc", "5", "s", "1s2", "-", "1s "])
def test_an_invalid_timeout_is_a_bad_request(text: str) -> None:
    app, _ = make()
    assert get(app, CONFIGMAPS, f"timeout={text}").status == 400


@pytest.mark.parametrize("text", ["1" * 30_000, "1s" + "1" * 30_000, "." * 30_000, "1." * 15_000])
def test_an_invalid_timeout_is_rejected_in_linear_time(text: str) -> None:
    app, _ = make()
    start = time.process_time()
    assert get(app, CONFIGMAPS, f"timeout={text}").status == 400
    assert time.process_time() - start < 1


@pytest.mark.parametrize("text", ["5s", "1m30s", "1.5h", "0", "100ms", "-1s", ""])
def test_a_timeout_is_a_duration(text: str) -> None:
    app, _ = make()
    assert get(app, CONFIGMAPS, f"timeout={text}").status == 200


def test_a_large_response_is_compressed_if_the_client_accepts_gzip() -> None:
    app, state = make()
    put(state, "a", "x" * 200_000)
    plain, packed = get(app, f"{CONFIGMAPS}/a"), get(app, f"{CONFIGMAPS}/a", accept_encoding="br, gzip;q=0.8")
    assert isinstance(packed.body, bytes)
    assert header(packed, "Content-Encoding") == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < 10_000


def test_a_small_response_is_not_compressed() -> None:
    app, state = make()
    put(state, "a")
    assert header(get(app, f"{CONFIGMAPS}/a", accept_encoding="gzip"), "Content-Encoding") is None


async def test_a_huge_response_is_compressed_in_a_thread() -> None:
    app, state = make()
    put(state, "a", "x" * 1_200_000)
    result = app.handle(Request("GET", f"{CONFIGMAPS}/a", headers=Headers({"Accept-Encoding": "gzip"})))
    assert not isinstance(result, Response)
    assert header(await result, "Content-Encoding") == "gzip"


async def test_a_body_of_more_than_three_mebibytes_is_too_large() -> None:
    app, _ = make()
    result = app.handle(Request("POST", CONFIGMAPS, body=b"x" * (3 * 1024 * 1024 + 1)))
    assert isinstance(result, Response)
    assert (result.status, tree(result)["reason"]) == (413, "RequestEntityTooLarge")


def test_every_response_of_a_deprecated_version_has_a_warning() -> None:
    app, state = make()
    served = state.catalog.find("", "v1", "configmaps")
    assert served is not None
    state.catalog.change(remove=[served], add=[replace(served, deprecation='use "v2"')])
    assert header(get(app, CONFIGMAPS), "Warning") == '299 - "use \\"v2\\""'


def test_a_cached_route_is_dropped_when_the_catalog_changes() -> None:
    app, state = make()
    put(state, "a")
    served = state.catalog.find("", "v1", "configmaps")
    assert served is not None
    found = [get(app, f"{CONFIGMAPS}/a").status]
    state.catalog.change(remove=[served])
    found.append(get(app, f"{CONFIGMAPS}/a").status)
    state.catalog.change(add=[replace(served, deprecation="old")])
    assert [*found, header(get(app, f"{CONFIGMAPS}/a"), "Warning")] == [200, 404, '299 - "old"']


def test_a_list_after_a_watch_of_the_same_path_is_a_list() -> None:
    app, state = make()
    put(state, "a")
    bodies = [get(app, CONFIGMAPS, query).body for query in ("watch=1", "", "watch=false", "watch=1")]
    assert [isinstance(body, bytes) for body in bodies] == [False, True, True, False]
