import json
from typing import Any

import pytest

from levelset.apiserver.registry.storage_codec import store_bytes
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs.get_and_list import Listing
from levelset.apiserver.verbs.response_format import render_item, render_listing, render_tree
from levelset.apiserver.wire.negotiation import JSON, PLAIN, YAML, Chosen
from levelset.errors import BadRequest
from levelset.http import Headers, Request, Response
from levelset.objects.yaml_codec import read_yaml
from levelset.storage import Item, MemoryStorage

CONFIGMAPS = ServedResource("", "v1", "ConfigMap", "configmaps", "configmap", "ConfigMapList", True, "v1")
WIDGETS = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)
WORLD = World(MemoryStorage(), Catalog([CONFIGMAPS, WIDGETS]))
GET = Request("GET", "/")


def item(served: ServedResource) -> Item:
    tree = {"apiVersion": served.api_version, "metadata": {"name": "a"}, "data": {"k": "v"}}
    return Item("/k", store_bytes(served, tree), 5, 5, 1)


def tree(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


@pytest.mark.parametrize("served", [CONFIGMAPS, WIDGETS])
def test_yaml_and_json_say_the_same(served: ServedResource) -> None:
    one = [render_item(WORLD, served, GET, chosen=form, item=item(served)) for form in (PLAIN, Chosen(YAML))]
    many = [
        render_listing(WORLD, served, GET, chosen=form, listing=Listing([item(served)], 9, "t", 4))
        for form in (PLAIN, Chosen(YAML))
    ]
    for plain, yaml in (one, many):
        assert isinstance(yaml.body, bytes)
        assert read_yaml(yaml.body) == [tree(plain)]
        assert dict(yaml.headers)["Content-Type"] == "application/yaml"


def test_a_list_tells_its_revision_and_what_is_left() -> None:
    made = tree(render_listing(WORLD, CONFIGMAPS, GET, chosen=PLAIN, listing=Listing([], 9, "t", 4)))
    assert made["metadata"] == {"resourceVersion": "9", "continue": "t", "remainingItemCount": 4}
    assert made["items"] == []


def test_a_list_can_be_shown_as_metadata_alone() -> None:
    chosen = Chosen(JSON, "PartialObjectMetadataList")
    made = tree(render_listing(WORLD, CONFIGMAPS, GET, chosen=chosen, listing=Listing([item(CONFIGMAPS)], 9)))
    assert made["kind"] == "PartialObjectMetadataList"
    assert "data" not in made["items"][0]


def test_a_status_stays_what_it_is() -> None:
    status = {"kind": "Status", "status": "Success"}
    assert tree(render_tree(WORLD, CONFIGMAPS, GET, chosen=Chosen(JSON, "Table"), tree=status)) == status


def test_a_table_that_includes_something_unknown_is_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        render_item(
            WORLD,
            CONFIGMAPS,
            Request("GET", "/", "includeObject=X"),
            chosen=Chosen(JSON, "Table"),
            item=item(CONFIGMAPS),
        )


@pytest.mark.parametrize(
    ("query", "agent", "indented"),
    [
        ("pretty=true", "x", True),
        ("pretty", "x", True),
        ("pretty=false", "curl/8", False),
        ("", "curl/8", True),
        ("", "kubectl/v1.33", False),
        ("labelSelector=pretty", "x", False),
    ],
)
def test_json_is_indented_for_people(query: str, agent: str, indented: bool) -> None:
    request = Request("GET", "/", query, Headers({"User-Agent": agent}))
    made = render_item(WORLD, CONFIGMAPS, request, chosen=PLAIN, item=item(CONFIGMAPS))
    assert isinstance(made.body, bytes)
    assert (b"\n" in made.body) is indented
