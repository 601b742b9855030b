import json
from typing import Any

import pytest

from levelset.apiserver.openapi.endpoint import OpenApiEndpoint
from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.http import Headers, Request, Response
from tests.apiserver.support.kinds_harness import CRDS, NOW, KindsHarness, definition, load_data

WIDGET = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


class Reader:
    """Requests OpenAPI documents."""

    def __init__(self, kinds: KindsHarness) -> None:
        self.pages = OpenApiEndpoint(kinds.kinds.catalog, ExpensiveWork(), now=lambda: NOW)

    async def answer(self, url: str, **headers: str) -> Response | None:
        path, _, query = url.partition("?")
        sent = Headers({name.replace("_", "-"): value for name, value in headers.items()})
        made = self.pages.respond(Request("GET", path, query, sent))
        return made if made is None or isinstance(made, Response) else await made

    async def second(self, accept: str, **headers: str) -> Response:
        """The OpenAPI v2 document."""
        made = await self.answer("/openapi/v2", accept=accept, **headers)
        assert made is not None
        return made

    async def read(self, url: str) -> Any:
        found = await self.answer(url)
        assert found is not None
        assert isinstance(found.body, bytes)
        return json.loads(found.body)

    async def url(self, path: str) -> str:
        return str((await self.read("/openapi/v3"))["paths"][path]["serverRelativeURL"])


async def test_the_index_names_every_version_with_a_hash() -> None:
    kinds = await KindsHarness.make()
    paths = (await Reader(kinds).read("/openapi/v3"))["paths"]
    served = {(one.group, one.version) for one in kinds.kinds.catalog.all()}
    assert set(paths) == {f"apis/{group}/{version}" if group else f"api/{version}" for group, version in served}
    assert all("?hash=" in one["serverRelativeURL"] for one in paths.values())


async def test_a_document_with_the_right_hash_is_immutable_for_caches() -> None:
    reader = Reader(await KindsHarness.make())
    response = await reader.answer(await reader.url("apis/apps/v1"))
    assert response is not None
    headers = dict(response.headers)
    assert headers["Cache-Control"] == "public, immutable"
    assert headers["Expires"] == "Sat, 02 Jan 2027 03:04:05 GMT"


async def test_a_wrong_hash_leads_to_the_right_one() -> None:
    reader = Reader(await KindsHarness.make())
    response = await reader.answer("/openapi/v3/apis/apps/v1?hash=0")
    assert response is not None
    assert (response.status, dict(response.headers)["Location"]) == (301, await reader.url("apis/apps/v1"))


async def test_a_document_is_not_sent_twice() -> None:
    reader = Reader(await KindsHarness.make())
    first = await reader.answer("/openapi/v3/api/v1")
    assert first is not None
    again = await reader.answer("/openapi/v3/api/v1", if_none_match=dict(first.headers)["ETag"])
    assert again is not None
    assert again.status == 304


@pytest.mark.parametrize(
    "path", ["/openapi", "/openapi/v3/api/v2", "/openapi/v3/apis/no.such/v1", "/openapi/v3/x", "/x"]
)
async def test_an_unserved_group_version_has_no_document(path: str) -> None:
    assert await Reader(await KindsHarness.make()).answer(path) is None


async def test_the_document_of_a_crd_is_updated_with_it() -> None:
    kinds = await KindsHarness.make()
    reader = Reader(kinds)
    assert await reader.answer("/openapi/v3/apis/example.com/v1") is None
    made = await kinds.define(
        definition(schema={"type": "object", "properties": {"n": {"type": "integer", "default": 3}}})
    )
    first = await reader.url("apis/example.com/v1")
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"]["n"]["default"] = 4711
    await kinds.update(CRDS, made)
    assert await reader.url("apis/example.com/v1") != first
    found = (await reader.read("/openapi/v3/apis/example.com/v1"))["components"]["schemas"]["com.example.v1.Widget"]
    assert found["properties"]["spec"]["properties"]["n"]["default"] == 4711
    kinds.kinds.definitions.remove("widgets.example.com")
    assert await reader.answer("/openapi/v3/apis/example.com/v1") is None


async def test_other_documents_are_unchanged_when_a_crd_changes() -> None:
    kinds = await KindsHarness.make()
    reader = Reader(kinds)
    before = await reader.url("api/v1")
    await kinds.define(definition())
    assert await reader.url("api/v1") == before


@pytest.mark.parametrize(
    ("accept", "status", "content"),
    [
        (PROTOBUF, 200, PROTOBUF.replace("@", ".")),
        (PROTOBUF.replace("@", "."), 200, PROTOBUF.replace("@", ".")),
        ("application/json", 200, "application/json"),
        ("*/*", 200, "application/json"),
        ("text/html", 406, None),
    ],
)
async def test_openapi_v2_is_available_as_json_and_protobuf(accept: str, status: int, content: str | None) -> None:
    response = await Reader(await KindsHarness.make()).second(accept)
    assert (response.status, dict(response.headers).get("Content-Type")) == (status, content)


async def test_openapi_v2_is_one_document_that_is_generated_once() -> None:
    kinds = await KindsHarness.make()
    reader = Reader(kinds)
    first = await reader.second("application/json")
    assert isinstance(first.body, bytes)
    tree = json.loads(first.body)
    assert "/apis/apps/v1/namespaces/{namespace}/deployments/{name}" in tree["paths"]
    kind = tree["definitions"]["io.k8s.api.apps.v1.Deployment"]
    assert kind["x-kubernetes-group-version-kind"] == [{"group": "apps", "kind": "Deployment", "version": "v1"}]
    etag = dict(first.headers)["ETag"]
    assert (await reader.second("application/json", if_none_match=etag)).status == 304
    assert dict((await reader.second(PROTOBUF)).headers)["ETag"] != etag
