"""Selectors with many requirements match as if each were tested by itself, at a cost that does not grow with them."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.objects.field_selectors import FieldRequirement, FieldSelector
from levelset.objects.label_selectors import LabelSelector, Operator, Requirement

WORDS = st.sampled_from(["", "1", "2", "10", "x", "y"])
NUMBERS = st.sampled_from(["-3", "0", "1", "2", "10"])
KEYS = st.sampled_from(["a", "b", "c", "d"])
VALUES = {
    Operator.IN: st.lists(WORDS, min_size=1, max_size=12),
    Operator.NOT_IN: st.lists(WORDS, min_size=1, max_size=12),
    Operator.EQUALS: st.tuples(WORDS),
    Operator.NOT_EQUALS: st.tuples(WORDS),
    Operator.EXISTS: st.just(()),
    Operator.DOES_NOT_EXIST: st.just(()),
    Operator.GREATER_THAN: st.tuples(st.sampled_from(["0", "1", "5"])),
    Operator.LESS_THAN: st.tuples(st.sampled_from(["0", "1", "5"])),
}


@st.composite
def requirements(draw: Any) -> Requirement:
    operator = draw(st.sampled_from([*VALUES]))
    return Requirement(draw(KEYS), operator, tuple(draw(VALUES[operator])))


LABELS = st.dictionaries(KEYS, WORDS | NUMBERS)
FILLER = tuple(Requirement(f"other{number}", Operator.NOT_EQUALS, ("z",)) for number in range(9))


@given(st.lists(requirements(), max_size=6), LABELS)
def test_many_label_requirements_match_as_each_by_itself(wanted: list[Requirement], labels: dict[str, str]) -> None:
    expected = all(one.matches(labels) for one in wanted)
    assert LabelSelector(tuple(wanted)).matches(labels) is expected
    assert LabelSelector((*wanted, *FILLER)).matches(labels) is expected


@given(
    st.lists(st.builds(FieldRequirement, st.sampled_from(["m.n", "s"]), WORDS, st.booleans()), max_size=5),
    st.dictionaries(st.sampled_from(["m.n", "s"]), WORDS),
)
def test_many_field_requirements_match_as_each_by_itself(
    wanted: list[FieldRequirement], fields: dict[str, str]
) -> None:
    expected = all(((fields.get(one.field) or "") == one.value) != one.negated for one in wanted)
    assert FieldSelector(tuple(wanted)).matches(fields) is expected


@given(st.text(alphabet="ab,()!=<> \t1in", max_size=40), st.booleans())
def test_a_selector_with_plain_values_is_read_as_one_by_one(text: str, is_list: bool) -> None:
    """The quick way of reading `in (...)` accepts what the other accepts, and nothing else."""
    given_text = f"a in ({text})" if is_list else text
    slow = _parse(given_text, quick=False)
    assert _parse(given_text, quick=True) == slow


def _parse(text: str, *, quick: bool) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        if not quick:
            patch.setattr("levelset.objects.label_selectors._Parser._read_plain_values", lambda *_: None)
        try:
            return LabelSelector.parse(text)
        except ValueError as error:
            return str(error)


SIZE = 32 * 1024
LARGE = {
    "values": "a in (" + ",".join(f"x{number}" for number in range(4600)) + ")",
    "short values": "a in (" + ",".join("x" * (SIZE // 2)) + ")",
    "excluded": ",".join(f"a!=x{number}" for number in range(3300)),
    "missing": ",".join(f"!k{number}" for number in range(4000)),
    "keys": ",".join(f"k{number}!=x" for number in range(3200)),
    "required": ",".join(f"k{number}" for number in range(4600)),
    "numbers": ",".join(f"a<{number}" for number in range(4600)),
}


@pytest.mark.parametrize("what", LARGE)
def test_a_selector_of_32_kib_costs_an_object_no_more_than_a_short_one(what: str) -> None:
    selector = LabelSelector.parse(LARGE[what])
    labels = {"a": "v", "app": "web", "tier": "x"}
    began = time.process_time()
    for _ in range(2000):
        selector.matches(labels)
    assert time.process_time() - began < 0.2
