"""From changes to requests: who must be looked at again because of what has changed, and why.

Each function here makes a listener for the changes of one informer. A listener asks for its objects at once and never
waits. A change that cannot be understood, or for which the user's function raises, is reported and asks for nobody.

Which changes of its own objects concern a controller, unless it is told otherwise: all but those of the status.

A reconciler that writes a status must not be woken by that. Generation, labels, annotations, finalizers and the
beginning of a deletion are what others change; of a kind without a generation, every change counts.
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from levelset.client.object_types import Item, Kind, View, view_of
from levelset.errors import BadName, ConfigError
from levelset.objects.cached_object import Head, Kept, OwnerHead
from levelset.objects.ref import GroupVersionKind, Ref, parse_api_version, ref_to
from levelset.runtime.cache import Change, Index, Store
from levelset.runtime.controller.relations import Owns, References, Watches
from levelset.runtime.controller.request import CHANGED, FIRST, Reason
from levelset.runtime.queue import LOW, NORMAL
from levelset.runtime.watch import Predicate

__all__ = [
    "SELF_CHANGES",
    "Asks",
    "AsksAll",
    "Listener",
    "Target",
    "differs",
    "owners",
    "reference_index",
    "referrers",
    "self_changes",
    "targets",
]


def differs(was: Head, head: Head) -> bool:
    """Whether there is more between two versions of an object than another status; asked of each event."""
    if head.generation != was.generation:
        return True
    if head.generation is None and head.resource_version != was.resource_version:
        return True
    return (
        (head.deletion_timestamp is None) is not (was.deletion_timestamp is None)
        or head.labels_json != was.labels_json
        or head.annotations_json != was.annotations_json
        or head.finalizers_json != was.finalizers_json
    )


class _SelfChanges(Predicate):
    """Compares the JSON of the metadata as it is: what a server wrote twice in the same way is the same."""

    def trace(self, item: Item[Any], /) -> Any:
        head = item.kept
        return (
            head.resource_version if head.generation is None else head.generation,
            head.deletion_timestamp is not None,
            head.labels_json,
            head.annotations_json,
            head.finalizers_json,
        )

    def passes(self, old: Item[Any] | None, new: Item[Any] | None) -> bool:
        """The same as the traces say, without making them."""
        if old is None or new is None:
            return old is not new
        return differs(old.kept, new.kept)

    def differs(self, old: Any, new: Any, /) -> bool:
        return old is None or new is None or bool(old != new)

    def __repr__(self) -> str:
        return "SELF_CHANGES"


SELF_CHANGES: Final[Predicate] = _SelfChanges()
"""Passes a change of generation, labels, annotations, finalizers or deletion."""


Listener = Callable[[Sequence[Change[Any]]], None]
"""Hears of changes, a batch at a time."""

_log = logging.getLogger(__name__)


class Asks(Protocol):
    """Asks for a look at the object with a key, as the `Target` gives it."""

    def __call__(self, key: str, reason: Reason, priority: int, /) -> object:
        """Never waits; whoever is asked for already is looked at once."""
        ...


class AsksAll(Protocol):
    """Asks for a look at each of several objects, for the same reason."""

    def __call__(self, keys: Collection[str], reason: Reason, priority: int, /) -> object:
        """The same as to ask for one after the other."""
        ...


@dataclass(frozen=True)
class Target:
    """The kind that a controller looks at, so that each of its objects has one ref and no other.

    A ref without a namespace means the client's `namespace`, as everywhere; for a cluster-scoped kind it has none. A
    ref that was written with another version of the kind is the same object.

    All being of one kind, each is known by the key of its ref inside the controller: a text, of which the ref is made
    when somebody asks for it.
    """

    view: View[Any]
    namespaced: bool
    namespace: str

    def ref(self, given: Ref[Any]) -> Ref[Any]:
        """The ref under which the controller knows this object; ConfigError if it is of another kind."""
        gvk = self.view.gvk
        if given.gvk is gvk and (given.namespace is not None) is self.namespaced:
            return given
        namespace = (given.namespace or self.namespace) if self.namespaced else None
        if given.gvk == gvk and given.namespace == namespace:
            return given
        if given.gvk.group != gvk.group or given.gvk.kind != gvk.kind:
            raise ConfigError(f"{given} is a {given.gvk}, and this controller looks at {gvk}; name one of these")
        return self.named(given.name, namespace)

    def named(self, name: str, namespace: str | None) -> Ref[Any]:
        """The ref of the object with this name; a namespace says nothing if the kind has none."""
        return ref_to(self.view.gvk, self.view.own_class, name, namespace if self.namespaced else None)

    def key(self, given: Ref[Any]) -> str:
        """The key under which the controller knows this object; ConfigError if it is of another kind."""
        if given.gvk is self.view.gvk and (given.namespace is not None) is self.namespaced:
            return given.key  # as nearly all are: those that `ref` gives back as they are
        return self.ref(given).key

    def key_of(self, kept: Kept) -> str:
        """The key of an object of this kind as it is kept; BadName if a ref could not name it."""
        return self.view.ref(kept).key


Concern = tuple[Reason, int]
"""Why an object is to be looked at, and how urgent that is."""

_CHANGED: Final[Concern] = (CHANGED, NORMAL)
_FIRST: Final[Concern] = (FIRST, LOW)
_RESYNC: Final[Concern] = (CHANGED, LOW)


def self_changes(target: Target, when: Predicate, ask_all: AsksAll) -> Listener:
    """Asks for each of the controller's own objects that changes in a way that matters, or goes.

    Objects of a batch that are to be looked at for the same reason, nearly always all, are asked for together.
    """
    weigh, what = _weighing(target.view, when), f"a change of {target.view.gvk}"
    is_usual = when is SELF_CHANGES

    def listen(changes: Sequence[Change[Any]]) -> None:
        concern, keys = _CHANGED, list[str]()
        for change in changes:
            before = change.before
            try:
                kept = change.after or change.kept
                if is_usual and before is not None and before.generation != kept.generation and not change.is_initial:
                    found = _CHANGED  # as nearly always: what `weigh` would say, without a call
                elif (weighed := weigh(change)) is None:
                    continue
                else:
                    found = weighed
                if not (name := kept.name) or "/" in name:  # its key may be another's
                    target.named(name, kept.namespace)  # which says what is wrong with it
            except Exception as error:  # noqa: BLE001 -- one object's mistake concerns no other
                _report(what, change.key, error)
                continue
            if found is not concern:
                ask_all(keys, *concern)
                concern, keys = found, []
            keys.append(change.key)
        ask_all(keys, *concern)

    return listen


def _weighing(view: View[Any], when: Predicate) -> Callable[[Change[Any]], Concern | None]:
    """The function that says whether, and how, a change of an own object concerns its controller."""
    is_usual = when is SELF_CHANGES  # which compares heads, and needs nothing around them

    def weigh(change: Change[Any]) -> Concern | None:
        before, after = change.before, change.after
        if after is None:
            return _CHANGED  # one that has gone always counts: what is remembered of it must go, too
        if before is None or change.is_initial:
            if is_usual or when.passes(None, Item(after, view)):
                return _FIRST if change.is_initial else _CHANGED
            return None
        if before.uid != after.uid or (differs(before, after) if is_usual else when.passes(change.old, change.new)):
            return _CHANGED
        return _RESYNC if change.is_resync else None

    return weigh


def owners(target: Target, relation: Owns, ask_all: AsksAll) -> Listener:
    """Asks for the owners of what has changed, before and after the change."""

    def find(item: Item[Any]) -> Iterator[str]:
        kept = item.kept
        if target.namespaced and kept.namespace is None:
            return  # nothing in a namespace can own what is in none
        for owner in kept.owners:
            if (owner.controller or relation.every_owner) and _is_of(owner, target.view.gvk):
                yield target.named(owner.name, kept.namespace).key

    what = f"an owner of a {view_of(relation.kind).gvk}"
    return _related(find, relation.when, ask_all, what, names_same=_has_same_owners)


def targets(target: Target, relation: Watches, ask_all: AsksAll) -> Listener:
    """Asks for whomever the user's function names for the object before the change, and after it."""

    def find(item: Item[Any]) -> Iterator[str]:
        return map(target.key, relation.to(item.object))

    return _related(find, relation.when, ask_all, f"watches({view_of(relation.kind).gvk}, to=...)")


