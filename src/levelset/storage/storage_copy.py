"""Copies everything from one storage to an empty one, and verifies it: data files, dumps and etcd.

Items are copied in the order of their revisions. A data file and a dump keep the revisions themselves; etcd numbers its
writes itself, so that only their order stays. The history is not copied: clients list again.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from levelset.errors import ConfigError, ServerFailed
from levelset.storage.dump_file import read_dump, write_dump
from levelset.storage.etcd import EtcdStorage
from levelset.storage.interface import Item
from levelset.storage.sqlite import SqliteStorage
from levelset.storage.sqlite_repair import check_file, write_items

__all__ = ["CopyReport", "DataFile", "DumpFile", "EtcdKeys", "Place", "Snapshot", "copy_storage"]


class Snapshot(NamedTuple):
    """All items of a storage at one revision, in the order of their revisions."""

    items: Sequence[Item]
    revision: int


class CopyReport(NamedTuple):
    """What was copied."""

    items: int
    bytes: int
    source_revision: int
    target_revision: int
    keeps_revisions: bool
    """Whether every item has the revision that it had, and not only their order."""


class Place(Protocol):
    """Where a storage is that can be copied, or copied to."""

    keeps_revisions: bool
    """Whether items that are written have the revisions that they had."""

    async def read(self) -> Snapshot:
        """Everything that is there; raises ConfigError if it is damaged or in use."""
        ...

    async def check_empty(self) -> None:
        """Raises ConfigError if there is anything."""
        ...

    async def write(self, snapshot: Snapshot, progress: Callable[[int], None]) -> None:
        """Writes everything, and reports how many items are written."""
        ...


async def copy_storage(source: Place, target: Place, *, progress: Callable[[int], None] = lambda _: None) -> CopyReport:
    """Copies everything, reads it again from the target and compares; raises ConfigError and ServerFailed.

    A target that is not empty is refused before anything is written. `progress` gets the number of items that are
    written.
    """
    snapshot = await source.read()
    await target.check_empty()
    await target.write(snapshot, progress)
    found = await target.read()
    _verify(snapshot, found, keeps_revisions=target.keeps_revisions)
    size = sum(len(item.value) for item in snapshot.items)
    return CopyReport(len(snapshot.items), size, snapshot.revision, found.revision, target.keeps_revisions)


class DataFile:
    """The data file of a server that is not running."""

    keeps_revisions = True

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> Snapshot:
        """As `Place.read`; a damaged file is refused."""
        report = await asyncio.to_thread(check_file, self._path)
        if not report.is_intact:
            raise ConfigError(
                f"{self._path} is damaged: see `levelset storage check {self._path}`, and repair it first."
            )
        async with await SqliteStorage.open(self._path) as storage:
            return _snapshot(storage.list_nowait("").items, storage.revision)

    async def check_empty(self) -> None:
        """As `Place.check_empty`: the file must not exist."""
        if await asyncio.to_thread(self._path.exists):
            raise ConfigError(f"The target {self._path} exists: choose another file, or remove it.")

    async def write(self, snapshot: Snapshot, progress: Callable[[int], None]) -> None:
        """As `Place.write`."""
        try:
            await asyncio.to_thread(write_items, self._path, snapshot.items, snapshot.revision)
        except sqlite3.Error as error:
            raise ServerFailed(f"{self._path} could not be written: {error}; remove it, and try again") from error
        progress(len(snapshot.items))


class DumpFile:
    """A dump as lines of JSON; see `dump_file.py`."""

    keeps_revisions = True

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> Snapshot:
        """As `Place.read`."""
        return _snapshot(*await asyncio.to_thread(read_dump, self._path))

    async def check_empty(self) -> None:
        """As `Place.check_empty`: the file must not exist."""
        if await asyncio.to_thread(self._path.exists):
            raise ConfigError(f"The target {self._path} exists: choose another file, or remove it.")

    async def write(self, snapshot: Snapshot, progress: Callable[[int], None]) -> None:
        """As `Place.write`."""
        await asyncio.to_thread(write_dump, self._path, snapshot.items, snapshot.revision)
        progress(len(snapshot.items))


class EtcdKeys:
    """The keys under a prefix of etcd; `connect` makes a storage that is not started."""

    keeps_revisions = False

    def __init__(self, connect: Callable[[], EtcdStorage]) -> None:
        self._connect = connect

    async def read(self) -> Snapshot:
        """As `Place.read`."""
        async with self._connect() as storage:
            return _snapshot(storage.list_nowait("").items, storage.revision)

    async def check_empty(self) -> None:
        """As `Place.check_empty`."""
        async with self._connect() as storage:
            if number := storage.count_nowait(""):
                text = f"The target in etcd has {number} keys under {storage.prefix}:"
                raise ConfigError(f"{text} choose another prefix, or remove them.")

    async def write(self, snapshot: Snapshot, progress: Callable[[int], None]) -> None:
        """As `Place.write`; one after the other, so that their revisions have the same order."""
        async with self._connect() as storage:
            for number, item in enumerate(snapshot.items):
                try:
                    await storage.put(item.key, item.value, expected=0)
                except ServerFailed as error:
                    text = f"only {number} of {len(snapshot.items)} items were copied to etcd: {error.message};"
                    raise ServerFailed(f"{text} remove the keys under {storage.prefix}, and copy again") from error
                progress(number + 1)


def _snapshot(items: Sequence[Item], revision: int) -> Snapshot:
    return Snapshot(sorted(items, key=lambda item: (item.revision, item.key)), revision)


def _verify(source: Snapshot, target: Snapshot, *, keeps_revisions: bool) -> None:
    if keeps_revisions:
        is_same = source == target
    else:
        is_same = [(item.key, item.value) for item in source.items] == [(item.key, item.value) for item in target.items]
    if not is_same:
        raise ServerFailed(
            f"the copy differs from its source: {len(target.items)} items instead of {len(source.items)}, or others;"
            " was one of them written meanwhile? Remove the target, and copy again"
        )
