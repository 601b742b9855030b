"""The search for a linearization of the operations on one object, after Wing, Gong and Lowe.

The object is a register with create, get, update by resourceVersion and delete. A history is linearizable if every
operation can be given one moment between its call and its return, so that one after the other they are what the object
would have done. An operation without a result (the connection was cut) may have happened at any time after its call, or
never.

Lowe, "Testing for linearizability" (2017); porcupine, which etcd uses, does the same search.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

__all__ = ["ABSENT", "FOREVER", "Operation", "State", "find_unlinearizable", "is_linearizable", "step"]

FOREVER: Final = 1 << 62


class State(NamedTuple):
    """The object: no value if it does not exist; `revision` is None if the write that made it had no result."""

    value: str | None = None
    revision: int | None = 0
    floor: int = 0
    """A write has a revision above it."""


ABSENT: Final = State()

Outcome = Literal["done", "conflict", "absent", "unknown"]
"""`conflict`: another version is there, or an object exists that was to be created; `absent`: there is none."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one object, between two moments of one clock."""

    key: str
    verb: Literal["create", "get", "update", "delete"]
    called: int
    returned: int
    outcome: Outcome
    value: str | None = None
    """What was written, or read."""
    expected: int | None = None
    """The revision that an update or a delete requires; None: any."""
    revision: int | None = None
    """That of the version that was written or read; a delete has none."""
    client: str = ""


def find_unlinearizable(history: Iterable[Operation]) -> str | None:
    """The first key whose operations cannot be linearized."""
    keys: dict[str, list[Operation]] = {}
    for operation in history:
        keys.setdefault(operation.key, []).append(operation)
    return next((key for key, operations in sorted(keys.items()) if not is_linearizable(operations)), None)


def is_linearizable(operations: Sequence[Operation]) -> bool:
    """Whether the operations on one object have a linearization.

    Depth first: the next operation is one that was called before any pending one returned. A set of operations that
    led to the same state before is not tried again. Reads that were cut prove nothing.
    """
    relevant = [one for one in operations if one.outcome != "unknown" or one.verb != "get"]
    relevant.sort(key=lambda one: (one.called, one.returned))
    required = sum(1 << place for place, one in enumerate(relevant) if one.outcome != "unknown")
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(0, ABSENT)]
    while stack:
        done, state = stack.pop()
        if done & required == required:
            return True
        for place, after in _candidates(relevant, done, state):
            reached = (done | 1 << place, after)
            if reached not in seen:
                seen.add(reached)
                stack.append(reached)
    return False


def _candidates(operations: Sequence[Operation], done: int, state: State) -> Iterable[tuple[int, State]]:
    """The operations that can be the next one, with the states after them; the earliest last, to be tried first."""
    end = FOREVER
    found: list[tuple[int, State]] = []
    for place, operation in enumerate(operations):
        if done >> place & 1:
            continue
        if operation.called > end:
            break
        if operation.outcome != "unknown":
            end = min(end, operation.returned)
        after = step(state, operation)
        if after is not None:
            found.append((place, after))
    found.reverse()
    return found


def step(state: State, operation: Operation) -> State | None:
    """The state after an operation; None if the object would not have responded like this."""
    match operation.outcome:
        case "absent":
            return state if state.value is None else None
        case "conflict":
            return state if _conflicts(state, operation) else None
        case "done" if operation.verb == "get":
            return _read(state, operation)
        case _:
            return _write(state, operation)


def _conflicts(state: State, operation: Operation) -> bool:
    if operation.verb == "create":
        return state.value is not None
    return state.value is not None and (state.revision is None or state.revision != operation.expected)


def _read(state: State, operation: Operation) -> State | None:
    if operation.value is None or state.value != operation.value or operation.revision is None:
        return None
    return _known(state, operation.revision)


def _known(state: State, revision: int) -> State | None:
    """The state if its revision is, or can be, this one."""
    if state.revision == revision:
        return state
    if state.revision is None and revision > state.floor:
        return State(state.value, revision, revision)
    return None


def _write(state: State, operation: Operation) -> State | None:
    if (state.value is None) != (operation.verb == "create"):
        return None
    if operation.expected is not None:
        expected = _known(state, operation.expected)
        if expected is None:
            return None
        state = expected
    if operation.verb == "delete":
        return State(None, 0, state.floor)
    if operation.revision is None:
        return State(operation.value, None, state.floor)
    if operation.revision <= state.floor:
        return None
    return State(operation.value, operation.revision, operation.revision)
