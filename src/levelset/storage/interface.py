"""The storage interface: keys, bytes, and one revision that grows with every write.

Its guarantees are those that Kubernetes requires of etcd, so that the same API server can run
on memory, a file or etcd itself. `levelset.testing.contracts.storage` checks them.

- Keys are strings, ordered by their UTF-8 bytes; values are opaque bytes.
- Every successful write, whatever its key, increments the one revision of the store; it never decreases. In a store
  that has other users, their writes increment it, too.
- Writes are serialised, and a write is visible to reads and watches before its caller gets the result.
- Reads may name an older revision until it is compacted; then they raise `Expired`.
- A watch delivers every change after its revision once and in order, from history and then live, or raises `Expired`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import msgspec

from levelset.errors import Cause, Conflict, ServerFailed

__all__ = [
    "Change",
    "Conditions",
    "DamagedValue",
    "FutureRevision",
    "Item",
    "Mismatch",
    "NowaitReader",
    "NowaitWatch",
    "Page",
    "SharedStorage",
    "Storage",
    "StorageUnavailable",
    "TransactionalStorage",
    "UnknownOutcome",
    "Watch",
]


class Item(msgspec.Struct, frozen=True, gc=False):
    """One version of one key."""

    key: str
    value: bytes
    revision: int
    """The revision of the write that created this version."""
    created: int
    """The revision of the write that created the key; a key that is deleted and created again has a new one."""
    version: int
    """The number of writes to the key since it was created: 1, 2, 3, ..."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write: a put (`after` is the new version) or a deletion (`after` is None)."""

    revision: int
    """The revision of the write itself; a deletion has one, too."""
    key: str
    before: Item | None
    after: Item | None


class Conditions(msgspec.Struct, frozen=True):
    """What a write depends on beside its own key, and what else it changes, in one transaction.

    `claims` make a value unique among several writers: the one whose transaction creates the key has it.
    """

    guards: Mapping[str, int] = {}
    """Keys that must be at these revisions (0: absent)."""
    claims: Mapping[str, bytes] = {}
    """Keys that must be absent, and are created with these values."""
    releases: Collection[str] = ()
    """Keys that are removed, if they exist."""


class Page(msgspec.Struct, frozen=True, gc=False):
    """Items in the order of their keys, all as of `revision`."""

    items: tuple[Item, ...]
    revision: int
    more: bool
    remaining: int
    """The number of items after this page."""


class Mismatch(Conflict):
    """The key is not at the revision that the writer expected; `current` is its item, None if it does not exist.

    What to do: read `current`, decide, and write again with its revision.
    """

    def __init__(self, key: str, expected: int, current: Item | None) -> None:
        super().__init__(_mismatch(key, expected, current))
        self.key = key
        self.expected = expected
        self.current = current


class DamagedValue(ServerFailed):
    """The stored value of a key is not what was written: the disk or another program has changed it.

    What to do: delete the object, and create it again from its manifest; or restore a copy of the data file.
    """

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the stored value of {key!r} is damaged: delete it and create it again, or restore a copy of the data file"
        )
        self.key = key


class FutureRevision(ServerFailed):
    """The requested revision is in the future: the caller has seen a newer state than this store has.

    What to do: list again without a version: the data was restored from an older copy, or belongs to another
    server.
    """

    default_code = 504
    default_reason = "Timeout"

    def __init__(self, requested: int, current: int) -> None:
        text = f"Timeout: Too large resource version: {requested}, current: {current}"  # as kube-apiserver
        super().__init__(text, causes=[Cause("", "ResourceVersionTooLarge", "Too large resource version")])
        self.requested = requested
        self.current = current


class StorageUnavailable(ServerFailed):
    """503: the store behind the server cannot be reached; nothing was written.

    What to do: retry later; `/readyz` of the server fails until the store is back.
    """

    default_code = 503
    default_reason = "ServiceUnavailable"


class UnknownOutcome(ServerFailed):
    """504: whether the write of `key` happened, or still will, is not known: the answer of the store is missing.

    What to do: read the key before it is written again; a write with an expected revision can then be repeated, since
    it fails with `Mismatch` if the first one has happened.
    """

    default_code = 504
    default_reason = "Timeout"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"it is not known whether {key!r} was written: {reason}; read it before you write it again")
        self.key = key


