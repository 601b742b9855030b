"""The ledger of own writes: what this client has written and a cache has not shown yet.

A cache lags behind the server by the time that an event takes. Whoever has just written must not read the state from
before. So each write is noted here with the version that the server gave it, and struck out once the watch has come as
far: an informer sees the versions of its kind in order, so what it has observed says which writes it must have seen,
also those of objects that its selector never lets through.

A removal has no version (the server answers that it went, not when), so it is known by uid: it is in the cache once
the object with that uid was seen going. Nothing here waits, and nothing grows without bound: see `most`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from levelset.objects.cached_object import Head

__all__ = ["Find", "OwnWrites", "Unseen"]

Find = Callable[[str], Head | None]
"""Finds the head of the object that a cache holds under a key."""

_ALL: Final = "*"
"""The entry for writes that concern every object of a kind; no key looks like this."""
_LONGEST: Final = 40


class Unseen(msgspec.Struct):
    """The last own write to one key that the cache has not shown yet.

    It is seen once the cache has come to `version`, and no longer holds the object whose uid is `gone`. With
    `is_vague` no version says when that is, until one was `learned` from the server; to have seen the object going is
    enough then, too. An entry that `is_late` was waited for in vain, or cannot be waited for. One that `is_silent` most
    likely never shows, as a selector keeps it out; it counts if the cache comes to show something older.
    """

    key: str
    version: int | None = None
    opaque: str | None = None
    gone: str | None = None
    is_vague: bool = False
    is_late: bool = False
    learned: int | None = None
    is_silent: bool = False


class OwnWrites:
    """The writes of one client that one cache has not shown yet, by key (`namespace/name`, or `name`).

    Of several writes to a key only the last counts. When more than `most` keys wait, the older ones are put together
    into one entry that every read waits for; of the uids that were seen going, the last `most` are remembered. The
    cache of a selector `is_selective`: there are objects it never shows.
    """

    def __init__(self, *, most: int = 4096, is_selective: bool = False) -> None:
        self._most = most
        self._is_selective = is_selective
        self._unseen: OrderedDict[str, Unseen] = OrderedDict()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._going: dict[str, str] = {}  # the keys of removals by uid; may name some that are struck out
        self._observed: int | None = None
        self._lowest: int | None = None
        self._has_late = False  # whether anything was given up, and may still be here

    def __len__(self) -> int:
        return sum(not entry.is_silent for entry in self._unseen.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is noted: then no read has to wait for anything."""
        return not self._unseen

    @property
    def ledger(self) -> Mapping[str, Unseen]:
        """What is noted, by key; always the same mapping, for whoever looks at it very often."""
        return self._unseen

    @property
    def is_stuck(self) -> bool:
        """Whether the cache has not come as far as it should have: to wait for more of it would be in vain."""
        if self._has_late:
            self._has_late = any(entry.is_late and entry.opaque is None for entry in self._unseen.values())
        return self._has_late

    def record(
        self, key: str, resource_version: str | None, *, uid: str | None = None, held: Head | None, is_outside: bool
    ) -> None:
        """Notes a write that left the object there.

        `held` is what the cache shows under the key now; with `is_outside` the cache's selector does not let the object
        through as it is now, so that an event comes only if it did before. Without a version, as after an eviction,
        there is nothing that could be waited for.
        """
        if not resource_version:
            return
        version, before = _number(resource_version), self._unseen.get(key)
        if before is not None and before.gone is not None and before.gone == uid:
            return  # the answer of a write that came before the removal, which was answered first
        if version is None:
            self._put(Unseen(key, opaque=resource_version, is_late=True))
        elif self._observed is not None and self._observed >= version:
            if before is not None:
                del self._unseen[key]
        else:
            is_silent = is_outside and held is None and (before is None or before.is_silent)
            self._put(Unseen(key, version=max(version, _version(before)), is_silent=is_silent))

    def record_gone(self, key: str, uid: str | None, resource_version: str | None = None, *, held: Head | None) -> None:
        """Notes a removal, by uid if the answer told it, and by the last version of the object if that was told.

        If the cache does not hold that object, either it has seen it going already, or it has yet to see it coming:
        only in the first case there is nothing to wait for.
        """
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
        self._put(Unseen(key, version=version, gone=uid, is_vague=is_vague, is_silent=is_silent))

    def record_many(self, resource_version: str | None = None) -> None:
        """Notes a write to objects that were not named, such as the removal of a collection."""
        self._put(Unseen(_ALL, version=_number(resource_version), is_vague=True))

    def observe(self, resource_version: str | None) -> None:
        """Strikes out what a cache must show once it has come as far as this version.

        Versions that go back mean that the server lost its memory: what was written before does not count any more.
        """
        version = _number(resource_version)
        if version is None or version == self._observed:
            return
        if self._observed is not None and version < self._observed:
            self._unseen.clear()
        self._observed = version
        if self._lowest is not None and version >= self._lowest:
            self._sweep()

    def observe_gone(self, uids: Iterable[str]) -> None:
        """Remembers the objects that the cache saw going, and strikes out their removals."""
        for uid in uids:
            self._gone[uid] = None
            self._gone.move_to_end(uid)
            entry = self._unseen.get(self._going.pop(uid, ""))
            if entry is not None and entry.gone == uid:
                del self._unseen[entry.key]
        while len(self._gone) > self._most:
            self._gone.popitem(last=False)

    def unseen(self, key: str, find: Find) -> list[Unseen]:
        """What a read of this key has to wait for."""
        return self._still((key, _ALL), find)

    def unseen_in(self, namespace: str | None, find: Find) -> list[Unseen]:
        """What a read of this namespace has to wait for; None means all of them."""
        if namespace is None:
            return self._still(tuple(self._unseen), find)
        start = f"{namespace}/"
        return self._still([key for key in self._unseen if key == _ALL or key.startswith(start)], find)

    def give_up(self, entries: Iterable[Unseen]) -> None:
        """These were waited for with patience: from now on they are late."""
        for entry in entries:
            entry.is_late = self._has_late = True

    def settle(self, entries: Iterable[Unseen], resource_version: str) -> None:
        """Gives the vague ones among these a version: that of the server, asked after they were noted."""
        version = _number(resource_version)
        for entry in entries:
            if entry.is_vague and version is not None:
                entry.learned = entry.version = max(version, entry.version or 0)
                entry.is_vague = False
        self._sweep()

    def _sweep(self) -> None:
        """Strikes out what is reached, and notes which version is worth the next look."""
        lowest: int | None = None
        for entry in list(self._unseen.values()):
            is_plain = entry.gone is None or entry.learned is not None
            if entry.version is None or entry.is_vague or not is_plain:
                continue  # it takes more than a version
            if self._is_observed(entry.version):
                del self._unseen[entry.key]
            elif lowest is None or entry.version < lowest:
                lowest = entry.version
        self._lowest = lowest

    def _still(self, keys: Iterable[str], find: Find) -> list[Unseen]:
        found: list[Unseen] = []
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

    def _is_shown(self, entry: Unseen, head: Head | None) -> bool:
        if entry.opaque is not None:
            return head is not None and head.resource_version == entry.opaque
        if entry.gone is not None:
            if head is not None and head.uid == entry.gone:
                return False
            if entry.gone in self._gone:
                return True
        return not entry.is_vague and self._is_reached_by(entry, head)

    def _is_reached_by(self, entry: Unseen, head: Head | None) -> bool:
        if entry.version is None or self._is_observed(entry.version):
            return True
        shown = None if head is None else _number(head.resource_version)
        return shown is not None and shown >= entry.version

    def _is_observed(self, version: int) -> bool:
        return self._observed is not None and self._observed >= version

    def _put(self, entry: Unseen) -> None:
        self._unseen.pop(entry.key, None)  # what is written again is the youngest
        self._unseen[entry.key] = entry
        if entry.gone is not None:
            self._going[entry.gone] = entry.key
            if len(self._going) > 2 * self._most:
                self._going = {one.gone: one.key for one in self._unseen.values() if one.gone is not None}
        if entry.version is not None and (self._lowest is None or entry.version < self._lowest):
            self._lowest = entry.version
        if len(self._unseen) > self._most:
            self._fold()

    def _fold(self) -> None:
        """Makes one entry of the older half: it is seen when the last of them is."""
        oldest = [key for key in self._unseen if key != _ALL][: self._most // 2]
        folded = [entry for entry in map(self._unseen.pop, oldest) if not entry.is_silent]
        whole = self._unseen.pop(_ALL, None)
        folded += [whole] if whole is not None else []
        if not folded:
            return
        versions = [one.version for one in folded if one.version is not None]
        is_vague = any(one.is_vague or one.gone is not None or one.opaque is not None for one in folded)
        self._unseen[_ALL] = Unseen(_ALL, version=max(versions, default=None), is_vague=is_vague)


def _version(entry: Unseen | None) -> int:
    return 0 if entry is None or entry.version is None else entry.version


def _number(resource_version: str | None) -> int | None:
    """The version as a number; None if it is none that could be compared."""
    if not resource_version or len(resource_version) > _LONGEST or not resource_version.isdecimal():
        return None
    return int(resource_version)
