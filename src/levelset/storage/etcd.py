"""The etcd storage backend: reads from a mirror in memory, writes as transactions on the revision of their key.

A write returns when etcd has committed it and the mirror shows it, so that reads and watches after it see it. Several
servers may use one etcd: what one writes, the others see by their watches.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

from levelset.errors import ConfigError, Malformed, NotFound, ServerFailed
from levelset.storage.etcd_client import EtcdClient, EtcdCredentials
from levelset.storage.etcd_compaction import Compactor
from levelset.storage.etcd_failures import CallFailed, Verdict
from levelset.storage.etcd_messages import KeySpace, WriteOutcome
from levelset.storage.etcd_mirror import EtcdMirror
from levelset.storage.group_commit import PendingWrite
from levelset.storage.history import Limits
from levelset.storage.interface import (
    Change,
    Conditions,
    FutureRevision,
    Item,
    Mismatch,
    Page,
    StorageUnavailable,
    UnknownOutcome,
)
from levelset.storage.key_index import check_key
from levelset.storage.mvcc import MvccReads, plan_write

__all__ = ["EtcdStorage"]

FilePath = str | os.PathLike[str]

_DEFAULT_PREFIX: Final = "/levelset"
_COMPACTION_SECONDS: Final = 300.0
_START_SECONDS: Final = 60.0  # for the changes since the last compaction to arrive


class EtcdStorage(MvccReads):
    """A `Storage` in etcd, 3.4 or newer, reached at `endpoints`: URLs, or one text of them with commas.

    Key `/a` is stored as `/levelset/a`, by another `prefix` elsewhere. `cacert` is the file with the authority of the
    servers' certificates, `cert` and `key` those of the client; `user` and `password` log in.

    Calls end after `timeout` seconds. A write that etcd has not answered then raises `UnknownOutcome`, and one that was
    not sent `StorageUnavailable`. etcd is compacted every `compaction` seconds (None: never) up to where it was that
    long ago, by one of the servers that use it.

    ```python
    async with EtcdStorage("https://a:2379,https://b:2379", cacert="ca.pem") as storage, ApiServer(storage) as server:
        ...
    ```

    Entering connects and loads all keys; `start` does so without `async with`. Reads return what the mirror has: all
    that this server has written, and what others have as soon as it arrives. After `wait_current` they see everything
    that was committed before. Needs `levelset[etcd]`.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str],
        *,
        prefix: str = _DEFAULT_PREFIX,
        cacert: FilePath | None = None,
        cert: FilePath | None = None,
        key: FilePath | None = None,
        user: str | None = None,
        password: str | None = None,
        timeout: float = 5.0,
        compaction: float | None = _COMPACTION_SECONDS,
        history_changes: int = 100_000,
        history_bytes: int = 64 * 1024 * 1024,
        history_age: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        limits = Limits(changes=history_changes, bytes=history_bytes, age=history_age)
        super().__init__(limits=limits)
        self._keys = KeySpace(prefix)
        credentials = EtcdCredentials(_path(cacert), _path(cert), _path(key), user, password)
        self._client = EtcdClient(endpoints, credentials, timeout=timeout)
        ages = history_age is not None
        self._mirror = EtcdMirror(
            self._client, self._keys, limits=limits, ring=self._ring, clock=(clock or _monotonic) if ages else None
        )
        self._compaction = compaction
        self._tasks: list[asyncio.Task[None]] = []
        self._writes: set[asyncio.Task[None]] = set()
        self._space_problem: str | None = None

    @property
    def prefix(self) -> str:
        """What the keys in etcd begin with."""
        return self._keys.prefix.decode()

    async def start(self) -> None:
        """Connects, loads all keys and follows etcd; raises ConfigError if that is not possible."""
        if self._tasks:
            return
        try:
            await self._follow()
        except BaseException:
            await self.close()
            raise
        if self._compaction is not None:
            compactor = Compactor(self._client, self._keys, period=self._compaction)
            self._tasks.append(asyncio.create_task(compactor.run(), name="etcd compaction"))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    def find_write_problem(self) -> str | None:
        """Why writes fail now: etcd does not answer, or has no space."""
        return self._mirror.problem or self._space_problem

    async def get(self, key: str, *, revision: int | None = None) -> Item | None:
        """As `Storage.get`; waits for a revision that the mirror has not reached yet."""
        await self._wait_for_read(revision)
        return self.get_nowait(key, revision=revision)

    async def list(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        """As `Storage.list`; waits for a revision that the mirror has not reached yet."""
        await self._wait_for_read(revision)
        return self.list_nowait(prefix, limit=limit, after=after, revision=revision)

    async def count(self, prefix: str, *, revision: int | None = None) -> int:
        """As `Storage.count`; waits for a revision that the mirror has not reached yet."""
        await self._wait_for_read(revision)
        return self.count_nowait(prefix, revision=revision)

    async def wait_current(self) -> int:
        """Waits until reads see all that was committed before this call; returns etcd's revision.

        Raises `StorageUnavailable` if etcd does not answer in time.
        """
        try:
            return await self._mirror.wait_current()
        except CallFailed as failure:
            raise self._unavailable("the current revision is not known", failure.reason) from failure

    async def put(self, key: str, value: bytes, *, expected: int | None) -> Item:
        """As `Storage.put`; returns when etcd has committed it and reads see it."""
        change = await self.start_write(key, value, expected=expected)
        assert change.after is not None  # a put's change always has one
        return change.after

    async def delete(self, key: str, *, expected: int | None) -> Change:
        """As `Storage.delete`; returns when etcd has committed it and reads see it."""
        return await self.start_write(key, None, expected=expected)

    async def transact(self, key: str, value: bytes | None, *, expected: int | None, conditions: Conditions) -> Change:
        """As `TransactionalStorage.transact`; the changes have one revision."""
        return await self.start_write(key, value, expected=expected, conditions=conditions)

    def start_write(
        self, key: str, value: bytes | None, *, expected: int | None, conditions: Conditions | None = None
    ) -> PendingWrite:
        """Starts a put, or a deletion (no value), which can no longer be cancelled.

        `Mismatch` comes from this call if the mirror shows already that the write would fail.
        """
        self._check_write(key, expected)
        result = PendingWrite()
        # A task of its own: the caller may have none, and a write goes on when its caller is cancelled.
        task = asyncio.get_running_loop().create_task(
            self._write(key, value, expected, conditions, result), name="etcd write"
        )
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return result

    async def compact(self, revision: int) -> None:
        """As `Storage.compact`, in etcd and in the mirror."""
        if revision > self.revision:
            await self.wait_current()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return
        try:
            await self._client.compact(revision)
        except CallFailed as failure:
            raise self._unavailable(f"history up to {revision} was not compacted", failure.reason) from failure
        self._mvcc.history.compact(revision)

    async def close(self) -> None:
        """Finishes pending writes, ends all watches, and closes the connections."""
        self._closed = True
        if self._writes:
            await asyncio.wait(self._writes)
        await super().close()
        tasks: list[asyncio.Task[Any]] = [*self._tasks, *self._mirror.queries()]
        self._tasks = []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _follow(self) -> None:
        """Loads all keys, and starts to follow etcd."""
        self._loop = asyncio.get_running_loop()
        where = f"The storage in etcd at {self._client.addresses}"
        try:
            await self._client.start()
            current = await self._mirror.load()
        except CallFailed as failure:
            text = f"{where} cannot be opened: {failure.reason}. Check the URLs, the certificates and the user."
            raise ConfigError(text) from failure
        self._mvcc = self._mirror.store
        self._tasks.append(asyncio.create_task(self._mirror.follow(), name="etcd mirror"))
        if not await self._mirror.wait_following(current, within=_START_SECONDS):
            raise ConfigError(f"{where} cannot be followed: {self._mirror.problem or 'its changes did not arrive'}.")

    def _check_write(self, key: str, expected: int | None) -> None:
        if self._closed:
            raise ServerFailed(f"the storage in etcd is closed: {key!r} was not written")
        if not self._tasks:
            raise StorageUnavailable(f"{key!r} was not written: {self._mirror.problem}")
        if not key.startswith("/"):
            raise Malformed(f"the storage key {key!r} must begin with a slash in etcd", position=0)
        if not key.isascii():
            check_key(key)
        # A revision that the mirror has passed does not come back; one that it has not reached may be the current one.
        if expected and expected <= self.revision:
            current = self._mvcc.items.get(key)
            if current is None or current.revision != expected:
                raise Mismatch(key, expected, current)

    async def _wait_for_read(self, revision: int | None) -> None:
        if revision is not None and revision > self.revision:
            await self.wait_current()

    async def _write(
        self, key: str, value: bytes | None, expected: int | None, conditions: Conditions | None, result: PendingWrite
    ) -> None:
        try:
            change = await self._commit(key, value, expected, conditions)
        except CallFailed as failure:
            result.set_exception(self._write_failure(key, failure))
        except asyncio.CancelledError:
            # Only the end of the event loop does this. The caller cannot be cancelled while it waits for the result.
            result.set_exception(UnknownOutcome(key, "the server was stopped before etcd has answered"))
            raise
        except Exception as error:  # noqa: BLE001 - it is for the caller
            result.set_exception(error)
        else:
            result.set_result(change)

    async def _commit(
        self, key: str, value: bytes | None, expected: int | None, conditions: Conditions | None
    ) -> Change:
        before = self._mvcc.items.get(key)
        is_known = expected is not None and expected == (0 if before is None else before.revision)
        outcome = await self._client.write(
            self._keys.encode(key),
            value,
            expected=expected,
            wants_previous=not is_known,
            conditions=None if conditions is None else self._keys.encode_conditions(conditions),
        )
        found = None if outcome.found is None else self._keys.item(outcome.found)
        if not outcome.is_done:
            await self._lose(key, expected, outcome, conditions)
        if not is_known:
            before = found
        self._space_problem = self._space_problem if value is None else None
        change = plan_write(before, key, value, None, outcome.revision - 1)
        if conditions is None or not (conditions.claims or conditions.releases):
            self._mirror.add_own(change)  # otherwise the event has all changes of the transaction
        if not await self._mirror.wait_revision(change.revision, within=self._client.timeout):
            reason = f"etcd has committed it at revision {change.revision}, but this server does not see it yet"
            raise UnknownOutcome(key, reason)
        return change

    async def _lose(self, key: str, expected: int | None, outcome: WriteOutcome, conditions: Conditions | None) -> None:
        """Raises for a write that etcd has refused, when the mirror shows why: the caller reads there next."""
        wanted = [(key, expected)]
        if conditions is not None:
            wanted += [*conditions.guards.items(), *((claim, 0) for claim in conditions.claims)]
        for (one, revision), stored in zip(wanted, (outcome.found, *outcome.others), strict=True):
            if revision == (0 if stored is None else stored.revision) or (revision is None and stored is not None):
                continue
            # The event of a key that is there comes by itself; the newest revision may be another application's.
            until = outcome.revision if stored is None else stored.revision
            await self._mirror.wait_revision(until, within=self._client.timeout, solicits=stored is None)
            if revision is None:
                raise NotFound(f"{one!r} does not exist; there is nothing to delete")
            raise Mismatch(one, revision, None if stored is None else self._keys.item(stored))
        raise ServerFailed(f"etcd has refused to write {key!r}, and does not say why")

    def _write_failure(self, key: str, failure: CallFailed) -> ServerFailed:
        error = self._failed_write(key, failure)
        error.__cause__ = failure
        return error

    def _failed_write(self, key: str, failure: CallFailed) -> ServerFailed:
        match failure.verdict:
            case Verdict.UNKNOWN:
                return UnknownOutcome(key, f"etcd has not answered ({failure.reason})")
            case Verdict.UNSENT:
                return self._unavailable(f"{key!r} was not written", failure.reason)
            case Verdict.NO_SPACE:
                self._space_problem = "etcd has no space: compact and defragment it, and disarm its alarm"
                return ServerFailed(f"{key!r} was not written: {self._space_problem}")
            case Verdict.TOO_LARGE:
                text = f"{key!r} is too large for etcd: make it smaller, or raise --max-request-bytes of etcd"
                return ServerFailed(text, code=413, reason="RequestEntityTooLarge")
            case _:
                return ServerFailed(f"etcd has refused to write {key!r}: {failure.reason}; check the user's roles")

    def _unavailable(self, consequence: str, reason: str) -> StorageUnavailable:
        return StorageUnavailable(f"{consequence}: etcd cannot be reached ({reason}); retry later")


def _path(path: FilePath | None) -> Path | None:
    return None if path is None else Path(path)


def _monotonic() -> float:
    return asyncio.get_running_loop().time()
