from datetime import UTC, datetime
from typing import Any

import pytest

from levelset.apiserver import forms
from levelset.apiserver.builtins import builtin_kinds
from levelset.apiserver.catalog import Catalog
from levelset.apiserver.served import Served
from levelset.errors import BadRequest

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(name="served")
def configmaps() -> Served:
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


def test_one_object_as_metadata_loses_all_else(served: Served) -> None:
    made = forms.render(served, forms.form_of(forms.METADATA, "v1beta1"), OBJECT, now=NOW)
    assert made == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": OBJECT["metadata"],
    }


def test_a_list_as_metadata_keeps_what_the_list_says(served: Served) -> None:
    made = forms.render(served, forms.form_of(forms.METADATA_LIST), LIST, now=NOW)
    assert (made["kind"], made["metadata"]) == ("PartialObjectMetadataList", LIST["metadata"])
    assert [(item["kind"], item["metadata"]["name"]) for item in made["items"]] == [("PartialObjectMetadata", "a")]


def test_a_table_of_one_object_has_its_version(served: Served) -> None:
    made = forms.render(served, forms.form_of(forms.TABLE), OBJECT, now=NOW)
    assert (made["kind"], made["metadata"]) == ("Table", {"resourceVersion": "7"})
    assert [row["cells"] for row in made["rows"]] == [["a", 1, "<unknown>"]]


def test_a_table_of_a_list_keeps_what_the_list_says(served: Served) -> None:
    made = forms.render(served, forms.form_of(forms.TABLE), LIST, now=NOW)
    assert made["metadata"] == LIST["metadata"]
    assert [one["name"] for one in made["columnDefinitions"]] == ["Name", "Data", "Age"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), (None, "PartialObjectMetadata"), ("Object", "ConfigMap")],
)
def test_rows_carry_what_was_asked_for(served: Served, include: str | None, expected: str | None) -> None:
    made = forms.render(served, forms.form_of(forms.TABLE, include=include), LIST, now=NOW)
    found = made["rows"][0]["object"]
    assert (found if found is None else found["kind"]) == expected


def test_an_unknown_include_is_refused_for_tables_only() -> None:
    with pytest.raises(BadRequest, match="Some"):
        forms.form_of(forms.TABLE, include="Some")
    assert forms.form_of(forms.METADATA, include="Some").include == "Metadata"
