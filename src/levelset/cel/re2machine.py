"""Regular expressions run in linear time: a machine that is in many states at once, and remembers where they lead.

Whether a text matches is found by a deterministic automaton that is built as far as the texts need it and thrown away
when it grows too large; where it matches, by walking all states together in order of preference.
"""

from levelset.cel.re2sets import CharSet
from levelset.cel.re2syntax import BadRegex, Choice, Edge, Empty, One, Part, Repeat, Row

__all__ = ["Machine"]

_MAX_SIZE = 12_000  # steps of a program
_MAX_STATES = 1_000
_MAX_MOVES = 50_000
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

Step = tuple[str, object, int, int]  # what to do (one, edge, split, match), with what, where to go, or else where


class _State:
    """One state of the automaton: the steps the machine is at, and what the character before was."""

    __slots__ = ("before", "is_final", "moves", "steps")

    def __init__(self, steps: tuple[int, ...], before: str) -> None:
        self.steps = steps
        self.before = before
        self.moves: dict[str, _State] = {}
        self.is_final: bool | None = None


class Machine:
    """The program of one regular expression."""

    def __init__(self, part: Part) -> None:
        self._program: list[Step] = []
        self._build(part)
        self._program.append(("match", None, 0, 0))
        self._matched = _State((), "")
        self._forget()

    def _forget(self) -> None:
        self._states: dict[tuple[tuple[int, ...], str], _State] = {}
        self._moves = 0
        self._start = _State((0,), "none")
        self._states[(0,), "none"] = self._start

    # Building.

    def _add(self, step: Step) -> int:
        if len(self._program) >= _MAX_SIZE:
            raise BadRegex("expression too large", "")
        self._program.append(step)
        return len(self._program) - 1

    def _build(self, part: Part) -> None:
        """Appends the steps of a part, which end by going on behind themselves."""
        match part:
            case One(chars):
                self._add(("one", chars, len(self._program) + 1, 0))
            case Edge(kind):
                self._add(("edge", kind, len(self._program) + 1, 0))
            case Empty():
                pass
            case Row(parts):
                for each in parts:
                    self._build(each)
            case Choice(parts):
                self._build_choice(parts)
            case Repeat(inner, least, most, is_greedy):
                self._build_repeat(inner, least, most, is_greedy=is_greedy)

    def _build_choice(self, parts: tuple[Part, ...]) -> None:
        ends: list[int] = []
        for each in parts[:-1]:
            split = self._add(("split", None, 0, 0))
            self._build(each)
            ends.append(self._add(("split", None, 0, 0)))
            self._program[split] = ("split", None, split + 1, len(self._program))
        self._build(parts[-1])
        for end in ends:
            self._program[end] = ("split", None, len(self._program), len(self._program))

    def _build_repeat(self, inner: Part, least: int, most: int | None, *, is_greedy: bool) -> None:
        for _ in range(least):
            self._build(inner)
        if most is None:
            split = self._add(("split", None, 0, 0))
            self._build(inner)
            self._add(("split", None, split, split))
            self._fork(split, is_greedy=is_greedy)
            return
        forks: list[int] = []
        for _ in range(most - least):
            forks.append(self._add(("split", None, 0, 0)))
            self._build(inner)
        for fork in forks:
            self._fork(fork, is_greedy=is_greedy)

    def _fork(self, at: int, *, is_greedy: bool) -> None:
        inside, behind = at + 1, len(self._program)
        self._program[at] = ("split", None, inside, behind) if is_greedy else ("split", None, behind, inside)

    # Following the steps that take no character.

    def _reach(self, start: int, before: str, after: str, seen: set[int], found: list[int]) -> None:
        """Adds the steps that wait for a character, in order of preference."""
        waiting = [start]
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            what, which, on, otherwise = self._program[at]
            if what == "split":
                waiting.append(otherwise)
                waiting.append(on)
            elif what == "edge":
                if _is_edge(str(which), before, after):
                    waiting.append(on)
            else:
                found.append(at)

    # Whether.

    def matches(self, text: str) -> bool:
        """Whether some part of the text matches."""
        state, matched = self._start, self._matched
        for char in text:
            following = state.moves.get(char)
            if following is None:
                following = self._move(state, char)
            if following is matched:
                return True
            state = following
        if state.is_final is None:
            state.is_final = self._is_match(self._reached(state, "none"))
        return state.is_final

    def _reached(self, state: _State, after: str) -> list[int]:
        seen: set[int] = set()
        found: list[int] = []
        for step in state.steps:
            self._reach(step, state.before, after, seen, found)
        return found

    def _is_match(self, steps: list[int]) -> bool:
        return any(self._program[step][0] == "match" for step in steps)

    def _move(self, state: _State, char: str) -> _State:
        if len(self._states) > _MAX_STATES or self._moves > _MAX_MOVES:
            self._forget()
        steps = self._reached(state, _sort(char))
        if self._is_match(steps):
            following = self._matched
        else:
            ahead = sorted({0, *(self._program[at][2] for at in steps if self._takes(at, char))})
            key = (tuple(ahead), _sort(char))
            following = self._states.setdefault(key, _State(*key))
        state.moves[char] = following
        self._moves += 1
        return following

    def _takes(self, at: int, char: str) -> bool:
        chars = self._program[at][1]
        return isinstance(chars, CharSet) and chars.has(char)

    # Where.

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The leftmost match from here on, and of those the preferred one."""
        threads: list[tuple[int, int]] = []
        best: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            if best is None:
                threads.append((0, at))
            if not threads:
                break
            before = _sort(text[at - 1]) if at else "none"
            after = _sort(text[at]) if at < len(text) else "none"
            following: list[tuple[int, int]] = []
            seen: set[int] = set()
            for step, since in threads:
                reached: list[int] = []
                self._reach(step, before, after, seen, reached)
                done = self._advance(reached, since, text[at : at + 1], following)
                if done:
                    best = (since, at)
                    break
            threads = following
        return best

    def _advance(self, reached: list[int], since: int, char: str, following: list[tuple[int, int]]) -> bool:
        """Lets each thread take the character; whether one has matched, so that the less preferred end."""
        for at in reached:
            if self._program[at][0] == "match":
                return True
            if char and self._takes(at, char):
                following.append((self._program[at][2], since))
        return False


def _sort(char: str) -> str:
    return "newline" if char == "\n" else "word" if char in _WORD else "other"


def _is_edge(kind: str, before: str, after: str) -> bool:
    if kind == "start":
        return before == "none"
    if kind == "end":
        return after == "none"
    if kind == "line":
        return before in ("none", "newline")
    if kind == "line-end":
        return after in ("none", "newline")
    return ((before == "word") != (after == "word")) == (kind == "word")
