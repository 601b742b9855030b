"""Schemas generated from classes: types, markers, defaults, and types without a schema."""

import datetime as dt
import decimal
import enum
import types
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, TypeVar

import msgspec
import pytest

from levelset.apiserver.schema import check_structural
from levelset.codegen.schema import schema_of
from levelset.errors import ConfigError
from levelset.objects import (
    Atomic,
    Embedded,
    ListMap,
    ListSet,
    Meta,
    MicroTime,
    Model,
    Object,
    ObjectMeta,
    PreserveUnknown,
    Quantity,
    Resource,
    Rule,
    Spec,
    field,
)
from tests.codegen.sample_kinds import OldShop, Shop

INTEGER = {"type": "integer", "format": "int64"}
FREE = {"x-kubernetes-preserve-unknown-fields": True}
Name = NewType("Name", str)
T = TypeVar("T")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Part(Model):
    """A part."""

    name: str
    size: int | None = None


class Tree(Model):
    children: "tuple[Tree, ...]" = ()


class OpenTree(Model):
    children: "Annotated[tuple[OpenTree, ...], PreserveUnknown()]" = ()


class Pod(Object, api="v1"):
    """A pod."""

    spec: dict[str, Any]


class Row(Model, array_like=True):
    one: int


class Left(Model, tag="left", tag_field="side"):
    size: int


class Right(Model, tag="right", tag_field="side"):
    size: str


class Strict(Model, tag="strict", tag_field="side", rules=[Rule("true")]):
    pass


class Plain(msgspec.Struct, frozen=True):
    one: int = 1


