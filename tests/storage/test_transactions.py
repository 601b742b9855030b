"""Transactions over several keys, in memory and in SQLite."""

from pathlib import Path
from typing import Any

import pytest

from levelset.storage import Conditions, MemoryStorage, SqliteStorage, TransactionalStorage
from levelset.testing.contracts.transactions import TRANSACTION_CONTRACT


@pytest.mark.parametrize("check", TRANSACTION_CONTRACT, ids=lambda check: check.__name__)
async def test_memory_satisfies_the_contract(check: Any):
    async with MemoryStorage() as storage:
        await check(storage)


@pytest.mark.parametrize("check", TRANSACTION_CONTRACT, ids=lambda check: check.__name__)
async def test_sqlite_satisfies_the_contract(check: Any, tmp_path: Path):
    async with await SqliteStorage.open(tmp_path / "a.db") as storage:
        await check(storage)


async def test_the_changes_of_a_transaction_survive_a_restart_together(tmp_path: Path):
    async with await SqliteStorage.open(tmp_path / "a.db") as storage:
        assert isinstance(storage, TransactionalStorage)
        made = await storage.transact("/a", b"1", expected=0, conditions=Conditions(claims={"/claim": b"a"}))
        await storage.transact("/b", b"1", expected=0, conditions=Conditions(releases=["/claim"]))
    async with await SqliteStorage.open(tmp_path / "a.db") as storage:
        assert [item.key for item in (await storage.list("/")).items] == ["/a", "/b"]
        before = await storage.list("/", revision=made.revision)
        assert [item.key for item in before.items] == ["/a", "/claim"]


async def test_a_transaction_that_loses_to_a_pending_write_waits_for_it(tmp_path: Path):
    async with await SqliteStorage.open(tmp_path / "a.db") as storage:
        first = storage.start_write("/a", b"1", expected=0, conditions=Conditions(claims={"/claim": b"a"}))
        second = storage.start_write("/b", b"1", expected=0, conditions=Conditions(claims={"/claim": b"b"}))
        assert not second.done()
        await first
        with pytest.raises(Exception, match="/claim"):
            await second
        assert storage.get_nowait("/b") is None
