import json
from collections.abc import Awaitable
from typing import Any

import pytest

from levelset.apiserver.app import App
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.schema import preload
from levelset.http import Headers, Request, Response
from levelset.patch import builtin_shape
from levelset.storage import MemoryStorage

CONFIGMAPS = "/api/v1/namespaces/x/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/x/widgets"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Reads the schemas of the built-in kinds from their files before a loop runs, as a server does at its start."""
    preload()
    builtin_shape("", "v1", "ConfigMap")


def make() -> App:
    widgets = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)
    gadgets = ServedResource("example.com", "v1", "Gadget", "gadgets", "gadget", "GadgetList", False, "v1", custom=True)
    storage = MemoryStorage()
    space = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"},"status":{"phase":"Active"}}'
    storage.put_nowait("/registry/core/namespaces/x", space, expected=0)
    return App(World(storage, Catalog([*builtin_kinds(), widgets, gadgets])))


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
async def test_a_built_in_kind_has_no_path_for_a_subresource_that_there_is_none_of(method: str) -> None:
    app = make()
    await send(app, "POST", CONFIGMAPS, configmap("a"))
    for name in ("a", "missing"):
        status, told = await send(app, method, f"{CONFIGMAPS}/{name}/nonsense", {})
        assert (status, told["reason"]) == (404, "NotFound")
        assert told["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("part", "advice"),
    [("exec", "run it on this machine"), ("attach", "kubectl logs -f"), ("portforward", "status.podIP")],
)
async def test_whoever_wants_the_streams_of_a_pod_is_told_that_there_are_none(part: str, advice: str) -> None:
    status, told = await send(make(), "POST", f"/api/v1/namespaces/default/pods/web/{part}", {})
    assert (status, told["reason"]) == (404, "NotFound")
    assert f"{part} is not carried here" in told["message"]
    assert advice in told["message"]


async def test_a_custom_resource_without_a_subresource_is_itself_not_found_there() -> None:
    app = make()
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    await send(app, "POST", WIDGETS, widget)
    status, told = await send(app, "GET", f"{WIDGETS}/a/nonsense")
    assert (status, told["message"]) == (404, 'widgets.example.com "a" not found')


async def test_a_subresource_that_there_is_none_of_is_not_found() -> None:
    status, found = await send(make(), "GET", f"{WIDGETS}/a/status")
    assert (status, found["details"]["name"]) == (404, "a")


async def test_one_object_can_be_read_as_table_metadata_or_yaml() -> None:
    app = make()
    await send(app, "POST", CONFIGMAPS, configmap("a"))
    assert (await send(app, "GET", f"{CONFIGMAPS}/a", accept=TABLE))[1]["kind"] == "Table"
    assert (await send(app, "GET", f"{CONFIGMAPS}/a", accept=METADATA))[1]["kind"] == "PartialObjectMetadata"
    assert "kind: ConfigMap\n" in (await send(app, "GET", f"{CONFIGMAPS}/a", accept="application/yaml"))[1]
    assert (await send(app, "GET", f"{CONFIGMAPS}/a", accept="text/html"))[0] == 406


async def test_a_list_as_yaml_says_the_same_as_json() -> None:
    app = make()
    await send(app, "POST", CONFIGMAPS, configmap("a"))
    text: str = (await send(app, "GET", CONFIGMAPS, accept="application/yaml"))[1]
    assert text.startswith("kind: ConfigMapList\n")
    assert "kind: ConfigMap\n" not in text


async def test_a_status_is_never_shown_in_another_form() -> None:
    status, found = await send(make(), "GET", f"{CONFIGMAPS}/none", accept=TABLE)
    assert (status, found["kind"]) == (404, "Status")


async def test_reading_one_object_with_a_watch_flag_is_no_watch() -> None:
    app = make()
    await send(app, "POST", CONFIGMAPS, configmap("a"))
    assert (await send(app, "GET", f"{CONFIGMAPS}/a", query="watch=1"))[1]["kind"] == "ConfigMap"


@pytest.mark.parametrize("path", [f"{CONFIGMAPS}?watch=1", "/api/v1/watch/namespaces/x/configmaps/a"])
def test_a_watch_is_pushed(path: str) -> None:
    where, _, query = path.partition("?")
    response = make().handle(Request("GET", where, query))
    assert isinstance(response, Response)
    assert callable(response.body)


async def test_warnings_about_the_body_travel_in_headers() -> None:
    app = make()
    found = app.handle(Request("POST", CONFIGMAPS, body=json.dumps(configmap("a", bogus=1)).encode()))
    response = found if isinstance(found, Response) else await found
    assert 'unknown field \\"bogus\\"' in dict(response.headers)["Warning"]


async def test_people_get_indented_json() -> None:
    app = make()
    found = app.handle(Request("GET", "/api/v1/namespaces/x", "pretty=true"))
    assert isinstance(found, Response)
    assert isinstance(found.body, bytes)
    assert found.body.startswith(b'{\n  "apiVersion"')


async def test_a_review_is_answered_and_not_stored() -> None:
    app = make()
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    status, found = await send(app, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert (status, found["status"]["allowed"]) == (201, True)
    assert (await send(app, "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"))[0] == 405


def test_a_write_to_a_storage_that_never_waits_is_answered_at_once() -> None:
    app, one = make(), f"{CONFIGMAPS}/a"
    made = app.handle(Request("POST", CONFIGMAPS, body=json.dumps(configmap("a")).encode()))
    changed = app.handle(Request("PUT", one, body=json.dumps(configmap("a", data={"k": "v"})).encode()))
    gone, missing = app.handle(Request("DELETE", one)), app.handle(Request("DELETE", one))
    answers = [made, changed, gone, missing]
    assert [isinstance(answer, Response) and answer.status for answer in answers] == [201, 200, 200, 404]
