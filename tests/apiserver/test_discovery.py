import json
from typing import Any

import pytest
from msgspec.structs import replace

from levelset.apiserver import ApiServer
from levelset.apiserver.discovery import DiscoveryPages, aggregated_groups, api_resources, subresources_of, version_info
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ScalePaths, ServedResource
from levelset.errors import ConfigError, NotFound
from levelset.http import Headers, Request, Response
from tests.apiserver.support.kinds_harness import KindsHarness, definition, load_data

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


class Reader:
    """Requests discovery documents."""

    def __init__(self, kinds: KindsHarness) -> None:
        self.pages = DiscoveryPages(kinds.kinds.catalog)

    def respond(self, path: str, **headers: str) -> Response:
        found = self.pages.respond(
            Request("GET", path, "", Headers({k.replace("_", "-"): v for k, v in headers.items()}))
        )
        assert found is not None
        return found

    def read(self, path: str, **headers: str) -> Any:
        body = self.respond(path, **headers).body
        assert isinstance(body, bytes)
        return json.loads(body)


def row(document: Any, name: str) -> Any:
    return next((one for one in document["resources"] if one["name"] == name), None)


async def test_the_core_group_is_served_at_api_and_the_others_at_apis() -> None:
    reader = Reader(await KindsHarness.make())
    core, groups = reader.read("/api"), reader.read("/apis")
    assert (core["kind"], core["versions"], "apiVersion" in core) == ("APIVersions", ["v1"], False)
    assert groups["kind"] == "APIGroupList"
    assert "" not in [one["name"] for one in groups["groups"]]
    assert all(one["preferredVersion"] == one["versions"][0] for one in groups["groups"])


async def test_a_group_has_its_own_document() -> None:
    reader = Reader(await KindsHarness.make())
    versions = [{"groupVersion": f"autoscaling/{name}", "version": name} for name in ("v2", "v1")]
    assert reader.read("/apis/autoscaling") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "autoscaling",
        "versions": versions,
        "preferredVersion": versions[0],
    }


async def test_resources_are_described_with_their_subresources() -> None:
    reader = Reader(await KindsHarness.make())
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


@pytest.mark.parametrize("path", ["/apis/no.such.group", "/apis/no.such.group/v1", "/x", "/apis/apps/v1/deployments"])
async def test_unserved_groups_and_versions_have_no_document(path: str) -> None:
    reader = Reader(await KindsHarness.make())
    assert reader.pages.respond(Request("GET", path)) is None


@pytest.mark.parametrize("path", ["/apis/apps/v2", "/api/v2"])
async def test_an_unserved_version_of_a_served_group_is_not_found(path: str) -> None:
    reader = Reader(await KindsHarness.make())
    with pytest.raises(NotFound, match="could not find the requested resource"):
        reader.pages.respond(Request("GET", path))


async def test_discovery_follows_the_creation_and_deletion_of_a_crd() -> None:
    kinds = await KindsHarness.make()
    reader = Reader(kinds)
    before = reader.respond("/apis").headers
    made = await kinds.define(definition(names={"categories": ["toys"]}, version={"subresources": {"status": {}}}))
    document = reader.read("/apis/example.com/v1")
    assert row(document, "widgets")["categories"] == ["toys"]
    assert row(document, "widgets/status")["verbs"] == ["get", "patch", "update"]
    assert reader.respond("/apis").headers != before
    kinds.kinds.definitions.remove(made["metadata"]["name"])
    assert reader.respond("/apis").headers == before


async def test_a_terminating_crd_offers_no_create() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.define(definition())
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    kinds.kinds.definitions.serve(made)
    verbs = row(Reader(kinds).read("/apis/example.com/v1"), "widgets")["verbs"]
    assert verbs == ["delete", "deletecollection", "get", "list", "watch"]


