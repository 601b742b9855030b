"""OpenAPI documents of custom kinds."""

import json

from levelset.client.transport.interface import Call
from levelset.codegen.crd import crd_of
from levelset.codegen.openapi import openapi_of
from levelset.objects import GroupVersionKind, Resource, Spec
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import open_client
from tests.codegen.golden_files import check_text
from tests.codegen.sample_kinds import OldShop, Shop

BOTH = crd_of(OldShop, Shop)
DOCUMENT = openapi_of([Shop, OldShop], title="Shops", version="1.0")
NAME = "dev.example.trade.v1.Shop"


class Empty(Spec):
    pass


class Region(Resource[Empty, None], api="trade.example.dev/v1", scope="Cluster"):
    pass


def references(tree):
    """All names of schemas that a document refers to."""
    if isinstance(tree, dict):
        found = {tree["$ref"]} if "$ref" in tree else set()
        return found.union(*(references(one) for one in tree.values()))
    return set().union(*(references(one) for one in tree)) if isinstance(tree, list) else set()


def test_the_document_of_two_versions_equals_the_golden_file():
    check_text("openapi.json", json.dumps(DOCUMENT, indent=1) + "\n")


def test_a_document_is_self_contained():
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references(DOCUMENT) <= known


def test_a_kind_has_paths_for_all_its_operations():
    paths = DOCUMENT["paths"]
    one = "/apis/trade.example.dev/v1/namespaces/{namespace}/shops/{name}"
    assert set(paths[one]) == {"parameters", "get", "put", "patch", "delete"}
    assert {f"{one}/status", f"{one}/scale", "/apis/trade.example.dev/v1/shops"} <= set(paths)
    assert "/apis/trade.example.dev/v1beta1/namespaces/{namespace}/shops/{name}/scale" not in paths
    cluster = openapi_of([Region])["paths"]
    assert set(cluster) == {f"/apis/trade.example.dev/v1/regions{rest}" for rest in ("", "/{name}")}


@virtual
async def test_the_server_publishes_the_same_schema():
    async with open_client(crd=False) as client:
        await client.create(BOTH)
        call = Call(method="GET", path="/openapi/v3/apis/trade.example.dev/v1", headers={"Accept": "application/json"})
        served = json.loads((await client.send(call)).body)["components"]["schemas"][NAME]
    ours = DOCUMENT["components"]["schemas"][NAME]
    assert served["description"] == "A place to buy things."
    template = served["properties"]["spec"]["properties"]["template"]
    assert set(template.pop("properties")) == {
        "apiVersion",
        "kind",
        "metadata",
    }  # as every object
    assert template.pop("required") == ["kind", "apiVersion"]
    assert served["properties"]["spec"] == ours["properties"]["spec"]
    assert served["x-kubernetes-group-version-kind"] == ours["x-kubernetes-group-version-kind"]
    assert GroupVersionKind(**ours["x-kubernetes-group-version-kind"][0]) == Shop.__definition__.gvk
