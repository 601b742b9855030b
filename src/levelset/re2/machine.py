"""Regular expressions run in linear time: all ways through the program are followed at once, never going back.

Whether a text matches is found with sets of nodes that are remembered with where each character leads, so that most
characters cost one lookup; the memory is bounded. Where it matches is found by walking the nodes in their order.
"""

from levelset.re2.program import EDGE, Program, beside
from levelset.re2.tree import Expression

__all__ = ["Machine"]

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
