"""What a node knows of its Pods, kept beside their processes, so that the next manager finds these.

The status of a Pod tells others; it comes too late to tell us: between the birth of a process and the write of a status
a manager can die. A record is written before anything else can happen, and is there until the Pod has gone.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from levelset_local.node.known import PodKnown

__all__ = ["FolderRecords", "MemoryRecords", "Records"]

_SUFFIX: Final = ".json"


class Records(ABC):
    """Where a node keeps what it knows of each Pod, by its uid. Nothing here waits."""

    @abstractmethod
    def load(self) -> None:
        """Reads what an earlier manager has left; for a thread, and before anything else."""

    @abstractmethod
    def save(self, known: PodKnown) -> None:
        """Keeps what is known of a Pod instead of what was."""

    @abstractmethod
    def find(self, uid: str) -> PodKnown | None:
        """What is known of a Pod; None if nothing is."""

    @abstractmethod
    def remove(self, uid: str) -> None:
        """Forgets a Pod; it is no error if it was never heard of."""

    @abstractmethod
    def all(self) -> Iterable[PodKnown]:
        """What is known of every Pod."""

    @abstractmethod
    def of_name(self, namespace: str | None, name: str) -> list[PodKnown]:
        """What is known of the Pods that have, or had, this name."""


class MemoryRecords(Records):
    """Records that are lost with the process, unless somebody else holds them."""

    def __init__(self) -> None:
        self._known: dict[str, PodKnown] = {}
        self._named: dict[tuple[str | None, str], set[str]] = {}

    def load(self) -> None:
        """Finds what is there already."""

    def save(self, known: PodKnown) -> None:
        """Keeps what is known of a Pod instead of what was."""
        self._known[known.uid] = known
        self._named.setdefault((known.namespace, known.name), set()).add(known.uid)

    def find(self, uid: str) -> PodKnown | None:
        """What is known of a Pod; None if nothing is."""
        return self._known.get(uid)

    def remove(self, uid: str) -> None:
        """Forgets a Pod; it is no error if it was never heard of."""
        known = self._known.pop(uid, None)
        if known is None:
            return
        name = known.namespace, known.name
        self._named[name].discard(uid)
        if not self._named[name]:
            del self._named[name]

    def all(self) -> Iterable[PodKnown]:
        """What is known of every Pod."""
        return list(self._known.values())

    def of_name(self, namespace: str | None, name: str) -> list[PodKnown]:
        """What is known of the Pods that have, or had, this name."""
        return [self._known[uid] for uid in sorted(self._named.get((namespace, name), ()))]


class FolderRecords(MemoryRecords):
    """Records as files of a folder; a write of one is a few hundred bytes, which wait for no disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def load(self) -> None:
        """Reads what an earlier manager has left; a record that cannot be read is none."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            known = _read(path)
            if known is not None and known.uid == path.stem and self.find(known.uid) is None:
                super().save(known)

    def save(self, known: PodKnown) -> None:
        """Keeps what is known of a Pod, also on disk, unless that is there already."""
        if self.find(known.uid) == known:
            return
        super().save(known)
        path = self._folder / f"{known.uid}{_SUFFIX}"
        new = path.with_suffix(".new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, msgspec.json.encode(known))
        finally:
            os.close(file)
        new.replace(path)

    def remove(self, uid: str) -> None:
        """Forgets a Pod, also on disk."""
        super().remove(uid)
        (self._folder / f"{uid}{_SUFFIX}").unlink(missing_ok=True)


def _read(path: Path) -> PodKnown | None:
    """A record; None if it cannot be read: the status then says what there was."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=PodKnown)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
