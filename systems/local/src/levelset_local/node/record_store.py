"""Stores the records of a node's Pods beside their processes, so that the next manager finds them.

The status of a Pod would come too late for this: a manager can die after it has started a process and before it has
written the status. A record is written synchronously, right after the process has started, and stays until the Pod is
gone.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from levelset_local.node.pod_record import PodRecord

__all__ = ["FileRecordStore", "MemoryRecordStore", "RecordStore"]

_SUFFIX: Final = ".json"


class RecordStore(ABC):
    """The records of a node's Pods by their uids. No method is asynchronous."""

    @abstractmethod
    def load(self) -> None:
        """Reads what an earlier manager has stored; blocks, so call it in a thread, before any other method."""

    @abstractmethod
    def save(self, record: PodRecord) -> None:
        """Stores the record of a Pod, replacing an earlier one."""

    @abstractmethod
    def find(self, uid: str) -> PodRecord | None:
        """The record of a Pod, or None."""

    @abstractmethod
    def remove(self, uid: str) -> None:
        """Removes the record of a Pod; does nothing if there is none."""

    @abstractmethod
    def all(self) -> Iterable[PodRecord]:
        """The records of all Pods."""

    @abstractmethod
    def of_name(self, namespace: str | None, name: str) -> list[PodRecord]:
        """The records of all Pods that have or had this name."""


class MemoryRecordStore(RecordStore):
    """A store in memory, lost with the process."""

    def __init__(self) -> None:
        self._records: dict[str, PodRecord] = {}
        self._named: dict[tuple[str | None, str], set[str]] = {}

    def load(self) -> None:
        """Does nothing: there is nothing to read."""

    def save(self, record: PodRecord) -> None:
        """Stores the record of a Pod, replacing an earlier one."""
        self._records[record.uid] = record
        self._named.setdefault((record.namespace, record.name), set()).add(record.uid)

    def find(self, uid: str) -> PodRecord | None:
        """The record of a Pod, or None."""
        return self._records.get(uid)

    def remove(self, uid: str) -> None:
        """Removes the record of a Pod; does nothing if there is none."""
        record = self._records.pop(uid, None)
        if record is None:
            return
        name = record.namespace, record.name
        self._named[name].discard(uid)
        if not self._named[name]:
            del self._named[name]

    def all(self) -> Iterable[PodRecord]:
        """The records of all Pods."""
        return list(self._records.values())

    def of_name(self, namespace: str | None, name: str) -> list[PodRecord]:
        """The records of all Pods that have or had this name."""
        return [self._records[uid] for uid in sorted(self._named.get((namespace, name), ()))]


class FileRecordStore(MemoryRecordStore):
    """A store with one JSON file (0600) for each Pod; a write is a few hundred bytes and is not synced to disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def load(self) -> None:
        """Reads what an earlier manager has stored; files that cannot be decoded are ignored."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            record = _read(path)
            if record is not None and record.uid == path.stem and self.find(record.uid) is None:
                super().save(record)

    def save(self, record: PodRecord) -> None:
        """Stores the record of a Pod in memory and on disk; writes nothing if it is unchanged."""
        if self.find(record.uid) == record:
            return
        super().save(record)
        path = self._folder / f"{record.uid}{_SUFFIX}"
        new = path.with_suffix(".new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, msgspec.json.encode(record))
        finally:
            os.close(file)
        new.replace(path)

    def remove(self, uid: str) -> None:
        """Removes the record of a Pod from memory and from disk."""
        super().remove(uid)
        (self._folder / f"{uid}{_SUFFIX}").unlink(missing_ok=True)


def _read(path: Path) -> PodRecord | None:
    """A stored record; None if it cannot be decoded: it is then rebuilt from the Pod's status."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=PodRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
