"""Objects that never come to rest: a controller that follows its own writes, or two writers that fight over a field.

The detector is told of each write and only counts. When an object is written suspiciously often, it asks for what was
there before and what is there after; then it sees which field it is, and the managed fields say who else writes it.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from levelset.objects.json_tree import Tree, format_path, is_list, is_map, same
from levelset.objects.ref import Ref

__all__ = ["HotLoop", "HotLoops", "differences", "managers_of"]

Tokens = tuple[str, ...]

_OURS: Final = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"})
_MOST_FIELDS: Final = 50
_QUIET: Final = 10


class HotLoop(msgspec.Struct, frozen=True):
    """A field that does not come to rest: of which object, written how often, and by whom.

    `is_fight` says that somebody puts back what the controller changes; `managers` are the names of all who do it, the
    controller's first.
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
            return f"{how} by {self.managers[0]}, which its own writes wake: write only what is different"
        others = " and ".join(self.managers[1:]) or "somebody without a name"
        return f"{how} by {self.managers[0]} and each time put back by {others}: let only one of them write it"


class HotLoops:
    """Finds them, and reports each object once.

    They are a field that went `fights` times from the same value to the same, and an object that was written `writes`
    times because of its own change while nobody else wrote it, both within `within` seconds. Of at most `most` objects
    the latest writes are remembered.
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
        """Of how many objects writes are remembered."""
        return len(self._seen)

    def __contains__(self, ref: object) -> bool:
        """Whether a write of this object is remembered."""
        return ref in self._seen

    def note(self, ref: Ref[Any], *, is_own: bool, now: float) -> bool:
        """Counts a write that is about to happen; True if `compare` should be told what it changed.

        `is_own` says that the controller looks at the object because of its own last change.
        """
        table = self._seen
        seen = table.get(ref)
        if seen is None:  # a first write, as most are: nothing can be told from it
            table[ref] = _Writes(self._writes, now, is_own)
            if len(table) > self._most:
                table.popitem(last=False)
            return False
        table.move_to_end(ref)
        if seen.is_over(now - self._within):
            table[ref] = _Writes(self._writes, now, is_own)
            return False
        many = seen.add(now, is_own=is_own)
        if seen.quiet > 0:
            seen.quiet -= 1
            return False
        return many > 2 and ref not in self._reported and seen.count(now - self._within) > 2

    def compare(self, ref: Ref[Any], before: Tree, after: Tree, *, manager: str, now: float) -> HotLoop | None:
        """What a write that `note` asked about has changed; the loop, if it is one."""
        seen = self._seen.get(ref)
        if seen is None or ref in self._reported:
            return None
        since = now - self._within
        seen.follow(_version(before), _version(after))
        changes = seen.changes = {} if seen.changes is None else seen.changes
        seen.quiet = _QUIET  # unless something is different: who writes in vain is not looked at each time
        for path, old, new in differences(before, after):
            seen.quiet = 0
            others = [name for name in managers_of(before, path) if name != manager]
            change = changes.setdefault(path, _Change())
            change.add(old, new, others, now, since)
            field, own = format_path(path), seen.count_own(since)
            if change.flips >= self._fights:
                managers = (manager, *change.managers)
                return self._report(HotLoop(ref, field, managers, change.flips, now - change.began, is_fight=True))
            if own >= self._writes and change.times >= self._writes - 3:
                return self._report(HotLoop(ref, field, (manager,), own, now - seen.first(since), is_fight=False))
        return None

    def forget(self, ref: Ref[Any]) -> None:
        """The object is gone."""
        self._seen.pop(ref, None)
        self._reported.pop(ref, None)

    def _report(self, found: HotLoop) -> HotLoop:
        if len(self._reported) >= self._most:
            del self._reported[next(iter(self._reported))]
        self._reported[found.ref] = None
        return found


class _Writes(msgspec.Struct, gc=False):
    """The latest writes of one object: nothing that a garbage collector has to look at, as there are many of these.

    Most objects are written once: the first write is only added to `all` and `own` when there is another.
    """

    most: int
    began: float
    is_first_own: bool
    all: tuple[float, ...] = ()
    own: tuple[float, ...] = ()
    version: str | None = None
    changes: dict[Tokens, "_Change"] | None = None
    quiet: int = 0

    def add(self, now: float, *, is_own: bool) -> int:
        """Adds one; how many are remembered, however old."""
        if not self.all:
            self.all = (self.began,)
            self.own = self.all if self.is_first_own else ()
        self.all = (*self.all, now)[-self.most :]
        if is_own:
            self.own = (*self.own, now)[-self.most :]
        return len(self.all)

    def follow(self, before: str | None, after: str | None) -> None:
        """Somebody else wrote since the last own write: what follows is the answer to that, and no own loop."""
        if None not in {before, self.version} and before != self.version:
            self.own = self.own[-1:]
        self.version = after

    def is_over(self, since: float) -> bool:
        return (self.all[-1] if self.all else self.began) < since

    def count(self, since: float) -> int:
        return sum(when >= since for when in self.all)

    def count_own(self, since: float) -> int:
        return sum(when >= since for when in self.own)

    def first(self, since: float) -> float:
        return next(when for when in self.all if when >= since)


class _Change:
    """How one field was changed, again and again."""

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
    """The fields in which two objects differ, each with both values; a list is one field, and the server's are none."""
    pending: list[tuple[Tokens, Tree, Tree]] = [((), before, after)]
    found = 0
    while pending and found < _MOST_FIELDS:
        path, old, new = pending.pop()
        if is_map(old) and is_map(new):
            ours = _OURS if path == ("metadata",) else ()
            names = [name for name in dict.fromkeys((*old, *new)) if name not in ours]
            pending.extend(((*path, name), old.get(name), new.get(name)) for name in reversed(names))
        elif not same(old, new):
            found += 1
            yield path, old, new


def managers_of(tree: Tree, path: Tokens) -> list[str]:
    """Who owns this field, by the object's managed fields; those who own something inside of it as well."""
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
