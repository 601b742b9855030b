from typing import Any

import pytest

from levelset.apiserver.registry.crd.validation import check_version

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"color": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}},
        }
    },
}


def refused(**more: Any) -> dict[str, str]:
    version = {"name": "v1", "schema": {"openAPIV3Schema": SCHEMA}, **more}
    return {cause.field: cause.reason.removeprefix("FieldValue") for cause in check_version(version, "v")}


def test_a_minimal_version_is_valid() -> None:
    assert refused() == {}


def test_a_version_needs_a_schema_and_a_name() -> None:
    assert refused(schema={}) == {"v.schema.openAPIV3Schema": "Required"}
    assert refused(name="V1") == {"v.name": "Invalid"}


def test_the_schema_is_structural() -> None:
    assert refused(schema={"openAPIV3Schema": {"properties": {}}}) == {"v.schema.openAPIV3Schema.type": "Required"}


@pytest.mark.parametrize(
    ("column", "field", "reason"),
    [
        ({"name": "X", "type": "colour", "jsonPath": ".spec.x"}, "type", "Invalid"),
        ({"name": "X", "type": "string"}, "JSONPath", "Required"),
        ({"name": "X", "type": "string", "jsonPath": "spec[["}, "JSONPath", "Invalid"),
        ({"type": "string", "jsonPath": ".spec.x"}, "name", "Required"),
        ({"name": "X", "type": "string", "format": "odd", "jsonPath": ".spec.x"}, "format", "Invalid"),
    ],
)
def test_invalid_printer_columns_are_rejected(column: dict[str, Any], field: str, reason: str) -> None:
    assert refused(additionalPrinterColumns=[column]) == {f"v.additionalPrinterColumns[0].{field}": reason}


def test_a_column_can_show_an_age_or_a_condition() -> None:
    paths = [".metadata.creationTimestamp", '.status.conditions[?(@.type=="Ready")].status']
    columns = [{"name": "X", "type": "string", "jsonPath": path} for path in paths]
    assert refused(additionalPrinterColumns=columns) == {}


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}, {}),
        ({"specReplicasPath": ".spec.n"}, {"statusReplicasPath": "Required"}),
        ({"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}, {"specReplicasPath": "Invalid"}),
        (
            {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".metadata.x"},
            {"labelSelectorPath": "Invalid"},
        ),
    ],
)
def test_scale_has_paths_in_spec_and_status(scale: dict[str, str], expected: dict[str, str]) -> None:
    found = refused(subresources={"scale": scale})
    assert found == {f"v.subresources.scale.{field}": reason for field, reason in expected.items()}


@pytest.mark.parametrize("path", [".metadata.name", ".spec.o", ".spec.missing", "spec.color", ".spec.a[0]", "x[["])
def test_invalid_selectable_fields_are_rejected(path: str) -> None:
    assert refused(selectableFields=[{"jsonPath": path}]) == {"v.selectableFields[0].jsonPath": "Invalid"}


def test_strings_integers_and_booleans_can_be_selectable() -> None:
    assert refused(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.n"}]) == {}
    twice = [{"jsonPath": ".spec.n"}, {"jsonPath": ".spec.n"}, {}]
    expected = {"v.selectableFields[1].jsonPath": "Duplicate", "v.selectableFields[2].jsonPath": "Required"}
    assert refused(selectableFields=twice) == expected
    many = [{"jsonPath": ".spec.n"}] * 9
    assert refused(selectableFields=many)["v.selectableFields"] == "TooMany"


def test_only_a_deprecated_version_has_a_deprecation_warning() -> None:
    assert refused(deprecated=True, deprecationWarning="use v2") == {}
    assert refused(deprecationWarning="use v2") == {"v.deprecationWarning": "Invalid"}
    assert refused(deprecated=True, deprecationWarning="x" * 257) == {"v.deprecationWarning": "Invalid"}
    assert refused(deprecated=True, deprecationWarning="a\nb") == {"v.deprecationWarning": "Invalid"}


def test_a_reference_in_a_schema_with_selectable_fields_is_invalid_and_not_an_internal_error() -> None:
    schema = {"type": "object", "properties": {"spec": {"$ref": "#/definitions/x"}}}
    found = refused(schema={"openAPIV3Schema": schema}, selectableFields=[{"jsonPath": ".spec.color"}])
    assert "v.selectableFields[0].jsonPath" in found
