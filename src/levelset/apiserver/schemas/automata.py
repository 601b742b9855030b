"""Automata: regular expressions matched character by character, never going back.

The expression becomes a graph of states; a set of states is carried over the text. Sets that were met before are
remembered with where each character leads, so that most characters cost one lookup. The memory is bounded: it is
thrown away when it grows beyond MOST_SETS.
"""

from levelset.apiserver.schemas.charsets import Charset
from levelset.apiserver.schemas.expressions import Assertion, Choice, Expression, Repeat, Sequence_

__all__ = ["Automaton", "beside", "holds"]

MOST_SETS = 500

EDGE, NEWLINE, WORD, OTHER = range(4)
"""What stands beside a place in the text."""

ACCEPTED = -1
START = 0
END = ""
"""The end of the text, where a row has its characters."""


def beside(char: str) -> int:
    """The class of a character that decides on lines and word boundaries."""
    if char == "\n":
        return NEWLINE
    return WORD if char.isascii() and (char.isalnum() or char == "_") else OTHER


class Automaton:
    """An expression that can be asked, any number of times, whether it is found in a text."""

    def __init__(self, tree: Expression) -> None:
        self._moves: list[tuple[Charset, int] | None] = []
        self._free: list[list[tuple[str, int]]] = []
        self._end = self._add()
        self._begin = self._build(tree, self._end)
        self._forget()

    def matches(self, text: str) -> bool:
        """Whether the expression is found in the text; the time grows with the length of the text alone."""
        at = START
        rows = self._rows
        for char in text:
            after = rows[at].get(char)
            if after is None:
                after = self._step(at, char)
                rows = self._rows
            if after == ACCEPTED:
                return True
            at = after
        ends = rows[at].get(END)
        if ends is None:
            ends = rows[at][END] = ACCEPTED if self._accepts(at, EDGE) else START
        return ends == ACCEPTED

    def _add(self) -> int:
        self._moves.append(None)
        self._free.append([])
        return len(self._moves) - 1

    def _build(self, tree: Expression, after: int) -> int:
        """Adds the states of the expression, which lead to `after`; returns the first one."""
        match tree:
            case Charset():
                state = self._add()
                self._moves[state] = (tree, after)
                return state
            case Assertion(place):
                state = self._add()
                self._free[state].append((place, after))
                return state
            case Sequence_(parts):
                for one in reversed(parts):
                    after = self._build(one, after)
                return after
            case Choice(options):
                state = self._add()
                self._free[state].extend(("", self._build(one, after)) for one in options)
                return state
            case Repeat(body, least, most):
                return self._repeat(body, least, most, after)

    def _repeat(self, body: Expression, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._add()
            self._free[loop] += [("", self._build(body, loop)), ("", after)]
            after = loop
        else:
            end = after
            for _ in range(most - least):
                state = self._add()
                self._free[state] += [("", self._build(body, after)), ("", end)]
                after = state
        for _ in range(least):
            after = self._build(body, after)
        return after

    def _forget(self) -> None:
        """Starts the memory of sets anew, with the empty set at the start of a text."""
        self._sets: list[tuple[frozenset[int], int]] = [(frozenset(), EDGE)]
        self._numbers: dict[tuple[frozenset[int], int], int] = {self._sets[0]: START}
        self._rows: list[dict[str, int]] = [{}]

    def _step(self, at: int, char: str) -> int:
        """Where the character leads from the set `at`; remembered for the next time."""
        if len(self._sets) > MOST_SETS:
            here = self._sets[at]
            self._forget()
            at = self._number(here)
        after = ACCEPTED
        if not self._accepts(at, beside(char)):
            found: set[int] = set()
            for state in self._reached:
                move = self._moves[state]
                if move is not None and char in move[0]:
                    found.add(move[1])
            after = self._number((frozenset(found), beside(char)))
        self._rows[at][char] = after
        return after

    def _number(self, key: tuple[frozenset[int], int]) -> int:
        number = self._numbers.setdefault(key, len(self._sets))
        if number == len(self._sets):
            self._sets.append(key)
            self._rows.append({})
        return number

    def _accepts(self, at: int, following: int) -> bool:
        """Whether the end can be reached here without a character; leaves all that can in `_reached`."""
        states, before = self._sets[at]
        reached: set[int] = set()
        waiting = [*states, self._begin]
        while waiting:
            state = waiting.pop()
            if state in reached:
                continue
            reached.add(state)
            waiting.extend(to for place, to in self._free[state] if holds(place, before, following))
        self._reached = reached
        return self._end in reached


def holds(place: str, before: int, following: int) -> bool:
    """Whether an assertion holds between two neighbours."""
    match place:
        case "start":
            return before == EDGE
        case "end":
            return following == EDGE
        case "line-start":
            return before in (EDGE, NEWLINE)
        case "line-end":
            return following in (EDGE, NEWLINE)
        case "boundary":
            return (before == WORD) != (following == WORD)
        case "no-boundary":
            return (before == WORD) == (following == WORD)
        case _:
            return True
