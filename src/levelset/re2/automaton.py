"""The linear-time matcher of regular expressions: an NFA simulated as a lazily built DFA, without backtracking.

`Program` is the same graph that Go builds for an expression, so that the same one of several matches is preferred.
Whether a text matches is decided with sets of nodes that are cached with their transitions, so that most characters
cost one lookup; the cache is bounded. The position of a match is found by following the nodes in order of preference.
"""

from collections.abc import Iterable

from levelset.re2.charsets import Charset
from levelset.re2.parser import Alternation, Assertion, Expression, Repeat, Sequence

__all__ = ["EDGE", "Automaton", "Program", "neighbour_of"]

EDGE, NEWLINE, WORD, OTHER = range(4)
"""The classes of characters next to a position in the text."""


def neighbour_of(char: str) -> int:
    """The class of a character for line and word boundaries; None (no character) is the edge of the text."""
    if not char:
        return EDGE
    if char == "\n":
        return NEWLINE
    return WORD if char.isascii() and (char.isalnum() or char == "_") else OTHER


class Program:
    """The graph of an expression: a path from `begin` to `end` is a match."""

    def __init__(self, tree: Expression) -> None:
        self.takes: list[tuple[Charset, int] | None] = []
        """For every node: the characters it consumes and the next node."""
        self._ways: list[list[tuple[str, int]]] = []
        """For every node: its epsilon transitions, each with the assertion that must hold ("" always holds)."""
        self.end = self._add()
        self.begin = self._build(tree, self.end)

    def reach(self, starts: Iterable[int], before: int, after: int, seen: set[int]) -> list[int]:
        """The consuming nodes, and the end, that are reachable without input between these neighbours, preferred first.

        Nodes in `seen` are skipped, and reached nodes are added to it. The last of the starts is followed first.
        """
        found: list[int] = []
        waiting = list(starts)
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if self.takes[node] is not None or node == self.end:
                found.append(node)
                continue
            for place, to in reversed(self._ways[node]):
                if not place or _holds(place, before, after):
                    waiting.append(to)
        return found

    def _add(self, *ways: int) -> int:
        self.takes.append(None)
        self._ways.append([("", way) for way in ways])
        return len(self.takes) - 1

    def _build(self, tree: Expression, after: int) -> int:
        """Adds the nodes of the expression, which continue at `after`; returns the first one."""
        match tree:
            case Charset():
                node = self._add()
                self.takes[node] = (tree, after)
                return node
            case Assertion(place):
                node = self._add()
                self._ways[node].append((place, after))
                return node
            case Sequence(parts):
                for one in reversed(parts):
                    after = self._build(one, after)
                return after
            case Alternation(options):
                return self._add(*[self._build(one, after) for one in options])
            case Repeat():
                return self._repeat(tree, after)

    def _repeat(self, tree: Repeat, after: int) -> int:
        body, least, most = tree.body, tree.least, tree.most
        if most is None:
            after = self._loop(tree, after)
            least -= 1
        else:
            end = after
            for _ in range(most - least):
                after = self._fork(self._build(body, after), end, greedy=tree.greedy)
        for _ in range(least):
            after = self._build(body, after)
        return after

    def _loop(self, tree: Repeat, after: int) -> int:
        """An unbounded repetition: one or more, or zero or more if the minimum is 0."""
        fork = self._add()
        first = self._build(tree.body, fork)
        self._ways[fork] = [("", first), ("", after)] if tree.greedy else [("", after), ("", first)]
        if tree.least:
            return first
        # An iteration that consumes no character must not end the loop before the alternative around it was tried.
        return self._fork(first, after, greedy=tree.greedy) if _nullable(tree.body) else fork

    def _fork(self, inside: int, around: int, *, greedy: bool) -> int:
        return self._add(inside, around) if greedy else self._add(around, inside)


