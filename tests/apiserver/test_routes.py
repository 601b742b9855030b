import json
from collections.abc import Awaitable
from typing import Any

import pytest

from levelset.apiserver.app import App
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.routes import Route, RouteCache
from levelset.apiserver.schema import preload
from levelset.apiserver.wire.request_paths import parse_request_path
from levelset.http import Headers, Request, Response
from levelset.patch import builtin_shape
from levelset.storage import MemoryStorage

SERVED = next(iter(builtin_kinds()))
PATHS = [
    "/api/v1/namespaces/x/configmaps/a",
    "/api/v1/namespaces/x/pods/a/status",
    "/api/v1/namespaces/x",
    "/api/v1/namespaces/x/status",
    "/api/v1/namespaces/x/finalize",
    "/api/v1/nodes/a",
    "/api/v1/nodes/a/status",
    "/api/v1/namespaces/x/configmaps",
    "/api/v1/watch/namespaces/x/configmaps/a",
    "/apis/apps/v1/namespaces/x/deployments/a",
    "/apis/apps/v1/namespaces/x/deployments/a/scale",
    "/apis/apps/v1/namespaces/x/deployments/a/status",
    "/apis/example.com/v1/namespaces/x/y",
    "/api/v1/namespaces/%78/configmaps/a",
    "/api/v1/namespaces/x/configmaps/a%20b",
    "/api/v1/namespaces/x/configmaps/a/",
    "//api/v1/nodes/a",
]
NAMES = ["a", "b", "status", "finalize", "watch", "namespaces", "scale", "a.b", "configmaps"]


def add_route(routes: RouteCache, path: str, method: str = "GET") -> None:
    parsed = parse_request_path(Request(method, path).segments)
    if parsed is not None:
        routes.add(method, path, Route(parsed, SERVED, None))


def others(path: str) -> list[str]:
    """The paths with another name in place of each segment."""
    parts = path.split("/")
    return ["/".join([*parts[:n], name, *parts[n + 1 :]]) for n in range(1, len(parts)) for name in NAMES]


@pytest.mark.parametrize("path", PATHS)
def test_a_similar_route_has_the_path_that_parsing_gives(path: str) -> None:
    for other in [one for each in PATHS for one in others(each)]:
        routes = RouteCache()
        add_route(routes, path)
        found = routes.find_similar("GET", other)
        if found is not None:
            assert found.path == parse_request_path(Request("GET", other).segments)


@pytest.mark.parametrize("known", [PATHS[0], PATHS[1], PATHS[2], PATHS[3], PATHS[5], PATHS[10]])
def test_another_object_name_at_a_cached_path_is_found(known: str) -> None:
    routes = RouteCache()
    add_route(routes, known)
    parsed = parse_request_path(Request("GET", known).segments)
    assert parsed is not None
    before, _, after = known.rpartition(f"/{parsed.name}")
    found = routes.find_similar("GET", f"{before}/other{after}")
    assert found is not None
    assert found.path.name == "other"
    assert routes.exact["GET", f"{before}/other{after}"] is found


@pytest.mark.parametrize("name", ["", ".", "..", "a%2Fb", "x" * 600])
def test_encoded_and_invalid_names_are_not_found_by_similarity(name: str) -> None:
    routes = RouteCache()
    add_route(routes, "/api/v1/nodes/a")
    assert routes.find_similar("GET", f"/api/v1/nodes/{name}") is None


def test_routes_are_cached_by_method_and_cleared_together() -> None:
    routes = RouteCache()
    add_route(routes, "/api/v1/nodes/a", "PUT")
    assert routes.find_similar("GET", "/api/v1/nodes/b") is None
    routes.clear()
    assert routes.find_similar("PUT", "/api/v1/nodes/b") is None
    assert not len(routes)


def test_the_route_cache_is_bounded() -> None:
    routes = RouteCache()
    for number in range(5000):
        add_route(routes, f"/api/v1/namespaces/n{number}/configmaps/a")
        routes.find_similar("GET", f"/api/v1/namespaces/n{number}/configmaps/b")
    assert len(routes) <= 4096


