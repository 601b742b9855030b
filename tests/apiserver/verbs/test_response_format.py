import json
from datetime import UTC, datetime
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.registry.storage_codec import encode_for_storage
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import response_format
from levelset.apiserver.verbs.get_and_list import ListResult
from levelset.apiserver.verbs.response_format import render_item, render_listing, render_tree
from levelset.apiserver.wire.negotiation import JSON, PLAIN_JSON, YAML, ResponseFormat
from levelset.errors import BadRequest
from levelset.http import Headers, Request, Response
from levelset.objects.yaml_codec import read_yaml
from levelset.storage import Item, MemoryStorage

CONFIGMAPS = ServedResource("", "v1", "ConfigMap", "configmaps", "configmap", "ConfigMapList", True, "v1")
WIDGETS = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)
WORLD = ServerState(MemoryStorage(), Catalog([CONFIGMAPS, WIDGETS]))
GET = Request("GET", "/")


def item(served: ServedResource) -> Item:
    tree = {"apiVersion": served.api_version, "metadata": {"name": "a"}, "data": {"k": "v"}}
    return Item("/k", encode_for_storage(served, tree), 5, 5, 1)


def tree(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


@pytest.mark.parametrize("served", [CONFIGMAPS, WIDGETS])
def test_yaml_and_json_responses_are_equal(served: ServedResource) -> None:
    one = [
        render_item(WORLD, served, GET, chosen=form, item=item(served)) for form in (PLAIN_JSON, ResponseFormat(YAML))
    ]
    many = [
        render_listing(WORLD, served, GET, chosen=form, listing=ListResult([item(served)], 9, "t", 4))
        for form in (PLAIN_JSON, ResponseFormat(YAML))
    ]
    for plain, yaml in (one, many):
        assert isinstance(yaml.body, bytes)
        assert read_yaml(yaml.body) == [tree(plain)]
        assert dict(yaml.headers)["Content-Type"] == "application/yaml"


def test_a_list_has_its_resource_version_and_remaining_item_count() -> None:
    made = tree(render_listing(WORLD, CONFIGMAPS, GET, chosen=PLAIN_JSON, listing=ListResult([], 9, "t", 4)))
    assert made["metadata"] == {"resourceVersion": "9", "continue": "t", "remainingItemCount": 4}
    assert made["items"] == []


def test_a_list_can_be_rendered_as_metadata_only() -> None:
    chosen = ResponseFormat(JSON, "PartialObjectMetadataList")
    made = tree(render_listing(WORLD, CONFIGMAPS, GET, chosen=chosen, listing=ListResult([item(CONFIGMAPS)], 9)))
    assert made["kind"] == "PartialObjectMetadataList"
    assert "data" not in made["items"][0]


def test_a_status_is_rendered_as_itself() -> None:
    status = {"kind": "Status", "status": "Success"}
    assert tree(render_tree(WORLD, CONFIGMAPS, GET, chosen=ResponseFormat(JSON, "Table"), tree=status)) == status


def test_an_unknown_include_object_is_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        render_item(
            WORLD,
            CONFIGMAPS,
            Request("GET", "/", "includeObject=X"),
            chosen=ResponseFormat(JSON, "Table"),
            item=item(CONFIGMAPS),
        )


@pytest.mark.parametrize(
    ("query", "agent", "indented"),
    [
        ("pretty=true", "x", True),
        ("pretty", "x", False),
        ("pretty=false", "curl/8", False),
        ("", "curl/8", True),
        ("", "kubectl/v1.33", False),
        ("labelSelector=pretty", "x", False),
    ],
)
def test_json_is_indented_for_browsers(query: str, agent: str, indented: bool) -> None:
    request = Request("GET", "/", query, Headers({"User-Agent": agent}))
    made = render_item(WORLD, CONFIGMAPS, request, chosen=PLAIN_JSON, item=item(CONFIGMAPS))
    assert isinstance(made.body, bytes)
    assert (b"\n" in made.body.rstrip()) is indented
    assert made.body.endswith(b"}" if indented else b"}\n")


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(name="served")
def configmaps() -> ServedResource:
    found = Catalog(builtin_kinds()).find("", "v1", "configmaps")
    assert found is not None
    return found


OBJECT: Any = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "a", "resourceVersion": "7"},
    "data": {"k": "v"},
}
LIST: Any = {
    "kind": "ConfigMapList",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "9", "continue": "c"},
    "items": [{"metadata": {"name": "a"}, "data": {"k": "v"}}],
}


def test_an_object_as_metadata_has_nothing_else(served: ServedResource) -> None:
    made = response_format.render(
        served, response_format.representation_of(response_format.METADATA, "v1beta1"), OBJECT, now=NOW
    )
    assert made == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": OBJECT["metadata"],
    }


def test_a_list_as_metadata_retains_the_list_metadata(served: ServedResource) -> None:
    made = response_format.render(
        served, response_format.representation_of(response_format.METADATA_LIST), LIST, now=NOW
    )
    assert (made["kind"], made["metadata"]) == ("PartialObjectMetadataList", LIST["metadata"])
    assert [(item["kind"], item["metadata"]["name"]) for item in made["items"]] == [("PartialObjectMetadata", "a")]


def test_a_table_of_one_object_has_its_resource_version(served: ServedResource) -> None:
    made = response_format.render(served, response_format.representation_of(response_format.TABLE), OBJECT, now=NOW)
    assert (made["kind"], made["metadata"]) == ("Table", {"resourceVersion": "7"})
    assert [row["cells"] for row in made["rows"]] == [["a", 1, "<unknown>"]]


def test_a_table_of_a_list_retains_the_list_metadata(served: ServedResource) -> None:
    made = response_format.render(served, response_format.representation_of(response_format.TABLE), LIST, now=NOW)
    assert made["metadata"] == LIST["metadata"]
    assert [one["name"] for one in made["columnDefinitions"]] == ["Name", "Data", "Age"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), (None, "PartialObjectMetadata"), ("Object", "ConfigMap")],
)
def test_table_rows_include_the_requested_object(
    served: ServedResource, include: str | None, expected: str | None
) -> None:
    made = response_format.render(
        served, response_format.representation_of(response_format.TABLE, include=include), LIST, now=NOW
    )
    found = made["rows"][0]["object"]
    assert (found if found is None else found["kind"]) == expected


def test_an_unknown_include_is_rejected_for_tables_only() -> None:
    with pytest.raises(BadRequest, match="Some"):
        response_format.representation_of(response_format.TABLE, include="Some")
    assert response_format.representation_of(response_format.METADATA, include="Some").include == "Metadata"
