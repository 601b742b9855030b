"""What any storage promises: keys, bytes, and one revision that grows by one with every write.

The promises are those that Kubernetes asks of etcd, so that memory, a file and etcd itself can stand behind the same
API server. `levelset.testing.contracts.storage` checks them.

- Keys are texts, ordered by their UTF-8 bytes; values are bytes and are never looked into.
- Every successful write, whatever its key, moves the one revision of the store forward by one; it never goes back.
- Writes are serialised, and a write is seen by reads and watches no later than its caller has the answer.
- Reads may ask for an older revision until it is compacted; then they get `Expired`.
- A watch hands out every change after its revision once and in order, from history and then live, or says `Expired`.
"""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import msgspec

from levelset.errors import Cause, Conflict, ServerFailed

__all__ = [
    "Change",
    "FutureRevision",
    "Item",
    "Landing",
    "LandingWriter",
    "Mismatch",
    "NowaitReader",
    "NowaitWatch",
    "NowaitWriter",
    "Page",
    "Storage",
    "Watch",
]


class Item(msgspec.Struct, frozen=True, gc=False):
    """One version of one key."""

    key: str
    value: bytes
    revision: int
    """The write that made this version."""
    created: int
    """The write that made the key; a key that was deleted and made again has a new one."""
    version: int
    """How many writes the key has seen since it was created: 1, 2, 3, ..."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write: a put (`after` is the new version) or a deletion (`after` is None)."""

    revision: int
    """The revision of the write itself; a deletion has one of its own."""
    key: str
    before: Item | None
    after: Item | None


class Page(msgspec.Struct, frozen=True, gc=False):
    """Items in the order of their keys, all as they were at `revision`."""

    items: tuple[Item, ...]
    revision: int
    more: bool
    remaining: int
    """How many items come after this page."""


class Mismatch(Conflict):
    """The key is not at the revision the writer expected; `current` is what it is (None: it does not exist)."""

    def __init__(self, key: str, expected: int, current: Item | None) -> None:
        super().__init__(_mismatch(key, expected, current))
        self.key = key
        self.expected = expected
        self.current = current


class FutureRevision(ServerFailed):
    """The revision asked for has not happened yet: the caller knows a newer store than this one."""

    default_code = 504
    default_reason = "Timeout"

    def __init__(self, asked: int, current: int) -> None:
        text = f"revision {asked} is in the future: the store is at {current}; ask again later or without a revision"
        super().__init__(text, causes=[Cause("", "ResourceVersionTooLarge", "Too large resource version")])
        self.asked = asked
        self.current = current


class Watch(Protocol):
    """The changes under one prefix, in batches: an async iterator inside an `async with`.

    Iteration ends when the watch or its storage is closed. It raises `Expired` when changes that were not yet handed
    out have been compacted: list again, and watch from the list's revision. One reader at a time.
    """

    @property
    def revision(self) -> int:
        """Everything up to this revision has been handed out: what a bookmark may promise."""
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
        """Ends the watch and whoever waits for its next batch; closing twice is allowed."""
        ...


class Storage(Protocol):
    """A place for keys and bytes; used from one event loop.

    A write that is cancelled while it waits may or may not happen; it never happens by half.
    """

    @property
    def revision(self) -> int:
        """The newest revision that reads see; before the first write, the one after which the store begins."""
        ...

    @property
    def compacted(self) -> int:
        """The newest revision whose change is forgotten; reads and watches may start here or later."""
        ...

    async def get(self, key: str, *, revision: int | None = None) -> Item | None:
        """The item, now or as it was at a revision; None if there is (or was) none.

        Raises `Expired` below `compacted` and `FutureRevision` above `revision`, as do `list`, `count` and `watch`.
        """
        ...

    async def list(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        """The items whose keys start with the prefix; `after` is the last key of the page before this one.

        A limit of None or 0 is none. To read all pages as of one moment, pass the first one's revision to the others.
        """
        ...

    async def count(self, prefix: str, *, revision: int | None = None) -> int:
        """How many keys start with the prefix."""
        ...

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """Writes the value if the key is at revision `expected` (0: if it does not exist; None: in any case).

        Raises `Mismatch` otherwise, and `ServerFailed` if it could not be stored. The value is kept, not copied.
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
        """Forgets the changes up to and including the revision; what is forgotten already stays so."""
        ...

    async def close(self) -> None:
        """Finishes the writes under way, ends all watches, releases files; closing twice is allowed."""
        ...


class NowaitWatch(Watch, Protocol):
    """Optional: a watch that can be read without a task, by one callback for many watchers."""

    def batch_nowait(self) -> Sequence[Change]:
        """The next changes; empty if there are none yet. Raises `Expired`."""
        ...

    def call_when_ready(self, callback: Callable[[], None], /) -> None:
        """Calls back once, in the turn of the loop after the next change, or at the end.

        Ask `batch_nowait` first: changes that are there already call nobody.
        """
        ...

    def close_nowait(self) -> None:
        """As `Watch.close`."""
        ...


@runtime_checkable
class NowaitReader(Protocol):
    """Optional: a storage that answers reads at once, because it has everything in memory."""

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
class NowaitWriter(Protocol):
    """Optional: a storage that has finished a write when the call returns."""

    def put_nowait(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `Storage.put`."""
        ...

    def delete_nowait(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`."""
        ...


class Landing(asyncio.Future[Change]):
    """The end of a write that is on its way, and that nothing can call back.

    A task that is cancelled while it awaits this goes on waiting, and is told of its cancellation when the write is
    over: that is what asyncio does if a future refuses.
    """

    _call: Callable[["Landing"], object] | None = None

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - the signature is asyncio's
        """Refuses."""
        return False

    def when_landed(self, call: Callable[["Landing"], object]) -> None:
        """Has `call`, which must not raise, called when the write is over: at once then, not in the next turn."""
        self._call = call

    def set_result(self, result: Change) -> None:
        """The write is done."""
        super().set_result(result)
        call = self._call
        if call is not None:
            call(self)

    def set_exception(self, exception: type[BaseException] | BaseException) -> None:
        """The write has failed."""
        super().set_exception(exception)
        if self._call is not None:
            self._call(self)


@runtime_checkable
class LandingWriter(Protocol):
    """Optional: a storage that accepts a write at once, and tells later how it ended.

    `Mismatch` and `NotFound` come from the call or from the landing.
    """

    def put_landing(self, key: str, value: bytes, *, expected: int | None) -> Landing:
        """As `Storage.put`."""
        ...

    def delete_landing(self, key: str, *, expected: int | None) -> Landing:
        """As `Storage.delete`."""
        ...


def _mismatch(key: str, expected: int, current: Item | None) -> str:
    if current is None:
        return f"{key!r} does not exist, but revision {expected} was expected; create it, or leave it alone"
    if not expected:
        return f"{key!r} exists already, at revision {current.revision}; choose another key, or update it"
    return f"{key!r} is at revision {current.revision}, not {expected}; read it again, decide again, write again"
