"""The linear-time matcher of regular expressions: an NFA simulated as a lazily built DFA, without backtracking.

`Program` is the same graph that Go builds for an expression, so that the same one of several matches is preferred.
Whether a text matches is decided with sets of nodes that are cached with their transitions, so that most characters
cost one lookup; the cache is bounded. Sets are bit masks, so that a transition that is not cached is cheap too. The
position of a match is found by following the nodes in order of preference.
"""

from collections.abc import Iterable, Iterator, Mapping

from levelset.re2.charsets import Charset
from levelset.re2.parser import Alternation, Assertion, Expression, Repeat, Sequence
from levelset.re2.step_budget import charge

__all__ = ["EDGE", "Automaton", "FollowSets", "Program", "miss_steps", "neighbour_of"]

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

    def closures(self, bits: Mapping[int, int], before: int, after: int) -> list[int]:
        """For every node the bits of the nodes that `reach` finds from it alone; linear in the size of the graph."""
        found: list[int] = [bits.get(node, 0) for node in range(len(self.takes))]
        for component in self._components(before, after):
            joined = 0
            for node in component:
                joined |= found[node]
                for place, to in self._ways[node]:
                    if not place or _holds(place, before, after):
                        joined |= found[to]
            for node in component:
                found[node] = joined
        return found

    def _components(self, before: int, after: int) -> Iterator[list[int]]:
        """The strongly connected components of the epsilon transitions, each after those that it leads to (Tarjan)."""
        order: dict[int, int] = {}
        lowest: dict[int, int] = {}
        stack: list[int] = []
        waiting: set[int] = set()
        for root in range(len(self.takes)):
            work = [] if root in order else [(root, 0)]
            while work:
                node, at = work.pop()
                if at == 0:
                    order[node] = lowest[node] = len(order)
                    stack.append(node)
                    waiting.add(node)
                ways = [to for place, to in self._ways[node] if not place or _holds(place, before, after)]
                if at > 0:
                    lowest[node] = min(lowest[node], lowest[ways[at - 1]])
                while at < len(ways) and ways[at] in order:
                    if ways[at] in waiting:
                        lowest[node] = min(lowest[node], order[ways[at]])
                    at += 1
                if at < len(ways):
                    work += [(node, at + 1), (ways[at], 0)]
                elif lowest[node] == order[node]:
                    start = stack.index(node) if stack[-1] != node else len(stack) - 1
                    component = stack[start:]
                    del stack[start:]
                    waiting.difference_update(component)
                    yield component

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


_MAX_CACHED = 50_000  # the cache limit: the sizes of sets, and transitions between sets
_MAX_MASKS = 2_500  # consuming nodes up to which sets are bit masks: their follow sets take a megabyte for each context
_MAX_SAME = 32  # sets of nodes with the same next node that are joined
_MAX_TABLES = 20_000  # cached unions of eight follow sets
_VISIT_STEPS = 5  # of visiting a node while the position of a match is searched
_END = ""  # used in place of a character: the end of the text