def referrers(target: Target, relation: References, index: Index[Any], store: Store[Any], ask_all: AsksAll) -> Listener:
    """Asks for those that name what has changed, or that share a value with it."""
    gvk, theirs = view_of(relation.kind).gvk, relation.theirs

    def find(item: Item[Any]) -> Iterator[str]:
        kept = item.kept
        values = [(gvk.group, gvk.kind, kept.namespace, kept.name)] if theirs is None else theirs(item.object)
        for value in values:
            yield from map(target.key_of, store.by(index, value).kept)

    return _related(find, relation.when, ask_all, f"references({gvk}, ...)")


def reference_index(relation: References, kind: Kind[Any], *, namespaced: bool, namespace: str) -> Index[Any]:
    """The index of a controller's objects by what they name; two controllers with the same function share it."""
    if relation.theirs is not None:
        return Index(kind, relation.names)
    names = _Names(relation.names, namespaced, namespace)
    return Index(kind, names, name=f"what {getattr(relation.names, '__name__', 'a function')} names")


@dataclass(frozen=True)
class _Names:
    """The user's function, with each ref as something that is the same for all versions of its kind."""

    names: Callable[[Any], Iterable[Ref[Any]]]
    namespaced: bool
    namespace: str

    def __call__(self, obj: Any) -> list[Hashable]:
        return [
            (ref.gvk.group, ref.gvk.kind, (ref.namespace or self.namespace) if self.namespaced else None, ref.name)
            for ref in self.names(obj)
        ]


