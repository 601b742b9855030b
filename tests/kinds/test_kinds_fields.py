"""The classes of built-in kinds have exactly the members of their schemas, with the same merge strategies."""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.objects import Atomic, ListMap, ListSet, Model, declarations_of, definition_of
from levelset.patch import Shape, builtin_shape
from tests.kinds.builtin import KINDS, definitions, kind_class, reference, schema_of_kind

SHARED = ("levelset.objects.",)


def classes_in(hint: Any) -> list[type[Model]]:
    """The classes that an annotation names."""
    if isinstance(hint, type) and issubclass(hint, Model):
        return [hint]
    return [one for part in get_args(hint) for one in classes_in(part)]


def pairs(version: str, kind: str) -> Iterator[tuple[type[Model], dict[str, Any]]]:
    """Every class that is reachable from a kind, with its schema."""
    waiting: list[tuple[type[Model], dict[str, Any]]] = [(kind_class(version, kind), schema_of_kind(version, kind))]
    seen: set[type[Model]] = set()
    while waiting:
        model, schema = waiting.pop()
        if model in seen or model.__module__.startswith(SHARED):
            continue
        seen.add(model)
        yield model, schema
        hints = get_type_hints(model)
        names = dict(zip(model.__struct_encode_fields__, model.__struct_fields__, strict=True))
        for wire, part in schema["properties"].items():
            inner = part.get("items") or part.get("additionalProperties") or part
            target = reference(inner if isinstance(inner, dict) else {})
            same = [one for one in classes_in(hints[names[wire]]) if target and target.endswith(f".{one.__name__}")]
            waiting += [(one, definitions()[target or ""]) for one in same]


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_each_property_is_a_member_and_there_are_no_others(version, kind):
    for model, schema in pairs(version, kind):
        members = set(model.__struct_encode_fields__)
        if get_args(model.__orig_bases__[0] if hasattr(model, "__orig_bases__") else None)[1:] == (type(None),):
            members -= {"status"}  # inherited by a Resource without a status
        assert members == set(schema["properties"]), model


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_the_required_members_are_those_that_the_schema_requires(version, kind):
    always = {"PodTemplateSpec": {"spec"}, "JobTemplateSpec": {"spec"}}
    null_lists = {
        "SubjectRulesReviewStatus": {"nonResourceRules", "resourceRules"},
        "LimitRangeSpec": {"limits"},
        "CSINodeSpec": {"drivers"},
    }
    for model, schema in pairs(version, kind):
        needed = {one.encode_name for one in msgspec.structs.fields(model) if one.required}
        # A spec that cannot be empty is required, even if the schema does not require it.
        expected = set(schema.get("required", ())) | always.get(model.__name__, set())
        expected -= null_lists.get(model.__name__, set())
        assert needed - {"spec"} == expected - {"spec", "metadata"}, model


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_members_are_merged_as_the_server_merges_them(version, kind):
    group, _, name = version.rpartition("/")
    shape = builtin_shape(group, name, kind)
    if shape is not None:
        check_merging(kind_class(version, kind), shape, set())


NOT_PUBLISHED = {
    ("PersistentVolumeSpec", "claim_ref"),
    ("ControllerRevision", "data"),
    ("AllocatedDeviceStatus", "data"),
}
"""Members that kube-apiserver merges otherwise than the OpenAPI documents say, which the classes are made from."""


def check_merging(model: type[Model], shape: Shape, seen: set[type[Model]]) -> None:
    if model in seen or model.__module__.startswith(SHARED):
        return
    seen.add(model)
    declared, hints = declarations_of(model), get_type_hints(model)
    for name, wire in zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True):
        member = shape.member(wire)
        said = declared.get(name, ())
        assert [one.keys for one in said if isinstance(one, ListMap)] == (
            [member.keys] if member.list_type == "map" else []
        ), f"{model}.{name}"
        assert any(isinstance(one, ListSet) for one in said) == (member.list_type == "set"), f"{model}.{name}"
        if wire != "metadata" and (model.__name__, name) not in NOT_PUBLISHED:
            assert any(isinstance(one, Atomic) for one in said) == member.atomic, f"{model}.{name}"
        if member.merge_key is not None and member.list_type == "map":
            assert member.keys[0] == member.merge_key
        # Nothing is merged inside of an atomic value, so the server has no merge metadata there.
        inner = member.items or member
        for one in classes_in(hints[name]) if inner.fields else []:
            check_merging(one, inner, seen)


@pytest.mark.parametrize("served", list(builtin_kinds()), ids=lambda one: f"{one.group}-{one.version}-{one.kind}")
def test_a_kind_is_named_and_placed_as_the_server_serves_it(served):
    found = definition_of(kind_class(f"{served.group}/{served.version}".strip("/"), served.kind))
    assert (found.plural, found.singular, found.list_kind) == (served.plural, served.singular, served.list_kind)
    assert found.namespaced == served.namespaced
    assert (found.short_names, found.categories) == (served.short_names, served.categories)
    assert found.status == served.status
    assert (found.scale is None) == (served.scale is None)
