from datetime import UTC, datetime
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.verbs import response_format
from levelset.errors import BadRequest

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


def test_one_object_as_metadata_loses_all_else(served: ServedResource) -> None:
    made = response_format.render(served, response_format.form_of(response_format.METADATA, "v1beta1"), OBJECT, now=NOW)
    assert made == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": OBJECT["metadata"],
    }


def test_a_list_as_metadata_keeps_what_the_list_says(served: ServedResource) -> None:
    made = response_format.render(served, response_format.form_of(response_format.METADATA_LIST), LIST, now=NOW)
    assert (made["kind"], made["metadata"]) == ("PartialObjectMetadataList", LIST["metadata"])
    assert [(item["kind"], item["metadata"]["name"]) for item in made["items"]] == [("PartialObjectMetadata", "a")]


def test_a_table_of_one_object_has_its_version(served: ServedResource) -> None:
    made = response_format.render(served, response_format.form_of(response_format.TABLE), OBJECT, now=NOW)
    assert (made["kind"], made["metadata"]) == ("Table", {"resourceVersion": "7"})
    assert [row["cells"] for row in made["rows"]] == [["a", 1, "<unknown>"]]


def test_a_table_of_a_list_keeps_what_the_list_says(served: ServedResource) -> None:
    made = response_format.render(served, response_format.form_of(response_format.TABLE), LIST, now=NOW)
    assert made["metadata"] == LIST["metadata"]
    assert [one["name"] for one in made["columnDefinitions"]] == ["Name", "Data", "Age"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), (None, "PartialObjectMetadata"), ("Object", "ConfigMap")],
)
def test_rows_carry_what_was_asked_for(served: ServedResource, include: str | None, expected: str | None) -> None:
    made = response_format.render(
        served, response_format.form_of(response_format.TABLE, include=include), LIST, now=NOW
    )
    found = made["rows"][0]["object"]
    assert (found if found is None else found["kind"]) == expected


def test_an_unknown_include_is_refused_for_tables_only() -> None:
    with pytest.raises(BadRequest, match="Some"):
        response_format.form_of(response_format.TABLE, include="Some")
    assert response_format.form_of(response_format.METADATA, include="Some").include == "Metadata"