def _never(_: Kept, __: Kept) -> bool:
    return False


def _related(
    find: Callable[[Item[Any]], Iterator[str]],
    when: Predicate | None,
    ask_all: AsksAll,
    what: str,
    *,
    names_same: Callable[[Kept, Kept], bool] = _never,
) -> Listener:
    """Asks for those that `find` names for both sides of a change; once, where it names the same for both."""

    def concern(change: Change[Any]) -> None:
        before, after = change.before, change.after
        is_whole = change.is_resync or change.is_recreated  # nothing to compare with
        if when is not None and not is_whole and not when.passes(change.old, change.new):
            return
        found: dict[str, None] = {}
        if before is not None and (after is None or not names_same(before, after)):
            _collect(find, Item(before, change.view), found, what)
        if after is not None:
            _collect(find, Item(after, change.view), found, what)
        if found:
            reason = Reason("related", change.ref)
            priority = LOW if change.is_initial or change.is_resync else NORMAL
            ask_all(found, reason, priority)

    return _guarded(concern, what)


def _collect(find: Callable[[Item[Any]], Iterator[str]], item: Item[Any], found: dict[str, None], what: str) -> None:
    """Adds what is found for one side of a change; the other side counts also if this one cannot be read."""
    try:
        for key in find(item):
            found[key] = None
    except Exception as error:  # noqa: BLE001 -- the function is the user's
        _report(what, item.kept.name, error)


def _guarded(concern: Callable[[Change[Any]], None], what: str) -> Listener:
    def listen(changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            try:
                concern(change)
            except Exception as error:  # noqa: BLE001 -- one object's mistake concerns no other
                _report(what, change.key, error)

    return listen


def _has_same_owners(one: Kept, other: Kept) -> bool:
    """Whether both name their owners in the same words; they are versions of one object, and so in one namespace."""
    return one.owners_json == other.owners_json


def _report(what: str, name: str, error: Exception) -> None:
    _log.error("%s: nobody is looked at because of %s: %s", what, name, error, exc_info=error)


def _is_of(owner: OwnerHead, gvk: GroupVersionKind) -> bool:
    return owner.kind == gvk.kind and bool(owner.name) and _group_of(owner.api_version) == gvk.group


@lru_cache(maxsize=1024)
def _group_of(api_version: str) -> str | None:
    try:
        return parse_api_version(api_version)[0]
    except BadName:
        return None
