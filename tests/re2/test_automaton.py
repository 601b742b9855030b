"""The automaton: transitions are cached, within a bound."""

import pytest

from levelset.re2.automaton import Automaton
from levelset.re2.parser import parse


def machine(pattern: str) -> Automaton:
    return Automaton(parse(pattern, 50_000))


def remembered(one: Automaton) -> int:
    """How many nodes and characters it holds."""
    sets = [one._start, *one._sets.values()]  # pyright: ignore[reportPrivateUsage]
    return sum(len(each) + 1 + (each.nodes.bit_length() >> 6) for each in sets)


def test_transitions_are_cached() -> None:
    one = machine(r"^(a|b)*c\b")
    assert one.matches("abaabbac")
    before = remembered(one)
    assert one.matches("aaabbbac")
    assert remembered(one) == before < 30


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("a.{0,100}b$", "abac" * 100), ("x", "".join(map(chr, range(0x80, 0x800)))), (r"\bb.{9}", "b" * 500)],
    ids=["many sets", "many characters", "few of both"],
)
def test_the_memory_is_bounded(pattern: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.re2.automaton._MAX_CACHED", 500)
    one = machine(pattern)
    held: list[int] = []
    for at in range(0, len(text), 50):
        one.matches(text[at:] if at % 100 else text[:at])
        held.append(remembered(one))
    assert max(held) <= 500 + 110  # the transitions of one node set are added before the bound is checked


def test_forgetting_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["aab" * 20 + end for end in ("c", "", "ac", "\n", "é")]
    patterns = ["(a|ab)*c$", r"(a.*b){3}\b", r"[^c]*\z", "(?m)^$"]
    expected = [machine(pattern).matches(text) for pattern in patterns for text in texts]
    monkeypatch.setattr("levelset.re2.automaton._MAX_CACHED", 3)
    assert [machine(pattern).matches(text) for pattern in patterns for text in texts] == expected


def test_a_search_starts_at_an_offset_and_considers_the_character_before_it() -> None:
    assert machine("a").search("aba", 1) == (2, 3)
    assert machine(r"\bb").search("ab b", 1) == (3, 4)
    assert machine("^a").search("aa", 1) is None
    assert machine("(?m)^a").search("b\na", 2) == (2, 3)
    assert machine("").search("ab", 2) == (2, 2)


def test_the_leftmost_match_is_found_even_if_another_is_longer() -> None:
    assert machine("b+|abc").search("xabcbbbb") == (1, 4)
