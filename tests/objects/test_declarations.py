from typing import Annotated

import pytest

from levelset.objects.declarations import Atomic, ListMap, ListSet, PreserveUnknown, Rule, declarations_of
from levelset.objects.model import Meta, Spec
from tests.objects.samples import WebsiteSpec


class Rich(Spec):
    names: Annotated[tuple[str, ...], ListSet(), Meta(max_length=3)] = ()
    free: Annotated[dict[str, str], PreserveUnknown(), Atomic()] = {}
    plain: int = 0


def test_declarations_are_read_from_the_annotations():
    assert declarations_of(Rich) == {"names": (ListSet(),), "free": (PreserveUnknown(), Atomic())}


def test_a_declaration_on_an_optional_field_counts():
    assert declarations_of(WebsiteSpec) == {
        "ports": (ListMap("name"),),
        "locked": (Rule("self == oldSelf", "locked cannot change"),),
    }


def test_a_list_map_needs_its_keys():
    with pytest.raises(ValueError, match="tell its items apart"):
        ListMap()