async def test_aggregated_discovery_has_all_groups() -> None:
    form = "v2"
    reader = Reader(await KindsHarness.make())
    response = reader.respond("/apis", accept=f"{AGGREGATED.format(form)},application/json")
    assert dict(response.headers)["Content-Type"] == AGGREGATED.format(form)
    document = reader.read("/apis", accept=AGGREGATED.format(form))
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{form}")
    apps = next(one for one in document["items"] if one["metadata"].get("name") == "apps")
    deployments = next(one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments")
    assert (deployments["scope"], deployments["singularResource"]) == ("Namespaced", "deployment")
    assert deployments["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    assert [one["subresource"] for one in deployments["subresources"]] == ["scale", "status"]


async def test_the_core_group_has_its_own_aggregated_document() -> None:
    reader = Reader(await KindsHarness.make())
    items = reader.read("/api", accept=AGGREGATED.format("v2"))["items"]
    assert [one["metadata"].get("name") for one in items] == [None]


async def test_an_unknown_aggregated_version_falls_back_to_unaggregated_discovery() -> None:
    reader = Reader(await KindsHarness.make())
    assert reader.read("/apis", accept=f"{AGGREGATED.format('v9')},application/json")["kind"] == "APIGroupList"
    assert reader.read("/apis", accept=f"{AGGREGATED.format('v2beta1')},application/json")["kind"] == "APIGroupList"
    wanted = f"application/json,{AGGREGATED.format('v2')};q=0.1"
    assert reader.read("/apis", accept=wanted)["kind"] == "APIGroupDiscoveryList"  # as upstream, if it is accepted


async def test_an_aggregated_document_is_not_modified_for_its_etag() -> None:
    reader = Reader(await KindsHarness.make())
    headers = dict(reader.respond("/api", accept=AGGREGATED.format("v2")).headers)
    assert (headers["Vary"], headers["Cache-Control"]) == ("Accept", "public")
    assert reader.respond("/api", accept=AGGREGATED.format("v2"), if_none_match=headers["ETag"]).status == 304
    assert reader.respond("/api", if_none_match=headers["ETag"]).status == 200


async def test_the_version_and_the_root_paths_are_served() -> None:
    reader = Reader(await KindsHarness.make())
    assert reader.read("/version")["major"] == "1"
    paths = reader.read("/")["paths"]
    assert {"/api/v1", "/apis/apps/v1", "/version"} <= set(paths)


CATALOG = Catalog(builtin_kinds())


def test_the_aggregated_core_group_has_no_name_and_is_alone() -> None:
    document = aggregated_groups(CATALOG, core=True)
    assert [one["metadata"].get("name") for one in document["items"]] == [None]
    assert [one["version"] for one in document["items"][0]["versions"]] == ["v1"]


def test_the_other_aggregated_groups_are_in_the_order_of_the_catalog() -> None:
    document = aggregated_groups(CATALOG, core=False)
    assert [one["metadata"]["name"] for one in document["items"]] == CATALOG.groups()[1:]
    assert document["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert {version["freshness"] for one in document["items"] for version in one["versions"]} == {"Current"}


WIDGETS = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)


def test_an_api_resource_has_no_empty_lists() -> None:
    (row,) = api_resources(WIDGETS)
    assert set(row) == {"name", "singularName", "namespaced", "kind", "verbs", "storageVersionHash"}


def test_the_storage_version_hash_is_that_of_the_storage_version() -> None:
    newer = replace(WIDGETS, version="v2")
    moved = replace(WIDGETS, storage_version="v2")
    hashes = [api_resources(one)[0]["storageVersionHash"] for one in (WIDGETS, newer, moved)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_subresources_are_sorted_by_name_unless_the_resource_is_a_custom_one() -> None:
    served = replace(WIDGETS, status=True, scale=ScalePaths(".spec.n", ".status.n"), logs=print)
    assert [part.name for part in subresources_of(served)] == ["status", "scale", "log"]
    assert [part.name for part in subresources_of(replace(served, custom=False))] == ["log", "scale", "status"]
    assert [row["name"] for row in api_resources(served)[1:]] == ["widgets/status", "widgets/scale", "widgets/log"]


@pytest.mark.parametrize(("given", "minor", "git"), [("1.34", "34", "v1.34.0"), ("v1.33.7", "33", "v1.33.7")])
async def test_another_version_can_be_reported(given: str, minor: str, git: str) -> None:
    async with ApiServer(tls=False, kubernetes_version=given) as server:
        found = server.handle(Request("GET", "/version", "", Headers({}), peer=ApiServer.owner))
        response = found if isinstance(found, Response) else await found
    assert isinstance(response.body, bytes)
    reported = json.loads(response.body)
    assert (reported["major"], reported["minor"], reported["gitVersion"]) == ("1", minor, f"{git}+levelset")


@pytest.mark.parametrize("given", ["", "2.0", "1", "1.x", "1.34.0-rc.1", "1.34\n"])
def test_what_is_no_version_of_kubernetes_is_not_reported(given: str) -> None:
    with pytest.raises(ConfigError, match=r"write it as 1\.34"):
        version_info(given)
