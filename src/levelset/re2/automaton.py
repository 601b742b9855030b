"""A regular expression as a graph: nodes that take a character, and free ways between them, the preferred one first.

The graph is the one that Go makes of an expression, so that of several matches the same one is preferred.

Regular expressions run in linear time: all ways through the program are followed at once, never going back.

Whether a text matches is found with sets of nodes that are remembered with where each character leads, so that most
characters cost one lookup; the memory is bounded. Where it matches is found by walking the nodes in their order.
"""

from collections.abc import Iterable

from levelset.re2.charsets import Charset
from levelset.re2.parser import Choice, Edge, Expression, Repeat, Row

__all__ = ["EDGE", "Machine", "Program", "beside"]

EDGE, NEWLINE, WORD, OTHER = range(4)
"""What stands beside a place in the text."""


def beside(char: str) -> int:
    """The sort of a character that decides on lines and word boundaries; that of no character is the edge."""
    if not char:
        return EDGE
    if char == "\n":
        return NEWLINE
    return WORD if char.isascii() and (char.isalnum() or char == "_") else OTHER


class Program:
    """The graph: who is at `begin` and comes to `end` has matched."""

    def __init__(self, tree: Expression) -> None:
        self.takes: list[tuple[Charset, int] | None] = []
        """For every node, what character it takes and where that leads."""
        self._ways: list[list[tuple[str, int]]] = []
        """For every node, where one may go on without a character, and at what place ("" is everywhere)."""
        self.end = self._add()
        self.begin = self._build(tree, self.end)

    def reach(self, starts: Iterable[int], before: int, after: int, seen: set[int]) -> list[int]:
        """The nodes that take a character, and the end, that can be reached between these neighbours, preferred first.

        Whatever was `seen` is left out, and what is reached is seen from now on. The last of the starts goes first.
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
        """Adds the nodes of the expression, which lead to `after`; returns the first one."""
        match tree:
            case Charset():
                node = self._add()
                self.takes[node] = (tree, after)
                return node
            case Edge(place):
                node = self._add()
                self._ways[node].append((place, after))
                return node
            case Row(parts):
                for one in reversed(parts):
                    after = self._build(one, after)
                return after
            case Choice(options):
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
        """The part without a limit: once or more, or any number of times if it need not be there at all."""
        fork = self._add()
        first = self._build(tree.body, fork)
        self._ways[fork] = [("", first), ("", after)] if tree.greedy else [("", after), ("", first)]
        if tree.least:
            return first
        # A round that takes no character must not end the loop before the way around it was thought of.
        return self._fork(first, after, greedy=tree.greedy) if _nullable(tree.body) else fork

    def _fork(self, inside: int, around: int, *, greedy: bool) -> int:
        return self._add(inside, around) if greedy else self._add(around, inside)


def _nullable(tree: Expression) -> bool:
    """Whether it may match without taking a character."""
    match tree:
        case Charset():
            return False
        case Edge():
            return True
        case Row(parts):
            return all(map(_nullable, parts))
        case Choice(options):
            return any(map(_nullable, options))
        case Repeat(body, least, _):
            return not least or _nullable(body)


def _holds(place: str, before: int, after: int) -> bool:
    """Whether a place is between two neighbours."""
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


_MOST_REMEMBERED = 50_000  # nodes in sets, and characters that lead from one set to another
_END = ""  # stands where sets have characters: the end of the text


class _Nodes(dict[str, "_Nodes"]):
    """A set of nodes that the machine is at, behind a character of some sort; and where characters lead from there."""

    __slots__ = ("before", "machine", "nodes")

    def __init__(self, machine: "Machine", nodes: frozenset[int], before: int) -> None:
        super().__init__()
        self.machine = machine
        self.nodes = nodes
        self.before = before

    def __missing__(self, char: str) -> "_Nodes":
        return self.machine.follow(self, char)


class Machine:
    """An expression that can be asked, any number of times, whether and where it is found in a text."""

    def __init__(self, tree: Expression) -> None:
        self._program = Program(tree)
        self._found = _Nodes(self, frozenset(), EDGE)
        self._start = _Nodes(self, frozenset(), EDGE)
        self._sets: dict[tuple[frozenset[int], int], _Nodes] = {}
        self._remembered = 0

    def matches(self, text: str) -> bool:
        """Whether the expression is found in the text; the time grows with the length of the text alone."""
        at, found = self._start, self._found
        for char in text:
            at = at[char]
            if at is found:
                return True
        return at[_END] is found

    def follow(self, at: _Nodes, char: str) -> _Nodes:
        """Where the character leads; remembered for the next time."""
        if self._remembered >= _MOST_REMEMBERED:
            self._forget()
        program = self._program
        seen: set[int] = set()
        reached = program.reach((*at.nodes, program.begin), at.before, beside(char), seen)
        if program.end in seen:
            after = self._found
        else:
            moves = [move for node in reached if (move := program.takes[node]) is not None]
            after = self._set(frozenset(to for charset, to in moves if char and char in charset), beside(char))
        at[char] = after
        self._remembered += 1
        return after

    def _set(self, nodes: frozenset[int], before: int) -> _Nodes:
        found = self._sets.get((nodes, before))
        if found is None:
            found = self._sets[nodes, before] = _Nodes(self, nodes, before)
            self._remembered += len(nodes)
        return found

    def _forget(self) -> None:
        """Starts the memory anew. Who is at one of the old sets finds out from there where characters lead."""
        for one in (self._start, *self._sets.values()):
            one.clear()
        self._sets.clear()
        self._remembered = 0

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The leftmost match from here on, and of those the preferred one."""
        program = self._program
        threads: list[tuple[int, int]] = []  # nodes, and where the match would begin that has come there
        best: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            if best is None:
                threads.append((program.begin, at))
            if not threads:
                break
            char = text[at : at + 1]
            before, after = beside(text[at - 1 : at] if at else _END), beside(char)
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
        """Lets each node take the character; whether the end was there, which is preferred to all behind it."""
        for node in reached:
            move = self._program.takes[node]
            if move is None:
                return True
            if char and char in move[0]:
                following.append((move[1], since))
        return False
