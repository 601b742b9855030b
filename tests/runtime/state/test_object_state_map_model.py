"""Random operations on a StateMap, compared with a list of rows that is searched each time."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import KeyTaken
from levelset.objects import Ref
from levelset.runtime.state import StateMap
from tests.runtime.state.runs import Run, ref

Step = tuple[str, int, int]

REFS = [ref(name) for name in "abcd"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "rekey", "forget", "defer", "defer", "apply"]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=50,
)


@dataclass
class Row:
    ref: Ref[object]
    key: int | None
    state: Run | None
    waiting: list[str]


class Both:
    def __init__(self) -> None:
        self.runs: StateMap[object, int, Run] = StateMap(clock=lambda: 0.0)
        self.rows = [Row(one, None, None, []) for one in REFS]
        self.number = 0

    def step(self, kind: str, which: int, key: int) -> None:
        row, self.number = self.rows[which], self.number + 1
        match kind:
            case "put":
                row.state = Run(str(self.number))
                self.runs.put(row.ref, row.state)
            case "rekey":
                self.rekey(row, key or None)
            case "forget":
                assert self.runs.forget(row.ref) == row.state
                row.state, row.key, row.waiting = None, None, []
            case "defer":
                note = str(self.number)
                row.waiting.append(note)
                self.runs.defer(row.ref, lambda run: replace(run, notes=(*run.notes, note)))
            case _:
                if row.state is not None:
                    row.state, row.waiting = replace(row.state, notes=(*row.state.notes, *row.waiting)), []
                assert self.runs.apply_deferred(row.ref) == row.state
        self.compare()

    def rekey(self, row: Row, key: int | None) -> None:
        state = Run("rekeyed")
        if key is not None and any(other.key == key for other in self.rows if other is not row):
            with pytest.raises(KeyTaken):
                self.runs.put(row.ref, state, key=key)
        else:
            self.runs.put(row.ref, state, key=key)
            row.state, row.key = state, key

    def compare(self) -> None:
        runs, known = self.runs, [row for row in self.rows if row.state is not None]
        assert sorted(runs.items()) == sorted((row.ref, row.state) for row in known)
        assert [runs.key_of(row.ref) for row in self.rows] == [row.key for row in self.rows]
        for key in range(4):
            found = [(row.ref, row.state) for row in known if row.key == key]
            assert runs.find(key) == (found[0] if found else None)
        assert [runs.has_deferred(row.ref) for row in self.rows] == [bool(row.waiting) for row in self.rows]
        assert runs.deferred == sum(len(row.waiting) for row in self.rows)


@given(STEPS)
def test_the_map_agrees_with_the_model(steps: list[Step]) -> None:
    both = Both()
    for step in steps:
        both.step(*step)
