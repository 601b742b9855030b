"""Programs: what can be reached from where, in the order of preference."""

import pytest

from levelset.re2.automaton import EDGE, NEWLINE, OTHER, WORD, Program, beside
from levelset.re2.parser import parse


def reached(pattern: str, before: int = EDGE, after: int = OTHER) -> str:
    """What can be taken first, the preferred one first; a dot for the end."""
    program = Program(parse(pattern, 1000))
    moves = [program.takes[node] for node in program.reach((program.begin,), before, after, set())]
    return "".join("." if move is None else chr(move[0].ranges[0][0]) for move in moves)


@pytest.mark.parametrize(
    ("pattern", "order"),
    [
        ("a|b|", "ab."),
        ("|a", ".a"),
        ("a*b", "ab"),
        ("a*?b", "ba"),
        ("(?U)a*b", "ba"),
        ("a+b", "a"),
        ("a{2,}", "a"),
        ("a{0,2}b", "ab"),
        ("a{0,2}?b", "ba"),
        ("a{0}b", "b"),
        ("(|a)*b", "ba"),
        ("(a|)*b", "ab"),
        ("(|a)+b", "ba"),
        ("()*", "."),
    ],
)
def test_ways_are_gone_in_the_order_of_preference(pattern: str, order: str) -> None:
    assert reached(pattern) == order


@pytest.mark.parametrize(
    ("pattern", "before", "after", "order"),
    [
        ("^a", EDGE, WORD, "a"),
        ("^a", NEWLINE, WORD, ""),
        ("(?m)^a", NEWLINE, WORD, "a"),
        ("$", WORD, EDGE, "."),
        ("$", WORD, NEWLINE, ""),
        ("(?m)$", WORD, NEWLINE, "."),
        (r"\ba", OTHER, WORD, "a"),
        (r"\ba", WORD, WORD, ""),
        (r"\Ba", WORD, WORD, "a"),
        (r"\B", EDGE, EDGE, "."),
    ],
)
def test_a_place_lets_through_who_has_the_right_neighbours(pattern: str, before: int, after: int, order: str) -> None:
    assert reached(pattern, before, after) == order


def test_only_ascii_makes_words() -> None:
    assert [beside(char) for char in ("", "\n", "a", "_", "1", "-", "é", "٣")] == [
        *(EDGE, NEWLINE, WORD, WORD, WORD, OTHER, OTHER, OTHER)
    ]
