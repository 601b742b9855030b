import sys
from typing import Any

from levelset.apiserver.registry.crd.served_versions import served_versions
from tests.apiserver.support.kinds_harness import definition


def only(**more: Any) -> Any:
    return served_versions(definition(**more), 7)[0]


def test_a_crd_becomes_a_resource_with_its_names() -> None:
    served = only(names={"shortNames": ["w"], "categories": ["all"]})
    assert served.gvk == ("example.com", "v1", "Widget")
    assert (served.plural, served.singular, served.list_kind) == ("widgets", "widget", "WidgetList")
    assert (served.short_names, served.categories, served.namespaced) == (("w",), ("all",), True)
    assert (served.custom, served.status, served.scale, served.since) == (True, False, None, 7)


def test_accepted_names_take_precedence_over_spec_names() -> None:
    tree = definition(names={"shortNames": ["new"]})
    tree["status"] = {"acceptedNames": {"shortNames": ["old"], "singular": "thing"}}
    served = served_versions(tree, 0)[0]
    assert (served.short_names, served.singular) == (("old",), "thing")


def test_subresources_columns_and_selectable_fields_are_those_of_the_version() -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}
    column = {"name": "N", "type": "integer", "format": "int32", "jsonPath": ".spec.n", "priority": 1}
    served = only(
        version={
            "subresources": {"status": {}, "scale": scale},
            "additionalPrinterColumns": [column],
            "selectableFields": [{"jsonPath": ".spec.n"}],
        }
    )
    assert served.status
    assert (served.scale.spec, served.scale.selector) == (".spec.n", ".status.s")
    assert [(one.name, one.type, one.format, one.priority, one.path) for one in served.columns] == [
        ("Name", "string", "name", 0, None),
        ("N", "integer", "int32", 1, ".spec.n"),
    ]
    assert served.selectable == ("spec.n",)


def test_the_default_columns_are_name_and_age() -> None:
    assert [(one.name, one.type) for one in only().columns] == [("Name", "string"), ("Age", "date")]


def test_a_deprecated_version_has_a_warning() -> None:
    assert only().deprecation is None
    assert only(version={"deprecated": True}).deprecation == "example.com/v1 Widget is deprecated"
    assert only(version={"deprecated": True, "deprecationWarning": "use v2"}).deprecation == "use v2"


def test_a_version_with_its_own_schema_prunes_every_object_it_reads() -> None:
    other = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}}
    first, second = served_versions(definition(versions=[other]), 7)
    assert (first.since, second.since) == (7, sys.maxsize)
    same = {**other, "schema": definition()["spec"]["versions"][0]["schema"]}
    assert [one.since for one in served_versions(definition(versions=[same]), 7)] == [7, 7]


def test_the_schema_is_compiled_once_at_first_use() -> None:
    served = only()
    assert served.schema() is served.schema()
    assert served.shape() is served.shape()


def test_a_column_whose_path_cannot_be_parsed_ends_the_table() -> None:
    columns = [{"name": name, "type": "string", "jsonPath": path} for name, path in (("A", ".a"), ("B", ".b["))]
    served = only(version={"additionalPrinterColumns": [*columns, {**columns[0], "name": "C"}]})
    assert [one.name for one in served.columns] == ["Name", "A"]


def test_equal_definitions_share_their_resources_with_the_compiled_schemas() -> None:
    tree, other, ending = definition(), definition(), definition()
    other["metadata"]["uid"] = "another"
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (served,) = served_versions(tree, 7)
    assert served_versions(other, 7)[0] is served
    assert served_versions(other, 8)[0].since == 8
    assert served_versions(ending, 7)[0].terminating
    assert served_versions(tree, 7, logs=print)[0].schema() is served.schema()


def test_a_definition_that_changes_later_leaves_its_resources_alone() -> None:
    tree = definition()
    (served,) = served_versions(tree, 7)
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "string"}
    assert served.schema_source == definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