CONFIGMAPS = "/api/v1/namespaces/x/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/x/widgets"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Loads the schemas of the built-in kinds before an event loop runs, as a server does at its start."""
    preload()
    builtin_shape("", "v1", "ConfigMap")


def make() -> App:
    widgets = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)
    gadgets = ServedResource("example.com", "v1", "Gadget", "gadgets", "gadget", "GadgetList", False, "v1", custom=True)
    storage = MemoryStorage()
    space = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"},"status":{"phase":"Active"}}'
    storage.put_nowait("/registry/core/namespaces/x", space, expected=0)
    return App(ServerState(storage, Catalog([*builtin_kinds(), widgets, gadgets])))


async def send(
    app: App, method: str, path: str, body: Any = None, *, query: str = "", accept: str = "", media: str = ""
) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    headers = Headers({name: value for name, value in (("Accept", accept), ("Content-Type", media)) if value})
    found = app.handle(Request(method, path, query, headers, data))
    response: Response = await found if isinstance(found, Awaitable) else found
    assert isinstance(response.body, bytes)
    plain = dict(response.headers)["Content-Type"] != "application/json"
    return response.status, response.body.decode() if plain else json.loads(response.body)


def configmap(name: str, **members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **members}


async def test_an_object_is_created_read_replaced_patched_and_deleted() -> None:
    app = make()
    status, made = await send(app, "POST", CONFIGMAPS, configmap("a", data={"k": "1"}))
    assert (status, made["data"]) == (201, {"k": "1"})
    assert await send(app, "GET", f"{CONFIGMAPS}/a") == (200, made)
    status, changed = await send(app, "PUT", f"{CONFIGMAPS}/a", {**made, "data": {"k": "2"}})
    assert (status, changed["data"]) == (200, {"k": "2"})
    patch = {"data": {"j": "3"}}
    status, changed = await send(app, "PATCH", f"{CONFIGMAPS}/a", patch, media="application/merge-patch+json")
    assert (status, changed["data"]) == (200, {"k": "2", "j": "3"})
    status, gone = await send(app, "DELETE", f"{CONFIGMAPS}/a")
    assert (status, gone["status"]) == (200, "Success")
    assert (await send(app, "GET", f"{CONFIGMAPS}/a"))[0] == 404


async def test_a_list_is_read_in_pages() -> None:
    app = make()
    for name in "cab":
        await send(app, "POST", CONFIGMAPS, configmap(name))
    _, first = await send(app, "GET", CONFIGMAPS, query="limit=2")
    assert [one["metadata"]["name"] for one in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    _, second = await send(app, "GET", CONFIGMAPS, query=f"limit=2&continue={first['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in second["items"]] == ["c"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


async def test_a_list_of_custom_resources_always_has_a_continue_member() -> None:
    _, found = await send(make(), "GET", WIDGETS)
    assert (found["items"], found["metadata"]["continue"]) == ([], "")


async def test_a_collection_is_deleted_by_selector() -> None:
    app = make()
    for name in "ab":
        await send(app, "POST", CONFIGMAPS, configmap(name))
    status, gone = await send(app, "DELETE", CONFIGMAPS, query="fieldSelector=metadata.name%3Da")
    assert (status, gone["kind"]) == (200, "ConfigMapList")
    assert [one["metadata"]["name"] for one in gone["items"]] == ["a"]
    assert "kind" not in gone["items"][0]
    assert len((await send(app, "GET", CONFIGMAPS))[1]["items"]) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{CONFIGMAPS}/a"),
        ("PUT", CONFIGMAPS),
        ("PATCH", CONFIGMAPS),
        ("OPTIONS", CONFIGMAPS),
        ("HEAD", CONFIGMAPS),
        ("HEAD", f"{CONFIGMAPS}/a"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
    ],
)
async def test_other_methods_are_not_allowed(method: str, path: str) -> None:
    status, found = await send(make(), method, path, {})
    assert (status, found["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/apis/example.com/v1/namespaces/x/gadgets"),
        ("GET", "/apis/example.com/v1/widgets/a"),
        ("POST", "/apis/example.com/v1/widgets"),
    ],
)
async def test_a_resource_is_not_reachable_under_the_wrong_scope(method: str, path: str) -> None:
    assert await send(make(), method, path, {}) == (404, "404 page not found\n")


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "POST"])
async def test_a_built_in_kind_has_no_path_for_an_unknown_subresource(method: str) -> None:
    app = make()
    await send(app, "POST", CONFIGMAPS, configmap("a"))
    for name in ("a", "missing"):
        status, error = await send(app, method, f"{CONFIGMAPS}/{name}/nonsense", {})
        assert (status, error["reason"]) == (404, "NotFound")
        assert error["message"] == "the server could not find the requested resource"


async def test_a_disabled_subresource_of_a_custom_resource_is_not_found() -> None:
    app = make()
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    await send(app, "POST", WIDGETS, widget)
    status, error = await send(app, "GET", f"{WIDGETS}/a/nonsense")
    assert (status, error["message"]) == (404, 'widgets.example.com "a" not found')


async def test_an_unknown_subresource_is_not_found() -> None:
    status, found = await send(make(), "GET", f"{WIDGETS}/a/status")
    assert (status, found["details"]["name"]) == (404, "a")


async def test_one_object_can_be_read_as_table_metadata_or_yaml() -> None:
    app = make()
    await send(app, "POST", CONFIGMAPS, configmap("a"))
    assert (await send(app, "GET", f"{CONFIGMAPS}/a", accept=TABLE))[1]["kind"] == "Table"
    assert (await send(app, "GET", f"{CONFIGMAPS}/a", accept=METADATA))[1]["kind"] == "PartialObjectMetadata"
    assert "kind: ConfigMap\n" in (await send(app, "GET", f"{CONFIGMAPS}/a", accept="application/yaml"))[1]
    assert (await send(app, "GET", f"{CONFIGMAPS}/a", accept="text/html"))[0] == 406


async def test_a_list_as_yaml_equals_the_list_as_json() -> None:
    app = make()
    await send(app, "POST", CONFIGMAPS, configmap("a"))
    text: str = (await send(app, "GET", CONFIGMAPS, accept="application/yaml"))[1]
    assert text.startswith("kind: ConfigMapList\n")
    assert "kind: ConfigMap\n" not in text


async def test_a_status_is_never_rendered_as_a_table() -> None:
    status, found = await send(make(), "GET", f"{CONFIGMAPS}/none", accept=TABLE)
    assert (status, found["kind"]) == (404, "Status")


async def test_a_get_of_one_object_ignores_the_watch_flag() -> None:
    app = make()
    await send(app, "POST", CONFIGMAPS, configmap("a"))
    assert (await send(app, "GET", f"{CONFIGMAPS}/a", query="watch=1"))[1]["kind"] == "ConfigMap"


@pytest.mark.parametrize("path", [f"{CONFIGMAPS}?watch=1", "/api/v1/watch/namespaces/x/configmaps/a"])
def test_a_watch_response_is_a_pushed_stream(path: str) -> None:
    where, _, query = path.partition("?")
    response = make().handle(Request("GET", where, query))
    assert isinstance(response, Response)
    assert callable(response.body)


async def test_warnings_about_the_body_are_warning_headers() -> None:
    app = make()
    found = app.handle(Request("POST", CONFIGMAPS, body=json.dumps(configmap("a", bogus=1)).encode()))
    response = found if isinstance(found, Response) else await found
    assert 'unknown field \\"bogus\\"' in dict(response.headers)["Warning"]


async def test_pretty_json_is_indented() -> None:
    app = make()
    found = app.handle(Request("GET", "/api/v1/namespaces/x", "pretty=true"))
    assert isinstance(found, Response)
    assert isinstance(found.body, bytes)
    assert found.body.startswith(b'{\n  "apiVersion"')


async def test_a_review_is_evaluated_and_not_stored() -> None:
    app = make()
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    status, found = await send(app, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert (status, found["status"]["allowed"]) == (201, True)
    assert (await send(app, "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"))[0] == 405


def test_a_write_to_a_synchronous_storage_returns_a_response_without_waiting() -> None:
    app, one = make(), f"{CONFIGMAPS}/a"
    made = app.handle(Request("POST", CONFIGMAPS, body=json.dumps(configmap("a")).encode()))
    changed = app.handle(Request("PUT", one, body=json.dumps(configmap("a", data={"k": "v"})).encode()))
    gone, missing = app.handle(Request("DELETE", one)), app.handle(Request("DELETE", one))
    results = [made, changed, gone, missing]
    assert [isinstance(result, Response) and result.status for result in results] == [201, 200, 200, 404]
