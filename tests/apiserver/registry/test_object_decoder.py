from typing import Any

import pytest

from levelset.apiserver.registry.object_decoder import admit, check_place, read_type
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import BadRequest, Invalid
from tests.apiserver.writes import configmaps, make_served, make_world, widget

WIDGETS = make_served()


def test_a_body_of_a_built_in_kind_may_leave_out_its_type() -> None:
    tree: dict[str, Any] = {"metadata": {}}
    read_type(configmaps(make_world()[0]), tree)
    assert (tree["apiVersion"], tree["kind"]) == ("v1", "ConfigMap")


@pytest.mark.parametrize("words", [{"kind": "Secret"}, {"apiVersion": "v2"}, {"kind": 5}])
def test_a_body_of_another_type_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(Undecodable):
        read_type(configmaps(make_world()[0]), words)


@pytest.mark.parametrize(
    "words", [{"kind": None}, {"apiVersion": ""}, {"apiVersion": "example.com/v7"}, {"kind": ["x"]}]
)
def test_a_custom_resource_must_have_its_type(words: dict[str, Any]) -> None:
    with pytest.raises(Undecodable):
        read_type(WIDGETS, {**widget(), **words})


def test_a_custom_resource_of_the_wrong_kind_is_invalid_under_the_name_it_gives() -> None:
    with pytest.raises(Invalid) as caught:
        read_type(WIDGETS, {**widget(), "kind": "Gizmo"})
    assert caught.value.details == {"name": "a", "group": "example.com", "kind": "Gizmo"}


def test_name_and_namespace_must_be_those_of_the_path() -> None:
    with pytest.raises(BadRequest, match="namespace"):
        check_place(widget(namespace="y"), "x")
    with pytest.raises(BadRequest, match="name"):
        check_place(widget("b"), "x", "a")
    check_place(widget("a", namespace="x"), "x", "a")


def test_a_missing_name_is_taken_from_the_path() -> None:
    tree: dict[str, Any] = {"metadata": {}}
    check_place(tree, None, "a")
    assert tree["metadata"] == {"name": "a"}


def test_unknown_and_duplicate_fields_are_errors_warnings_or_nothing_as_asked() -> None:
    told = ['unknown field "metadata.odd"', 'unknown field "spec.bogus"', 'duplicate field "spec.color"']
    warned = WriteOptions(duplicates=("spec.color",))
    admit(WIDGETS, widget(spec={"bogus": 1}), warned, dropped=["metadata.odd"])
    assert warned.warnings == told
    ignored = WriteOptions(validation="Ignore", duplicates=("spec.color",))
    admit(WIDGETS, widget(spec={"bogus": 1}), ignored, dropped=["metadata.odd"])
    assert ignored.warnings == []
    with pytest.raises(Undecodable, match="strict decoding error: unknown field"):
        admit(WIDGETS, widget(spec={"bogus": 1}), WriteOptions(validation="Strict"), dropped=[])


def test_the_managers_that_a_client_sends_are_kept_apart_from_the_schema() -> None:
    tree = widget(managedFields=[{"manager": "x"}])
    assert admit(WIDGETS, tree, WriteOptions(), dropped=[]).managed == [{"manager": "x"}]
    assert "managedFields" not in tree["metadata"]


def test_a_wrong_type_in_a_custom_resource_is_a_cause() -> None:
    causes = admit(WIDGETS, widget(spec={"color": 5}), WriteOptions(), dropped=[]).causes
    assert [(one.field, one.reason) for one in causes] == [("spec.color", "FieldValueTypeInvalid")]