def member(hint, default=msgspec.NODEFAULT):
    """The schema of a member of this type, checked to be structural."""
    given = {} if default is msgspec.NODEFAULT else {"it": default}
    members = {"__module__": __name__, "__annotations__": {"it": hint}, **given}
    model = types.new_class("Things", (Spec,), {}, lambda namespace: namespace.update(members))
    here = {"__module__": __name__}
    base = Resource[model, None]
    kind = types.new_class("Thing", (base,), {"api": "a.example.dev/v1"}, lambda namespace: namespace.update(here))
    made = schema_of(kind)
    assert check_structural(made, "schema") == []
    return made["properties"]["spec"]["properties"]["it"]


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        (str, {"type": "string"}),
        (Name, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int, INTEGER),
        (float, {"type": "number", "format": "double"}),
        (int | float, {"type": "number", "format": "double"}),
        (bytes, {"type": "string", "format": "byte"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (MicroTime, {"type": "string", "format": "date-time"}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.timedelta, {"type": "string"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {"type": "string"}),
        (Any, FREE),
        (msgspec.Raw, FREE),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"] | Literal["b"], {"type": "string", "enum": ["a", "b"]}),  # noqa: PYI030 -- users write it
        (Literal["a", None], {"type": "string", "enum": ["a", None], "nullable": True}),  # noqa: PYI061 -- as above
        (Literal["a"] | None, {"type": "string", "enum": ["a", None], "nullable": True}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (list[int], {"type": "array", "items": INTEGER}),
        (list, {"type": "array", "items": FREE}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (list[int | None], {"type": "array", "items": {**INTEGER, "nullable": True}}),
        (tuple[int, int], {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}),
        (set[str], {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Mapping[str, list[int]], {"type": "object", "additionalProperties": {"type": "array", "items": INTEGER}}),
        (dict, {"type": "object", **FREE}),
        (dict[str, Any], {"type": "object", **FREE}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}),
        (int | None, {**INTEGER, "nullable": True}),
        (int | msgspec.UnsetType, INTEGER),
        (T, FREE),
    ],
)
def test_each_type_has_its_schema(hint, found):
    assert member(hint) == found


@pytest.mark.parametrize(
    ("extra", "base", "found"),
    [
        (Meta(ge=1, le=2), int, {"minimum": 1, "maximum": 2}),
        (Meta(gt=1, lt=2), int, {"minimum": 1, "exclusiveMinimum": True, "maximum": 2, "exclusiveMaximum": True}),
        (Meta(multiple_of=3), int, {"multipleOf": 3}),
        (Meta(min_length=1, max_length=2), str, {"minLength": 1, "maxLength": 2}),
        (Meta(min_length=1, max_length=2), list[int], {"minItems": 1, "maxItems": 2}),
        (Meta(min_length=1, max_length=2), dict[str, int], {"minProperties": 1, "maxProperties": 2}),
        (Meta(pattern="^a+$"), str, {"pattern": "^a+$"}),
        (Meta(title="A", description="B"), str, {"title": "A", "description": "B"}),
        (Meta(extra_json_schema={"format": "ipv4"}), str, {"format": "ipv4"}),
        (ListSet(), list[str], {"x-kubernetes-list-type": "set"}),
        (Atomic(), list[str], {"x-kubernetes-list-type": "atomic"}),
        (Atomic(), Part, {"x-kubernetes-map-type": "atomic"}),
        (ListMap("name"), list[Part], {"x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map"}),
        (PreserveUnknown(), Part, FREE),
        (Embedded(), dict[str, Any], {"x-kubernetes-embedded-resource": True}),
        (
            Rule("self > 1", "more", "FieldValueInvalid", message_expression="'x'", optional_old_self=True),
            int,
            {
                "x-kubernetes-validations": [
                    {
                        "rule": "self > 1",
                        "message": "more",
                        "messageExpression": "'x'",
                        "optionalOldSelf": True,
                        "reason": "FieldValueInvalid",
                    }
                ]
            },
        ),
    ],
)
def test_each_marker_becomes_its_keywords(extra, base, found):
    assert member(Annotated[base, extra]) == {**member(base), **found}
    assert member(Annotated[base, extra] | None, None) == {**member(base), **found}


@pytest.mark.parametrize(
    ("hint", "default", "found"),
    [
        (int, 3, {**INTEGER, "default": 3}),
        (int | None, None, INTEGER),
        (int | None, 3, {**INTEGER, "default": 3, "nullable": True}),
        (Literal["a", "b"] | None, "a", {"type": "string", "enum": ["a", "b", None], "default": "a", "nullable": True}),
        (int | msgspec.UnsetType, msgspec.UNSET, INTEGER),
        (list[int], field(default_factory=list), {"type": "array", "items": INTEGER}),
        (tuple[int, ...], (1, 2), {"type": "array", "items": INTEGER, "default": [1, 2]}),
        (Level, Level.HIGH, {"type": "integer", "enum": [1, 2], "default": 2}),
        (str, field(default_factory=lambda: "generated"), {"type": "string"}),
        (Plain, Plain(), {"type": "object", "properties": {"one": {**INTEGER, "default": 1}}, "default": {"one": 1}}),
    ],
)
def test_defaults_come_from_the_class_and_none_means_absence(hint, default, found):
    assert member(hint, default) == found


def test_a_quantity_is_an_int_or_string():
    made = member(Quantity, Quantity("1Gi"))
    assert (made["default"], made["x-kubernetes-int-or-string"]) == ("1Gi", True)


def test_an_embedded_object_has_its_own_fields():
    open_object = {"type": "object", "x-kubernetes-embedded-resource": True, **FREE}
    assert member(Object) == open_object
    assert member(Pod) == {
        "description": "A pod.",
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": {"type": "object", **FREE}},
        "x-kubernetes-embedded-resource": True,
    }
    assert member(ObjectMeta)["properties"]["labels"] == {"type": "object", "additionalProperties": {"type": "string"}}


def test_a_recursive_type_is_open_if_it_preserves_unknown_fields():
    inner = {"type": "object", **FREE}
    assert member(OpenTree)["properties"]["children"] == {"type": "array", "items": inner}


class Described(Spec):
    """Wanted."""

    part: Part
    """Said here."""
    other: Part
    third: Annotated[Part, Meta(description="Said beside it.")]
    """Not this."""


class Derived(Described):
    fourth: int = 0
    """Said by the heir."""


class Thing(Resource[Derived, None], api="a.example.dev/v1"):
    """A thing."""


def test_descriptions_are_docstrings_and_the_closest_takes_precedence():
    made = schema_of(Thing)
    spec = made["properties"]["spec"]["properties"]
    assert made["description"] == "A thing."
    assert [one.get("description") for one in spec.values()] == [
        "Said here.",
        "A part.",
        "Said beside it.",
        "Said by the heir.",
    ]
    unread = schema_of(Thing, reads_source=False)["properties"]["spec"]["properties"]
    assert [one.get("description") for one in unread.values()] == ["A part.", "A part.", "Said beside it.", None]


class Ruled(Spec, rules=[Rule("self.a <= self.b", "a above b")]):
    a: int = 0
    b: int = 0


class MoreRuled(Ruled, rules=[Rule("self.a > 0")]):
    pass


class Whole(Resource[MoreRuled, None], api="a.example.dev/v1", rules=[Rule("self.metadata.name != 'x'")]):
    pass


def test_rules_of_base_classes_come_first():
    made = schema_of(Whole)
    rules = [one["rule"] for one in made["properties"]["spec"]["x-kubernetes-validations"]]
    assert rules == ["self.a <= self.b", "self.a > 0"]
    assert made["x-kubernetes-validations"] == [{"rule": "self.metadata.name != 'x'"}]
    with pytest.raises(ConfigError, match="which is not a Rule"):
        type("Wrong", (Spec,), {}, rules=["self.a > 0"])


@pytest.mark.parametrize("kind", [Shop, OldShop])
def test_the_schema_of_a_whole_kind_is_structural(kind):
    assert check_structural(schema_of(kind), "schema", status=True) == []


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (Mixed, "have several types"),
        (Literal[1, "a"], "have several types"),
        (tuple[int, str], "a tuple of several types"),
        (dict[int, str], "keys of a map must be plain strings"),
        (dict[Annotated[str, Meta(max_length=3)], str], "use a Rule to constrain them"),
        (list[int] | str, "has no structural schema"),
        (Part | Left, "cannot be distinguished"),
        (Left | Right, "size of Right has another schema"),
        (Left | Strict, "the rules of Strict would apply to every variant"),
        (Tree, r"\.it\.children\[\]: Tree is recursive"),
        (Row, "is array_like"),
        (complex, "there is no schema for complex"),
        (Annotated[str, Meta(ge=1)], "the bound 1 applies to numbers only"),
        (Annotated[bool, Meta(min_length=1)], "a length applies to strings"),
        (Annotated[int, Meta(pattern="a")], "a pattern applies to strings only"),
        (Annotated[str, Meta(pattern="(?=a)")], "is not valid RE2"),
        (Annotated[str, Meta(pattern=r"(a)\1")], "is not valid RE2"),
        (Annotated[str, ListSet()], "ListSet applies to lists"),
        (Annotated[str, Atomic()], "Atomic applies to lists and maps"),
        (Annotated[str, Embedded()], "Embedded applies to maps"),
        (Annotated[list[Part], ListMap("nme")], r"its items have no such field; they have name, size"),
        (Annotated[list[Part], ListMap("size")], "must be present in every item"),
    ],
)
def test_a_type_without_a_structural_schema_is_refused_with_its_attribute(hint, message):
    with pytest.raises(ConfigError, match=message) as refused:
        member(hint)
    assert str(refused.value).startswith("Thing.spec.it")


def test_a_default_that_cannot_be_encoded_is_refused():
    with pytest.raises(ConfigError, match="cannot be encoded"):
        member(Any, object())


def test_a_class_that_is_not_a_kind_is_refused():
    with pytest.raises(ConfigError, match="does not declare a kind"):
        schema_of(Part)
