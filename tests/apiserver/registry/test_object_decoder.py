from typing import Any

import pytest

from levelset.apiserver.registry.object_decoder import apply_schema, check_name_and_namespace, check_type
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import BadRequest, Invalid
from tests.apiserver.support.server_state import configmaps, make_served, make_state, widget

WIDGETS = make_served()


def test_an_object_of_a_built_in_kind_can_omit_its_type() -> None:
    tree: dict[str, Any] = {"metadata": {}}
    check_type(configmaps(make_state()[0]), tree)
    assert (tree["apiVersion"], tree["kind"]) == ("v1", "ConfigMap")


@pytest.mark.parametrize("words", [{"kind": "Secret"}, {"apiVersion": "v2"}, {"kind": 5}])
def test_an_object_of_another_type_is_rejected(words: dict[str, Any]) -> None:
    with pytest.raises(Undecodable):
        check_type(configmaps(make_state()[0]), words)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            {"kind": "Foo"},
            (
                'Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "v1" in '
                'scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
        (
            {"apiVersion": "apps/v1", "kind": "Deployment"},
            (
                'Deployment in version "v1" cannot be handled as a ConfigMap: converting (v1.Deployment) to '
                "(core.ConfigMap): unknown conversion"
            ),
        ),
        (
            {"apiVersion": "v2"},
            (
                'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for '
                'version "v2" in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
        (
            {"apiVersion": "__internal"},
            "the API version in the data (__internal) does not match the expected API version (v1)",
        ),
    ],
)
def test_an_object_of_another_type_is_named_as_by_kube_apiserver(words: dict[str, Any], problem: str) -> None:
    with pytest.raises(Undecodable) as caught:
        check_type(configmaps(make_state()[0]), words)
    assert caught.value.message == problem


@pytest.mark.parametrize(
    "words", [{"kind": None}, {"apiVersion": ""}, {"apiVersion": "example.com/v7"}, {"kind": ["x"]}]
)
def test_a_custom_resource_must_have_its_type(words: dict[str, Any]) -> None:
    with pytest.raises(Undecodable):
        check_type(WIDGETS, {**widget(), **words})


def test_a_custom_resource_of_the_wrong_kind_is_invalid_under_its_own_kind() -> None:
    with pytest.raises(Invalid) as caught:
        check_type(WIDGETS, {**widget(), "kind": "Gizmo"})
    assert caught.value.details == {"name": "a", "group": "example.com", "kind": "Gizmo"}


def test_name_and_namespace_must_match_the_path() -> None:
    with pytest.raises(BadRequest, match="namespace"):
        check_name_and_namespace(widget(namespace="y"), "x")
    with pytest.raises(BadRequest, match="name"):
        check_name_and_namespace(widget("b"), "x", "a")
    check_name_and_namespace(widget("a", namespace="x"), "x", "a")


def test_an_update_without_a_name_is_refused() -> None:
    for metadata in ({}, {"name": ""}):
        with pytest.raises(BadRequest, match="undeterminable"):
            check_name_and_namespace({"metadata": metadata}, None, "a")


def test_unknown_and_duplicate_fields_follow_the_field_validation() -> None:
    expected = ['duplicate field "spec.color"', 'unknown field "metadata.odd"', 'unknown field "spec.bogus"']
    warned = WriteOptions(duplicates=("spec.color",))
    apply_schema(WIDGETS, widget(spec={"bogus": 1}), warned, dropped=["metadata.odd"])
    assert warned.warnings == expected
    ignored = WriteOptions(validation="Ignore", duplicates=("spec.color",))
    apply_schema(WIDGETS, widget(spec={"bogus": 1}), ignored, dropped=["metadata.odd"])
    assert ignored.warnings == []
    with pytest.raises(Undecodable, match="strict decoding error: unknown field"):
        apply_schema(WIDGETS, widget(spec={"bogus": 1}), WriteOptions(validation="Strict"), dropped=[])


def test_managed_fields_of_a_client_are_not_validated_by_the_schema() -> None:
    tree = widget(managedFields=[{"manager": "x"}])
    assert apply_schema(WIDGETS, tree, WriteOptions(), dropped=[]).managed_fields == [{"manager": "x"}]
    assert "managedFields" not in tree["metadata"]


def test_a_wrong_type_in_a_custom_resource_is_a_cause() -> None:
    causes = apply_schema(WIDGETS, widget(spec={"color": 5}), WriteOptions(), dropped=[]).causes
    assert [(one.field, one.reason) for one in causes] == [("spec.color", "FieldValueTypeInvalid")]


def test_line_breaks_in_the_bytes_of_a_built_in_kind_are_ignored_and_not_stored() -> None:
    tree: dict[str, Any] = {"metadata": {"name": "a"}, "binaryData": {"key": "aGVs\r\nbG8=\n", "other": "aGk="}}
    apply_schema(configmaps(make_state()[0]), tree, WriteOptions(), dropped=[])
    assert tree["binaryData"] == {"key": "aGVsbG8=", "other": "aGk="}
    tree["binaryData"] = {"key": "aGVs bG8="}
    with pytest.raises(Undecodable):
        apply_schema(configmaps(make_state()[0]), tree, WriteOptions(), dropped=[])
