"""Read-your-writes: the writes of this client that a cache has not observed yet.

A cache lags behind the API server by the latency of a watch event, and a client that has just written must not read
the state from before. So each write is recorded here with its resourceVersion and dropped once the watch has reached
that version: an informer sees the versions of its kind in order, so its observed version says which writes it must
have seen, including those of objects that its selector excludes.

A deletion has no version of its own (the response says that it happened, not when), so it is recorded by uid: it is in
the cache once the object with that uid was seen deleted. Nothing here waits, and memory is bounded by `limit`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from levelset.objects.cached_object import Head

__all__ = ["FindHead", "UnseenWrite", "UnseenWrites"]

FindHead = Callable[[str], Head | None]
"""Finds the head of the object that a cache holds under a key."""

_ALL: Final = "*"
"""The entry for writes that may affect every object of a kind; not a valid object key."""
_MAX_DIGITS: Final = 40


class UnseenWrite(msgspec.Struct):
    """The last write of this client to one key that the cache has not observed yet.

    It is observed once the cache has reached `version` and no longer holds the object whose uid is `gone`.

    - `opaque`: a resourceVersion that is not a number; only an equal one observes it.
    - `is_vague`: no version says when it is observed, until one was `learned` from the API server; having seen the
      object deleted is enough then, too.
    - `is_late`: a read waited for it and timed out, or it cannot be waited for.
    - `is_silent`: a selector most likely excludes the object, so no event comes; it counts only if the cache holds an
      older version of the object.
    """

    key: str
    version: int | None = None
    opaque: str | None = None
    gone: str | None = None
    is_vague: bool = False
    is_late: bool = False
    learned: int | None = None
    is_silent: bool = False


class UnseenWrites:
    """The writes of one client that one cache has not observed yet, by key (`namespace/name`, or `name`).

    Of several writes to a key only the last counts. When there are more than `limit` keys, the older ones are folded
    into one entry that every read waits for; of the uids that were seen deleted, the last `limit` are retained. A cache
    with a selector `is_selective`: there are objects it never holds.
    """

    def __init__(self, *, limit: int = 4096, is_selective: bool = False) -> None:
        self._limit = limit
        self._is_selective = is_selective
        self._unseen: OrderedDict[str, UnseenWrite] = OrderedDict()
        self.by_key: Mapping[str, UnseenWrite] = self._unseen
        """The recorded writes by key; always the same mapping, so that a hot path may hold on to it."""
        self.observed: str | None = None
        """The version up to which the cache has everything; after setting it, call `drop_observed`."""
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._deleting: dict[str, str] = {}  # keys of deletions by uid; may have stale entries
        self._observed: int | None = None
        self._lowest: int | None = None
        self._has_late = False  # whether an entry was given up on; it may have been dropped since

    def __len__(self) -> int:
        return sum(not entry.is_silent for entry in self._unseen.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is recorded: then no read has to wait."""
        return not self._unseen

    @property
    def is_stuck(self) -> bool:
        """Whether a read has timed out on a write that is still not observed: waiting for others is pointless then."""
        if self._has_late:
            self._has_late = any(entry.is_late and entry.opaque is None for entry in self._unseen.values())
        return self._has_late

    def record(
        self, key: str, resource_version: str | None, *, uid: str | None = None, held: Head | None, is_outside: bool
    ) -> None:
        """Records a create or update.

        `held` is the cached object under the key. With `is_outside` the cache's selector excludes the object as
        written, so an event comes only if it matched before. Without a version, as after an eviction, there is nothing
        to wait for.
        """
        if not resource_version:
            return
        self.drop_observed()
        version, before = _number(resource_version), self._unseen.get(key)
        if before is not None and before.gone is not None and before.gone == uid:
            return  # the response of an update that came before the deletion, whose response arrived first
        if version is None:
            self._put(UnseenWrite(key, opaque=resource_version, is_late=True))
        elif self._observed is not None and self._observed >= version:
            if before is not None:
                del self._unseen[key]
        else:
            is_silent = is_outside and held is None and (before is None or before.is_silent)
            self._put(UnseenWrite(key, version=max(version, _version(before)), is_silent=is_silent))

    def record_gone(self, key: str, uid: str | None, resource_version: str | None = None, *, held: Head | None) -> None:
        """Records a deletion, by uid and by the last version of the object if the response had them.

        If the cache does not hold that object, either it has seen the deletion already, or it has not even seen the
        creation: only in the first case there is nothing to wait for.
        """
        self.drop_observed()
        before = self._unseen.get(key)
        is_held = held is not None and uid in {None, held.uid}
        if held is not None and uid is None:
            uid = held.uid
        if not is_held and (uid is None or uid in self._gone):
            self._unseen.pop(key, None)
            return
        is_silent = not is_held and self._is_selective and (before is None or before.is_silent)
        version = max(_number(resource_version) or 0, _version(before)) or None
        is_vague = not is_held and not is_silent
        self._put(UnseenWrite(key, version=version, gone=uid, is_vague=is_vague, is_silent=is_silent))

    def record_many(self, resource_version: str | None = None) -> None:
        """Records a write to unnamed objects, such as deletecollection."""
        self.drop_observed()
        self._put(UnseenWrite(_ALL, version=_number(resource_version), is_vague=True))

    def observe(self, resource_version: str | None) -> None:
        """Drops the writes that a cache must hold once it has reached this version."""
        self.observed = resource_version
        self.drop_observed()

    def drop_observed(self) -> None:
        """Drops the writes that a cache must hold at the version `observed`.

        A version that goes back means that the API server lost data (a restore): earlier writes no longer count.
        """
        version = _number(self.observed)
        if version is None or version == self._observed:
            return
        if self._observed is not None and version < self._observed:
            self._unseen.clear()
        self._observed = version
        if self._lowest is not None and version >= self._lowest:
            self._sweep()

    def observe_gone(self, uid: str) -> None:
        """Records an object that the cache saw deleted, and drops its deletion."""
        self._gone[uid] = None
        self._gone.move_to_end(uid)
        entry = self._unseen.get(self._deleting.pop(uid, ""))
        if entry is not None and entry.gone == uid:
            del self._unseen[entry.key]
        if len(self._gone) > self._limit:
            self._gone.popitem(last=False)

    def unseen(self, key: str, find: FindHead) -> list[UnseenWrite]:
        """The writes that a read of this key has to wait for."""
        return self._still((key, _ALL), find)

    def unseen_in(self, namespace: str | None, find: FindHead) -> list[UnseenWrite]:
        """The writes that a list of this namespace has to wait for; None means all namespaces."""
        if namespace is None:
            return self._still(tuple(self._unseen), find)
        start = f"{namespace}/"
        return self._still([key for key in self._unseen if key == _ALL or key.startswith(start)], find)

    def give_up(self, entries: Iterable[UnseenWrite]) -> None:
        """Marks these writes as late: no further read waits for them."""
        for entry in entries:
            entry.is_late = self._has_late = True

    def settle(self, entries: Iterable[UnseenWrite], resource_version: str) -> None:
        """Gives the vague ones among these a version that the API server reported after they were recorded."""
        version = _number(resource_version)
        for entry in entries:
            if entry.is_vague and version is not None:
                entry.learned = entry.version = max(version, entry.version or 0)
                entry.is_vague = False
        self._sweep()

    def _sweep(self) -> None:
        """Drops what is observed, and computes the lowest version at which the next sweep can drop something."""
        lowest: int | None = None
        for entry in list(self._unseen.values()):
            is_plain = entry.gone is None or entry.learned is not None
            if entry.version is None or entry.is_vague or not is_plain:
                continue  # a version alone is not enough
            if self._is_observed(entry.version):
                del self._unseen[entry.key]
            elif lowest is None or entry.version < lowest:
                lowest = entry.version
        self._lowest = lowest

    def _still(self, keys: Iterable[str], find: FindHead) -> list[UnseenWrite]:
        found: list[UnseenWrite] = []
        for key in keys:
            entry = self._unseen.get(key)
            if entry is None:
                continue
            head = find(key)
            if entry.is_silent and head is None:
                continue
            if key != _ALL and self._is_shown(entry, head):
                del self._unseen[key]
            else:
                found.append(entry)
        return found

    def _is_shown(self, entry: UnseenWrite, head: Head | None) -> bool:
        if entry.opaque is not None:
            return head is not None and head.resource_version == entry.opaque
        if entry.gone is not None:
            if head is not None and head.uid == entry.gone:
                return False
            if entry.gone in self._gone:
                return True
        return not entry.is_vague and self._is_reached_by(entry, head)

    def _is_reached_by(self, entry: UnseenWrite, head: Head | None) -> bool:
        if entry.version is None or self._is_observed(entry.version):
            return True
        shown = None if head is None else _number(head.resource_version)
        return shown is not None and shown >= entry.version

    def _is_observed(self, version: int) -> bool:
        return self._observed is not None and self._observed >= version

    def _put(self, entry: UnseenWrite) -> None:
        self._unseen.pop(entry.key, None)  # moves the key to the end: entries are ordered by their last write
        self._unseen[entry.key] = entry
        if entry.gone is not None:
            self._deleting[entry.gone] = entry.key
            if len(self._deleting) > 2 * self._limit:
                self._deleting = {one.gone: one.key for one in self._unseen.values() if one.gone is not None}
        if entry.version is not None and (self._lowest is None or entry.version < self._lowest):
            self._lowest = entry.version
        if len(self._unseen) > self._limit:
            self._fold()

    def _fold(self) -> None:
        """Folds the older half into one entry, which is observed when the last of them is."""
        oldest = [key for key in self._unseen if key != _ALL][: self._limit // 2]
        folded = [entry for entry in map(self._unseen.pop, oldest) if not entry.is_silent]
        whole = self._unseen.pop(_ALL, None)
        folded += [whole] if whole is not None else []
        if not folded:
            return
        versions = [one.version for one in folded if one.version is not None]
        is_vague = any(one.is_vague or one.gone is not None or one.opaque is not None for one in folded)
        self._unseen[_ALL] = UnseenWrite(_ALL, version=max(versions, default=None), is_vague=is_vague)


def _version(entry: UnseenWrite | None) -> int:
    return 0 if entry is None or entry.version is None else entry.version


def _number(resource_version: str | None) -> int | None:
    """The version as a number; None if it cannot be compared."""
    if not resource_version or len(resource_version) > _MAX_DIGITS or not resource_version.isdecimal():
        return None
    return int(resource_version)
