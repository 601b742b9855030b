"""Detects hot loops: a controller that is woken by its own writes, or two writers that fight over a field.

The detector only counts writes at first. When an object is written suspiciously often, the caller passes the object
before a write, as it was read or is cached, and the response to the write: the difference names the field. Nothing is
read from the API server for it; `HotLoopDetector` says what is missed because of that.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from levelset.objects.json_tree import Tree, format_path, is_list, is_map, same
from levelset.objects.ref import Ref
from levelset.runtime.cache.keys import is_older

__all__ = ["HotLoop", "HotLoopDetector", "differences", "managers_of"]

Tokens = tuple[str, ...]

_IGNORED: Final[dict[Tokens, frozenset[str]]] = {
    (): frozenset({"apiVersion", "kind"}),  # servers leave them out of the items of a list
    ("metadata",): frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"}),
}
_MAX_FIELDS: Final = 50


class HotLoop(msgspec.Struct, frozen=True):
    """A field that is written over and over: of which object, how often, and by which field managers.

    With `is_fight` another writer reverts what the controller writes; `managers` are all of them, the controller first,
    as far as their names are known.
    """

    ref: Ref[Any]
    field: str
    managers: tuple[str, ...]
    times: int
    seconds: float
    is_fight: bool

    def __str__(self) -> str:
        how = f"{self.ref}: {self.field} was written {self.times} times in {self.seconds:.0f} seconds"
        if not self.is_fight:
            return f"{how} by {self.managers[0]}, which is woken by its own writes: write only on a difference"
        others = " and ".join(self.managers[1:]) or "an unnamed writer"
        return f"{how} by {self.managers[0]} and reverted each time by {others}: let only one of them write it"


class HotLoopDetector:
    """Finds hot loops, and reports each object once.

    A hot loop is a field that changed `fights` times from the same value to the same value, or an object that was
    written `writes` times because of its own change while no other writer wrote it; both within `within` seconds. The
    latest writes of at most `most` objects are tracked, and those of the last `within` seconds only.

    It sees what the caller read, what the cache has, and the responses to writes. So it misses

    - the writes of an object that is neither cached as a whole and without a transform, nor written in the version that
      was read (`set_status`, `set_condition`, `save` and `update` of a typed object);
    - a write that is sent while the cache does not show the one before it, and a fight with such writes in between;
    - a change of another writer that the cache has not shown when it is reverted;
    - the name of the other writer, unless the cache keeps managed fields or an apply conflicts with it: a writer that
      loses its last field to this one is not in the managed fields of the response.
    """

    __slots__ = ("_fights", "_most", "_reported", "_seen", "_within", "_writes")

    def __init__(self, *, fights: int = 4, writes: int = 10, within: float = 60.0, most: int = 10_000) -> None:
        if not (fights >= 2 and writes >= 3 and within > 0 and most > 0):
            raise ValueError(f"{fights=} must be 2 or more, {writes=} 3 or more, {within=} and {most=} above 0")
        self._fights = fights
        self._writes = writes
        self._within = within
        self._most = most
        self._seen: OrderedDict[Ref[Any], _Writes] = OrderedDict()
        self._reported: dict[Ref[Any], None] = {}

    def __len__(self) -> int:
        """How many objects are tracked."""
        return len(self._seen)

    def __contains__(self, ref: object) -> bool:
        """Whether writes of this object are tracked."""
        return ref in self._seen

    def record_write(self, ref: Ref[Any], *, is_own: bool, now: float) -> bool:
        """Counts a write that is about to happen; True if `compare` must be called after it.

        `is_own` says that the reconcile was caused by the controller's own last change.
        """
        table = self._seen
        seen = table.get(ref)
        if seen is None:  # a first write, as most are: nothing to compare yet
            self._forget(now)
            table[ref] = _Writes(self._writes, now, is_own)
            return False
        table.move_to_end(ref)
        if seen.is_over(now - self._within):
            table[ref] = _Writes(self._writes, now, is_own)
            return False
        many = seen.add(now, is_own=is_own)
        return many > 2 and ref not in self._reported and seen.count(now - self._within) > 2

    def _forget(self, now: float) -> None:
        """Makes space for one more: drops the oldest if there are too many, and up to two whose time is over."""
        table = self._seen
        if len(table) >= self._most:
            table.popitem(last=False)
        for _ in range(2):
            if not table or not next(iter(table.values())).is_over(now - self._within):
                return
            table.popitem(last=False)

    def compare(self, ref: Ref[Any], before: Tree, after: Tree, *, manager: str, now: float) -> HotLoop | None:
        """Takes the object before and after a write that `record_write` selected; the hot loop, if it is one.

        `before` is None if it is not known.
        """
        seen = self._seen.get(ref)
        if seen is None or ref in self._reported:
            return None
        if before is None or not seen.follow(_version(before), _version(after)):
            seen.skip(_version(after))
            return None
        since = now - self._within
        own = seen.count_own(since)
        for path, old, new in differences(before, after):
            owners = managers_of(after, path)
            if owners and manager not in owners:
                continue  # changed by another writer since `before`
            change = seen.change(path)
            change.add(old, new, [name for name in managers_of(before, path) if name != manager], now, since)
            field = format_path(path)
            if change.flips >= self._fights:
                managers = (manager, *change.managers)
                return self._report(HotLoop(ref, field, managers, change.flips, now - change.began, is_fight=True))
            if own >= self._writes and change.times >= self._writes - 3:
                return self._report(HotLoop(ref, field, (manager,), own, now - seen.first(since), is_fight=False))
        return None

    def lacks_managers(self, ref: Ref[Any]) -> bool:
        """Whether the next write may be reported as a fight, with a writer whose name is not known."""
        return bool(self._unnamed(ref)) and ref not in self._reported

    def name_managers(self, ref: Ref[Any], managers: Iterable[str]) -> None:
        """Names the other managers of the fields for which `lacks_managers`."""
        for change in self._unnamed(ref):
            change.managers.update(dict.fromkeys(managers))

    def forget(self, ref: Ref[Any]) -> None:
        """Drops an object that is gone."""
        self._seen.pop(ref, None)
        self._reported.pop(ref, None)

    def _unnamed(self, ref: Ref[Any]) -> "list[_Change]":
        seen = self._seen.get(ref)
        if seen is None or seen.changes is None:
            return []
        return [one for one in seen.changes.values() if one.flips >= self._fights - 1 and not one.managers]

    def _report(self, found: HotLoop) -> HotLoop:
        if len(self._reported) >= self._most:
            del self._reported[next(iter(self._reported))]
        self._reported[found.ref] = None
        return found


class _Writes(msgspec.Struct, gc=False):
    """The times of the latest writes of one object; gc=False, as there may be very many of these.

    Most objects are written once: the first write is only added to `all` and `own` when there is a second.
    """

    most: int
    began: float
    is_first_own: bool
    all: tuple[float, ...] = ()
    own: tuple[float, ...] = ()
    version: str | None = None
    changes: dict[Tokens, "_Change"] | None = None

    def add(self, now: float, *, is_own: bool) -> int:
        """Adds a write; returns how many are tracked, however old."""
        if not self.all:
            self.all = (self.began,)
            self.own = self.all if self.is_first_own else ()
        self.all = (*self.all, now)[-self.most :]
        if is_own:
            self.own = (*self.own, now)[-self.most :]
        return len(self.all)

    def follow(self, before: str | None, after: str | None) -> bool:
        """Records a write from one version to another; False if another write of this controller came in between.

        Restarts the count of own writes if another writer wrote in between: then it is no loop of its own.
        """
        if before is not None and self.version is not None and before != self.version:
            if is_older(before, self.version):
                return False
            self.own = self.own[-1:]
        self.version = after
        return True

    def skip(self, after: str | None) -> None:
        """Records a write that cannot be compared; it may have changed any field."""
        self.version = after
        for change in (self.changes or {}).values():
            change.flips = 0

    def change(self, path: Tokens) -> "_Change":
        """What is known about the changes of a field."""
        changes = self.changes = {} if self.changes is None else self.changes
        return changes.setdefault(path, _Change())

    def is_over(self, since: float) -> bool:
        return (self.all[-1] if self.all else self.began) < since

    def count(self, since: float) -> int:
        return sum(when >= since for when in self.all)

    def count_own(self, since: float) -> int:
        return sum(when >= since for when in self.own)

    def first(self, since: float) -> float:
        return next(when for when in self.all if when >= since)


class _Change:
    """How often one field was changed in the same way."""

    __slots__ = ("began", "flips", "managers", "new", "old", "times")

    def __init__(self) -> None:
        self.began = 0.0
        self.flips = 0
        self.times = 0
        self.old: Any = None
        self.new: Any = None
        self.managers: dict[str, None] = {}

    def add(self, old: Any, new: Any, managers: list[str], now: float, since: float) -> None:
        self.times += 1
        if not self.flips or self.began < since or not (same(self.old, old) and same(self.new, new)):
            self.began, self.flips, self.old, self.new = now, 0, old, new
            self.managers = {}
        self.flips += 1
        self.managers.update(dict.fromkeys(managers))


def differences(before: Tree, after: Tree) -> Iterator[tuple[Tokens, Tree, Tree]]:
    """The fields in which two objects differ, with both values; a list is one field, server-set fields are ignored."""
    pending: list[tuple[Tokens, Tree, Tree]] = [((), before, after)]
    found = 0
    while pending and found < _MAX_FIELDS:
        path, old, new = pending.pop()
        if is_map(old) and is_map(new):
            ignored = _IGNORED.get(path, frozenset[str]())
            names = [name for name in dict.fromkeys((*old, *new)) if name not in ignored]
            pending.extend(((*path, name), old.get(name), new.get(name)) for name in reversed(names))
        elif not same(old, new):
            found += 1
            yield path, old, new


def managers_of(tree: Tree, path: Tokens) -> list[str]:
    """The field managers of this field or of something inside it, by the object's managed fields."""
    metadata: Any = tree.get("metadata") if is_map(tree) else None
    entries: Any = metadata.get("managedFields") if is_map(metadata) else None
    found: dict[str, None] = {}
    for entry in entries if is_list(entries) else ():
        if is_map(entry) and _owns(entry.get("fieldsV1"), path):
            found[str(entry.get("manager") or "")] = None
    return [name for name in found if name]


def _version(tree: Tree) -> str | None:
    metadata: Any = tree.get("metadata") if is_map(tree) else None
    found: Any = metadata.get("resourceVersion") if is_map(metadata) else None
    return found if isinstance(found, str) else None


def _owns(fields: Any, path: Tokens) -> bool:
    for name in path:
        if not is_map(fields):
            return False
        if f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
    return True
