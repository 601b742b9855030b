from dataclasses import replace

from levelset.apiserver.discovery import parts_of, resource_rows
from levelset.apiserver.resources.served_resource import ScalePaths, ServedResource

WIDGETS = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)


def test_a_row_has_no_empty_lists() -> None:
    (row,) = resource_rows(WIDGETS)
    assert set(row) == {"name", "singularName", "namespaced", "kind", "verbs", "storageVersionHash"}


def test_the_hash_is_that_of_the_stored_version() -> None:
    newer = replace(WIDGETS, version="v2")
    moved = replace(WIDGETS, storage_version="v2")
    hashes = [resource_rows(one)[0]["storageVersionHash"] for one in (WIDGETS, newer, moved)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_subresources_are_in_the_order_of_their_names() -> None:
    served = replace(WIDGETS, status=True, scale=ScalePaths(".spec.n", ".status.n"), logs=print)
    assert [part.name for part in parts_of(served)] == ["log", "scale", "status"]
    assert [row["name"] for row in resource_rows(served)[1:]] == ["widgets/log", "widgets/scale", "widgets/status"]
