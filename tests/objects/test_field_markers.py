from typing import Annotated

import pytest

from levelset.errors import ConfigError
from levelset.objects.field_markers import (
    Atomic,
    Embedded,
    ListMap,
    ListSet,
    PreserveUnknown,
    Rule,
    declarations_of,
    rules_of,
)
from levelset.objects.model import Meta, Spec
from tests.objects.samples import WebsiteSpec


class Rich(Spec):
    names: Annotated[tuple[str, ...], ListSet(), Meta(max_length=3)] = ()
    free: Annotated[dict[str, str], PreserveUnknown(), Atomic()] = {}
    plain: int = 0
    inner: Annotated[dict[str, str], Embedded()] = {}


class Range(Spec, rules=[Rule("self.low <= self.high")]):
    low: int = 0
    high: int = 1


class Narrow(Range, rules=[Rule("self.high < 10", message_expression="'at most 9'")]):
    pass


class Plain(Range):
    pass


def test_rules_of_a_class_are_inherited():
    assert [one.rule for one in rules_of(Narrow)] == ["self.low <= self.high", "self.high < 10"]
    assert rules_of(Plain) == rules_of(Range) == (Rule("self.low <= self.high"),)
    assert rules_of(Rich) == ()


def test_a_value_that_is_not_a_rule_is_rejected_when_the_class_is_created():
    with pytest.raises(ConfigError, match=r"rules= of Wrong has 'self', which is not a Rule"):
        type("Wrong", (Spec,), {}, rules=["self"])


def test_declarations_are_read_from_the_annotations():
    assert declarations_of(Rich) == {
        "names": (ListSet(),),
        "free": (PreserveUnknown(), Atomic()),
        "inner": (Embedded(),),
    }


def test_a_declaration_on_an_optional_field_counts():
    assert declarations_of(WebsiteSpec) == {
        "ports": (ListMap("name"),),
        "locked": (Rule("self == oldSelf", "locked cannot change"),),
    }


def test_a_list_map_needs_its_keys():
    with pytest.raises(ValueError, match="identify its items"):
        ListMap()