class FollowSets:
    """The consuming nodes of a program as bits of an integer, with those that may follow each of them.

    A union of many follow sets takes one lookup for eight nodes, in tables that are filled on demand. Programs that are
    too large for that are walked node by node.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._nodes = [node for node, move in enumerate(program.takes) if move is not None]
        self.size = len(self._nodes)
        self.end = 1 << self.size
        """The bit of the end node."""
        self._bits = {node: 1 << at for at, node in enumerate(self._nodes)} | {program.end: self.end}
        self._targets = [move[1] for move in program.takes if move is not None]
        self._charsets: dict[Charset, int] = {}
        for at, node in enumerate(self._nodes):
            move = program.takes[node]
            assert move is not None
            self._charsets[move[0]] = self._charsets.get(move[0], 0) | 1 << at
        self._same = self._same_targets()
        self._accepting: dict[str, int] = {}
        self._contexts: dict[tuple[int, int], tuple[list[int], int]] = {}
        self._tables: dict[tuple[int, int, int, int], int] = {}

    def accepting(self, char: str) -> int:
        """The nodes that consume this character."""
        found = self._accepting.get(char)
        if found is None:
            found = 0
            for charset, nodes in self._charsets.items():
                if char in charset:
                    found |= nodes
            if len(self._accepting) >= 1_000:
                self._accepting = {}
            self._accepting[char] = found
        return found

    def canonical(self, consumed: int) -> int:
        """The set with one of several nodes that lead to the same node, so that there are fewer states."""
        for nodes, first in self._same:
            if consumed & nodes:
                consumed = consumed & ~nodes | first
        return consumed

    def _same_targets(self) -> list[tuple[int, int]]:
        groups: dict[int, int] = {}
        for at, target in enumerate(self._targets):
            groups[target] = groups.get(target, 0) | 1 << at
        found = [(nodes, nodes & -nodes) for nodes in groups.values() if nodes & (nodes - 1)]
        return found if len(found) <= _MAX_SAME else []  # it costs time for each

    def reach(self, consumed: int, before: int, after: int) -> int:
        """The nodes that are reachable without input after these have consumed, or from the beginning."""
        if self.size > _MAX_MASKS:
            return self._walk(consumed, before, after)
        context = self._contexts.get((before, after))
        if context is None:
            context = self._contexts[before, after] = self._closures(before, after)
        follow, found = context
        tables = self._tables
        for group, byte in enumerate(consumed.to_bytes((self.size + 7) // 8, "little")):
            if byte:
                key = (before, after, group, byte)
                nodes = tables.get(key)
                found |= self._union(key, follow) if nodes is None else nodes
        return found

    def _union(self, key: tuple[int, int, int, int], follow: list[int]) -> int:
        _, _, group, byte = key
        found = 0
        for at in range(8):
            if byte >> at & 1:
                found |= follow[group * 8 + at]
        if len(self._tables) >= _MAX_TABLES * 300 // (self.size + 300):
            self._tables = {}
        self._tables[key] = found
        return found

    def _walk(self, consumed: int, before: int, after: int) -> int:
        starts = [self._program.begin]
        digits = bin(consumed)
        at = digits.find("1", 2)
        while at >= 0:
            starts.append(self._targets[len(digits) - 1 - at])
            at = digits.find("1", at + 1)
        reached = bytearray(self.size // 8 + 1)
        for node in self._program.reach(starts, before, after, set()):
            place = self._bits[node].bit_length() - 1
            reached[place >> 3] |= 1 << (place & 7)
        return int.from_bytes(reached, "little")

    def _closures(self, before: int, after: int) -> tuple[list[int], int]:
        """For each consuming node what follows it between these neighbours, and what begins there."""
        known = self._program.closures(self._bits, before, after)
        return [known[target] for target in self._targets], known[self._program.begin]


def miss_steps(size: int) -> int:
    """The steps of one uncached transition in a program with this number of consuming nodes."""
    return 20 + size // 4 if size <= _MAX_MASKS else 10 * size


class _State(dict[str, "_State"]):
    """A DFA state: a set of nodes as a bit mask, the class of the preceding character, and the cached transitions."""

    __slots__ = ("before", "machine", "nodes")

    def __init__(self, machine: "Automaton", nodes: int, before: int) -> None:
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
        self._follow = FollowSets(self._program)
        self._found = _State(self, 0, EDGE)
        self._start = _State(self, 0, EDGE)
        self._sets: dict[tuple[int, int], _State] = {}
        self._remembered = 0
        # What one uncached transition takes, in steps of the budget: a lookup for eight nodes, or a visit of each.
        self.miss_steps = miss_steps(self._follow.size)

    def matches(self, text: str) -> bool:
        """Whether the expression matches somewhere in the text; takes time linear in the length of the text."""
        at, found = self._start, self._found
        charge(len(text) >> 1)
        for char in text:
            at = at[char]
            if at is found:
                return True
        return at[_END] is found

    def follow(self, at: _State, char: str) -> _State:
        """The next state for a character; cached."""
        charge(self.miss_steps)
        if self._remembered >= _MAX_CACHED:
            self._forget()
        follow, after = self._follow, neighbour_of(char)
        reached = follow.reach(at.nodes, at.before, after)
        if reached & follow.end:
            found = self._found
        else:
            found = self._set(follow.canonical(reached & follow.accepting(char)) if char else 0, after)
        at[char] = found
        self._remembered += 1
        return found

    def _set(self, nodes: int, before: int) -> _State:
        found = self._sets.get((nodes, before))
        if found is None:
            found = self._sets[nodes, before] = _State(self, nodes, before)
            self._remembered += 1 + (nodes.bit_length() >> 6)
        return found

    def _forget(self) -> None:
        """Drops the cache. A match that is in one of the old states continues with it, also in another thread."""
        self._start = _State(self, 0, EDGE)
        self._sets = {}
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
            charge(_VISIT_STEPS * len(seen))
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
