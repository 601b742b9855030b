import json
from typing import Any

import pytest

from levelset.apiserver.discovery import DiscoveryPages
from levelset.http import Headers, Request, Response
from tests.apiserver.kinds_world import KindsWorld, definition, load_data

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


class Reader:
    """Asks for pages of discovery."""

    def __init__(self, kinds: KindsWorld) -> None:
        self.pages = DiscoveryPages(kinds.kinds.catalog)

    def answer(self, path: str, **headers: str) -> Response:
        found = self.pages.respond(
            Request("GET", path, "", Headers({k.replace("_", "-"): v for k, v in headers.items()}))
        )
        assert found is not None
        return found

    def read(self, path: str, **headers: str) -> Any:
        body = self.answer(path, **headers).body
        assert isinstance(body, bytes)
        return json.loads(body)


def row(document: Any, name: str) -> Any:
    return next((one for one in document["resources"] if one["name"] == name), None)


async def test_the_core_group_is_told_apart_from_the_others() -> None:
    reader = Reader(await KindsWorld.make())
    core, groups = reader.read("/api"), reader.read("/apis")
    assert (core["kind"], core["versions"], "apiVersion" in core) == ("APIVersions", ["v1"], False)
    assert groups["kind"] == "APIGroupList"
    assert "" not in [one["name"] for one in groups["groups"]]
    assert all(one["preferredVersion"] == one["versions"][0] for one in groups["groups"])


async def test_a_group_can_be_read_alone() -> None:
    reader = Reader(await KindsWorld.make())
    versions = [{"groupVersion": f"autoscaling/{name}", "version": name} for name in ("v2", "v1")]
    assert reader.read("/apis/autoscaling") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "autoscaling",
        "versions": versions,
        "preferredVersion": versions[0],
    }


async def test_resources_are_described_with_their_subresources() -> None:
    reader = Reader(await KindsWorld.make())
    document = reader.read("/apis/apps/v1")
    assert document["groupVersion"] == "apps/v1"
    assert row(document, "deployments")["shortNames"] == ["deploy"]
    scale = row(document, "deployments/scale")
    assert (scale["group"], scale["version"], scale["kind"], scale["singularName"]) == (
        "autoscaling",
        "v1",
        "Scale",
        "",
    )
    assert row(reader.read("/api/v1"), "namespaces/finalize")["verbs"] == ["update"]


@pytest.mark.parametrize("path", ["/apis/no.such.group", "/apis/apps/v2", "/api/v2", "/x", "/apis/apps/v1/deployments"])
async def test_what_is_not_served_has_no_page(path: str) -> None:
    reader = Reader(await KindsWorld.make())
    assert reader.pages.respond(Request("GET", path)) is None


async def test_a_definition_comes_and_goes() -> None:
    kinds = await KindsWorld.make()
    reader = Reader(kinds)
    before = reader.answer("/apis").headers
    made = await kinds.define(definition(names={"categories": ["toys"]}, version={"subresources": {"status": {}}}))
    document = reader.read("/apis/example.com/v1")
    assert row(document, "widgets")["categories"] == ["toys"]
    assert row(document, "widgets/status")["verbs"] == ["get", "patch", "update"]
    assert reader.answer("/apis").headers != before
    kinds.kinds.definitions.forget(made["metadata"]["name"])
    assert reader.answer("/apis").headers == before


async def test_a_definition_that_goes_offers_no_creation() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.define(definition())
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    kinds.kinds.definitions.accept(made)
    verbs = row(Reader(kinds).read("/apis/example.com/v1"), "widgets")["verbs"]
    assert verbs == ["delete", "deletecollection", "get", "list", "watch"]


@pytest.mark.parametrize("form", ["v2", "v2beta1"])
async def test_everything_can_be_read_at_once(form: str) -> None:
    reader = Reader(await KindsWorld.make())
    response = reader.answer("/apis", accept=f"{AGGREGATED.format(form)},application/json")
    assert dict(response.headers)["Content-Type"] == AGGREGATED.format(form)
    document = reader.read("/apis", accept=AGGREGATED.format(form))
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{form}")
    apps = next(one for one in document["items"] if one["metadata"].get("name") == "apps")
    deployments = next(one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments")
    assert (deployments["scope"], deployments["singularResource"]) == ("Namespaced", "deployment")
    assert deployments["responseKind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert [one["subresource"] for one in deployments["subresources"]] == ["scale", "status"]


async def test_the_core_group_has_an_aggregated_page_of_its_own() -> None:
    reader = Reader(await KindsWorld.make())
    items = reader.read("/api", accept=AGGREGATED.format("v2"))["items"]
    assert [one["metadata"].get("name") for one in items] == [None]


async def test_an_unknown_form_falls_back_to_the_plain_one() -> None:
    reader = Reader(await KindsWorld.make())
    assert reader.read("/apis", accept=f"{AGGREGATED.format('v9')},application/json")["kind"] == "APIGroupList"
    wanted = f"application/json;q=0.9,{AGGREGATED.format('v2')}"
    assert reader.read("/apis", accept=wanted)["kind"] == "APIGroupDiscoveryList"


async def test_an_aggregated_page_is_not_sent_twice() -> None:
    reader = Reader(await KindsWorld.make())
    headers = dict(reader.answer("/api", accept=AGGREGATED.format("v2")).headers)
    assert (headers["Vary"], headers["Cache-Control"]) == ("Accept", "public")
    assert reader.answer("/api", accept=AGGREGATED.format("v2"), if_none_match=headers["ETag"]).status == 304
    assert reader.answer("/api", if_none_match=headers["ETag"]).status == 200


async def test_the_version_and_the_paths_can_be_read() -> None:
    reader = Reader(await KindsWorld.make())
    assert reader.read("/version")["major"] == "1"
    paths = reader.read("/")["paths"]
    assert {"/api/v1", "/apis/apps/v1", "/version"} <= set(paths)
