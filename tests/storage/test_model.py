"""Random histories, compared with a model that stores a copy of everything at each revision."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from levelset.errors import Expired
from levelset.storage import MemoryStorage, Mismatch, SqliteStorage
from levelset.storage.mvcc import MvccWatch

T = TypeVar("T")
keys = st.sampled_from(
    [f"/{resource}/{space}{name}" for resource in "pr" for space in ("", "x/", "y/") for name in "ab"]
)
prefixes = st.sampled_from(["", "/p", "/p/", "/p/x", "/p/x/", "/p/x/a", "/q"])
values = st.binary(max_size=4)


class StorageMachine(RuleBasedStateMachine):
    """Each rule applies one operation to the storage and to the model, and compares the results."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = TemporaryDirectory()
        self.storage = self.open()
        self.model: list[dict[str, tuple[bytes, int]]] = [{}]
        self.touched: list[str] = [""]
        self.watches = [(prefix, self.watch(prefix, 0)) for prefix in ("", "/p/", "/p/x/a")]
        self.seen: dict[str, list[tuple[int, str]]] = {prefix: [] for prefix, _ in self.watches}

    def open(self) -> MemoryStorage | SqliteStorage:
        return MemoryStorage()

    def watch(self, prefix: str, after: int) -> MvccWatch:
        async def make() -> MvccWatch:
            return self.storage.watch(prefix, after=after)

        return self.run(make())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    @property
    def now(self) -> dict[str, tuple[bytes, int]]:
        return self.model[-1]

    def wrote(self, key: str, state: dict[str, tuple[bytes, int]]) -> None:
        self.model.append(state)
        self.touched.append(key)

    @rule(key=keys, value=values, stale=st.booleans(), blind=st.booleans())
    def put(self, key, value, stale, blind):
        current = self.now.get(key, (b"", 0))[1]
        expected = None if blind else current + 100 if stale else current
        if stale and not blind:
            with pytest.raises(Mismatch):
                self.run(self.storage.put(key, value, expected=expected))
            return
        item = self.run(self.storage.put(key, value, expected=expected))
        assert item.revision == len(self.model)
        self.wrote(key, {**self.now, key: (value, item.revision)})

    @rule(key=keys)
    def delete(self, key):
        if key not in self.now:
            return
        change = self.run(self.storage.delete(key, expected=self.now[key][1]))
        assert change.revision == len(self.model)
        self.wrote(key, {other: item for other, item in self.now.items() if other != key})

    @rule(back=st.integers(0, 8))
    def compact(self, back):
        self.run(self.storage.compact(max(0, self.storage.revision - back)))

    @rule(prefix=prefixes, back=st.integers(0, 12), limit=st.none() | st.integers(1, 4), after=st.none() | keys)
    def read(self, prefix, back, limit, after):
        revision = max(0, self.storage.revision - back)
        if revision < self.storage.compacted:
            with pytest.raises(Expired):
                self.run(self.storage.list(prefix, revision=revision))
            return
        state = self.model[revision]
        wanted = sorted(key for key in state if key.startswith(prefix))
        rest = [key for key in wanted if after is None or key > after]
        page = self.run(self.storage.list(prefix, limit=limit, after=after, revision=revision))
        assert [(item.key, (item.value, item.revision)) for item in page.items] == [
            (key, state[key]) for key in rest[:limit]
        ]
        assert (page.remaining, page.revision) == (len(rest) - len(page.items), revision)
        assert self.run(self.storage.count(prefix, revision=revision)) == len(wanted)

    @rule()
    def follow(self):
        for index, (prefix, watch) in enumerate(self.watches):
            try:
                while batch := watch.batch_nowait():
                    self.seen[prefix] += [(change.revision, change.key) for change in batch]
            except Expired:
                start = self.storage.compacted
                self.seen[prefix] = self.changes(prefix)[: -len(self.changes(prefix, start)) or None]
                watch.close_nowait()
                self.watches[index] = (prefix, self.watch(prefix, start))
                return
            assert self.seen[prefix] == self.changes(prefix)

    def changes(self, prefix: str, after: int = 0) -> list[tuple[int, str]]:
        return [(n, key) for n, key in enumerate(self.touched) if n > after and key.startswith(prefix)]

    @invariant()
    def the_revision_counts_the_writes(self):
        assert self.storage.revision == len(self.model) - 1

    def teardown(self):
        self.run(self.storage.close())
        self.loop.close()
        self.folder.cleanup()


class SqliteMachine(StorageMachine):
    """The same for SQLite, with occasional restarts."""

    def open(self) -> SqliteStorage:
        return SqliteStorage(Path(self.folder.name) / "data.db", history_changes=16)

    @rule()
    def restart(self):
        self.run(self.storage.close())
        self.storage = self.open()
        self.watches = [
            (prefix, self.watch(prefix, max(self.storage.compacted, watch.revision))) for prefix, watch in self.watches
        ]
        for prefix, watch in self.watches:
            self.seen[prefix] = [one for one in self.changes(prefix) if one[0] <= watch.revision]


TestMemory = StorageMachine.TestCase
TestMemory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