class Watch(Protocol):
    """The changes under one prefix, in batches: an async iterator inside an `async with`.

    Iteration ends when the watch or its storage is closed. It raises `Expired` when changes that were not yet handed
    out have been compacted: relist, and watch from the list's revision. One reader at a time.
    """

    @property
    def revision(self) -> int:
        """The revision up to which everything has been delivered, as a bookmark reports it."""
        ...

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Sequence[Change]:
        """The next changes, at least one; waits for them."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    async def close(self) -> None:
        """Ends the watch and wakes its waiting reader; closing twice is allowed."""
        ...


class Storage(Protocol):
    """A store of keys and bytes; used from one event loop.

    A write that is cancelled while it waits may or may not happen; it is atomic either way. If it did, `CancelledWrite`
    is raised. The API server may call `put` and `delete` outside of a task: they may await futures, but must not use
    the current task (`asyncio.timeout`).
    """

    @property
    def revision(self) -> int:
        """The newest revision that reads see; before the first write, the initial revision."""
        ...

    @property
    def compacted(self) -> int:
        """The newest compacted revision; reads and watches may start here or later."""
        ...

    async def get(self, key: str, *, revision: int | None = None) -> Item | None:
        """The item, now or at a revision; None if it does not exist there.

        Raises `Expired` below `compacted` and `FutureRevision` above `revision`, as do `list`, `count` and `watch`.
        """
        ...

    async def list(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        """The items whose keys start with the prefix; `after` is the last key of the page before this one.

        A limit of None or 0 means no limit. For a consistent list, pass the revision of the first page to the others.
        """
        ...

    async def count(self, prefix: str, *, revision: int | None = None) -> int:
        """The number of keys that start with the prefix."""
        ...

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """Writes the value if the key is at revision `expected` (0: if it does not exist; None: in any case).

        Raises `Mismatch` otherwise, and `ServerFailed` if it could not be stored; of these, `UnknownOutcome` says that
        it may have been. The value is retained, not copied.
        """
        ...

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """Removes the key if it is at revision `expected` (None: at any).

        Raises `Mismatch` otherwise, also if a revision was expected and the key is gone; and `NotFound` if none was.
        """
        ...

    def watch(self, prefix: str, *, after: int) -> Watch:
        """The changes under the prefix with a revision greater than `after`.

        `Expired` and `FutureRevision` come from this call, from entering the watch, or from its first batch: the
        backend decides which.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Drops the changes up to and including the revision; no effect if it is compacted already."""
        ...

    async def close(self) -> None:
        """Finishes pending writes, ends all watches, releases files; closing twice is allowed."""
        ...


class NowaitWatch(Watch, Protocol):
    """Optional: a watch that can be read without a task, by one callback for many watchers."""

    def batch_nowait(self) -> Sequence[Change]:
        """The next changes; empty if there are none yet. Raises `Expired`."""
        ...

    def call_when_ready(self, callback: Callable[[], None], /) -> None:
        """Calls back once, in the loop iteration after the next change, or at the end.

        Call `batch_nowait` first: changes that are there already do not trigger the callback.
        """
        ...

    def close_nowait(self) -> None:
        """As `Watch.close`."""
        ...


@runtime_checkable
class NowaitReader(Protocol):
    """The reads of a storage that returns them without waiting, because it holds everything in memory.

    The API server requires them: authentication, watches and every write read in the middle of synchronous code.
    """

    @property
    def damaged(self) -> Collection[str]:
        """The keys whose stored values are damaged: reads do not see them, and only `delete` is possible."""
        ...

    @property
    def write_problem(self) -> str | None:
        """Why only deletions are possible now, such as a full disk; None if everything is."""
        ...

    def find_write_problem(self) -> str | None:
        """As `write_problem`, with the state of the disk."""
        ...

    def get_nowait(self, key: str, *, revision: int | None = None) -> Item | None:
        """As `Storage.get`."""
        ...

    def list_nowait(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        """As `Storage.list`."""
        ...

    def count_nowait(self, prefix: str, *, revision: int | None = None) -> int:
        """As `Storage.count`."""
        ...

    def watch(self, prefix: str, *, after: int) -> NowaitWatch:
        """As `Storage.watch`; `Expired` and `FutureRevision` come from this call."""
        ...


@runtime_checkable
class TransactionalStorage(Protocol):
    """Optional: a storage that decides about a write by other keys, too; several API servers on one need it."""

    async def transact(self, key: str, value: bytes | None, *, expected: int | None, conditions: Conditions) -> Change:
        """A put, or a deletion (no value), that happens with all that the conditions say, or not at all.

        Raises what `Storage.put` and `Storage.delete` raise; the `key` of a `Mismatch` is the first that does not have
        the revision it must have. The changes may share a revision.
        """
        ...

    def listen(self, listener: Callable[[Change], None], /) -> Callable[[], None]:
        """Calls `listener` for each change of any writer when reads begin to see it; returns what ends that.

        The order is that of revisions. It is called before the writer gets its result, and must neither raise nor wait.
        """
        ...


@runtime_checkable
class SharedStorage(Protocol):
    """Optional: a storage that other processes write, too, so that its reads may be behind the newest commit."""

    async def wait_current(self) -> int:
        """Waits until reads see all that was committed before this call; returns the revision of that time.

        Raises `StorageUnavailable`. A read after it is linearizable.
        """
        ...


def _mismatch(key: str, expected: int, current: Item | None) -> str:
    if current is None:
        return f"{key!r} does not exist, but revision {expected} was expected; create it instead"
    if not expected:
        return f"{key!r} exists already, at revision {current.revision}; choose another key, or update it"
    return f"{key!r} is at revision {current.revision}, not {expected}; read it again, decide again, write again"