def _nullable(tree: Expression) -> bool:
    """Whether the expression may match the empty string."""
    match tree:
        case Charset():
            return False
        case Assertion():
            return True
        case Sequence(parts):
            return all(map(_nullable, parts))
        case Alternation(options):
            return any(map(_nullable, options))
        case Repeat(body, least, _):
            return not least or _nullable(body)


def _holds(place: str, before: int, after: int) -> bool:
    """Whether an assertion holds between two neighbours."""
    match place:
        case "start":
            return before == EDGE
        case "end":
            return after == EDGE
        case "line-start":
            return before in (EDGE, NEWLINE)
        case "line-end":
            return after in (EDGE, NEWLINE)
        case "boundary":
            return (before == WORD) != (after == WORD)
        case _:
            return (before == WORD) == (after == WORD)


_MAX_CACHED = 50_000  # the cache limit: nodes in sets, and transitions between sets
_END = ""  # used in place of a character: the end of the text


class _State(dict[str, "_State"]):
    """A DFA state: a set of nodes, the class of the preceding character, and the cached transitions."""

    __slots__ = ("before", "machine", "nodes")

    def __init__(self, machine: "Automaton", nodes: frozenset[int], before: int) -> None:
        super().__init__()
        self.machine = machine
        self.nodes = nodes
        self.before = before

    def __missing__(self, char: str) -> "_State":
        return self.machine.follow(self, char)


class Automaton:
    """Matches one expression against strings, in time linear in their length."""

    def __init__(self, tree: Expression) -> None:
        self._program = Program(tree)
        self._found = _State(self, frozenset(), EDGE)
        self._start = _State(self, frozenset(), EDGE)
        self._sets: dict[tuple[frozenset[int], int], _State] = {}
        self._remembered = 0

    def matches(self, text: str) -> bool:
        """Whether the expression matches somewhere in the text; takes time linear in the length of the text."""
        at, found = self._start, self._found
        for char in text:
            at = at[char]
            if at is found:
                return True
        return at[_END] is found

    def follow(self, at: _State, char: str) -> _State:
        """The next state for a character; cached."""
        if self._remembered >= _MAX_CACHED:
            self._forget()
        program = self._program
        seen: set[int] = set()
        reached = program.reach((*at.nodes, program.begin), at.before, neighbour_of(char), seen)
        if program.end in seen:
            after = self._found
        else:
            moves = [move for node in reached if (move := program.takes[node]) is not None]
            after = self._set(frozenset(to for charset, to in moves if char and char in charset), neighbour_of(char))
        at[char] = after
        self._remembered += 1
        return after

    def _set(self, nodes: frozenset[int], before: int) -> _State:
        found = self._sets.get((nodes, before))
        if found is None:
            found = self._sets[nodes, before] = _State(self, nodes, before)
            self._remembered += len(nodes)
        return found

    def _forget(self) -> None:
        """Clears the cache. A match that is in one of the old states computes its transitions again."""
        for one in (self._start, *self._sets.values()):
            one.clear()
        self._sets.clear()
        self._remembered = 0

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The leftmost match from this position on; of several, the preferred one."""
        program = self._program
        threads: list[tuple[int, int]] = []  # active nodes, each with the start of the match that led to it
        best: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            if best is None:
                threads.append((program.begin, at))
            if not threads:
                break
            char = text[at : at + 1]
            before, after = neighbour_of(text[at - 1 : at] if at else _END), neighbour_of(char)
            following: list[tuple[int, int]] = []
            seen: set[int] = set()
            for node, since in threads:
                reached = program.reach((node,), before, after, seen)
                if self._advance(reached, since, char, following):
                    best = (since, at)
                    break
            threads = following
        return best

    def _advance(self, reached: list[int], since: int, char: str, following: list[tuple[int, int]]) -> bool:
        """Advances each node by one character, up to the end node; returns whether that was reached."""
        for node in reached:
            move = self._program.takes[node]
            if move is None:
                return True
            if char and char in move[0]:
                following.append((move[1], since))
        return False
