"""Compiled programs: the reachable nodes, in the order of preference."""

import pytest

from levelset.re2.automaton import EDGE, NEWLINE, OTHER, WORD, Program, neighbour_of
from levelset.re2.parser import parse


def reached(pattern: str, before: int = EDGE, after: int = OTHER) -> str:
    """The characters that can be consumed first, in the order of preference; a dot for the end."""
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
def test_alternatives_are_reached_in_the_order_of_preference(pattern: str, order: str) -> None:
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
def test_an_assertion_passes_only_between_the_right_characters(
    pattern: str, before: int, after: int, order: str
) -> None:
    assert reached(pattern, before, after) == order


def test_only_ascii_letters_digits_and_underscores_are_word_characters() -> None:
    assert [neighbour_of(char) for char in ("", "\n", "a", "_", "1", "-", "é", "٣")] == [
        *(EDGE, NEWLINE, WORD, WORD, WORD, OTHER, OTHER, OTHER)
    ]
