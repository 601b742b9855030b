"""What others did in a stretch of a recording: the objects at its start, and the changes that it did not make itself.

A change is the process's own if an answer to one of its writes has that version of the object, if it deleted the
object, or if the garbage collector deleted it after its owner. All others are steps, which another run can take again:
creations, merge patches of what changed, and deletions. No I/O.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from levelset.errors import ConfigError
from levelset.objects.json_tree import is_map
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.recording.entries import (
    Answer,
    Batch,
    Begin,
    ControllerEntry,
    Entry,
    Request,
    ScopeEntry,
)

__all__ = ["Change", "Created", "Deleted", "ObjectKey", "Patched", "Stretch", "changes_of_others", "time_of"]

Tree = dict[str, Any]
_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_SERVER: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_LIST, _LISTED, _LIST_END, _APPLIED, _DELETED = range(5)  # the codes of events
_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})

_read: Final = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """An object by kind, namespace and name."""

    gvk: GroupVersionKind
    namespace: str | None
    name: str

    def __str__(self) -> str:
        return "/".join(filter(None, (self.gvk.kind, self.namespace, self.name)))


@dataclass(frozen=True, slots=True)
class Created:
    """An object appeared; `manager` is the controller of this process whose child it is, if it is one."""

    at: float
    key: ObjectKey
    tree: Tree
    manager: str | None = None


@dataclass(frozen=True, slots=True)
class Patched:
    """An object was changed: a merge patch of it, and one of its status; None where nothing changed."""

    at: float
    key: ObjectKey
    patch: Tree | None
    status: Tree | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """The deletion of an object was requested."""

    at: float
    key: ObjectKey


Change = Created | Patched | Deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of a recording: the objects at its start, owners first, and what others did until its end.

    Times are in seconds since the start of the recording.
    """

    since: float
    until: float
    objects: Sequence[Created]
    steps: Sequence[Change]


def time_of(entries: Sequence[Entry], text: str, *, is_end: bool) -> float:
    """The seconds of `12.5s`, or of the beginning (or end) of a reconcile by its number; ConfigError for others."""
    try:
        if text.endswith("s"):
            return float(text[:-1])
        number = int(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no place in a recording: expected a time (12.5s) or a reconcile (20)") from None
    begins = [one for one in entries if isinstance(one, Begin)]
    if not 1 <= number <= len(begins):
        raise ConfigError(f"the recording has no reconcile {number}; it has {len(begins)}, counted from 1")
    begin = begins[number - 1]
    if not is_end:
        return begin.at / 1e6
    ends = (one.at for one in entries if getattr(one, "task", None) == begin.task)
    return max(ends) / 1e6


def changes_of_others(
    entries: Sequence[Entry], *, since: float | None = None, until: float | None = None, only: str | None = None
) -> Stretch:
    """The stretch of a recording from `since` to `until`, in seconds, by default all of it.

    `only` is an object, as `website/blog` or `website/default/blog`: other objects of reconciled kinds, and what they
    own, are left out. ConfigError if there is no such object.
    """
    history = _History(entries)
    begin, end = since or 0.0, entries[-1].at / 1e6 if until is None else until
    for position, is_first_list, key, tree in _versions(entries):
        at = entries[position].at / 1e6
        if at > end:
            break
        # What a cache lists first was there before; later everything is a change.
        history.see(position, key, tree, is_before=at < begin or (is_first_list and not history.has(key)))
    chosen = history.related_to(only) if only is not None else None
    objects = [one for one in history.objects() if chosen is None or one.key in chosen]
    steps = [one for one in history.steps if chosen is None or one.key in chosen]
    return Stretch(since=begin, until=end, objects=objects, steps=steps)


class _History:
    """The objects of a recording as they change, and the steps of others."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self.steps: list[Change] = []
        self._initial: dict[ObjectKey, Tree] = {}
        self._present: dict[ObjectKey, Tree] = {}
        self._trees: dict[ObjectKey, Tree] = {}
        """All that were ever seen, with their last version."""
        self._gone: set[str] = set()
        """The uids of objects that are deleted, or being deleted."""
        self._controllers = [one for one in entries if isinstance(one, ControllerEntry)]
        self._own_versions = _own_versions(entries)
        self._own_deletions = list(_own_deletions(entries))

    def has(self, key: ObjectKey) -> bool:
        """Whether the object exists now."""
        return key in self._present

    def see(self, position: int, key: ObjectKey, tree: Tree | None, *, is_before: bool) -> None:
        """Takes the next version of an object; None if it is deleted."""
        before = self._present.get(key)
        if tree is not None and before is not None and _version(tree) == _version(before):
            return  # another cache has it, too
        if is_before:
            self._keep(key, tree)
            if tree is None or _is_deleting(tree):
                self._initial.pop(key, None)
            else:
                self._initial[key] = tree
            return
        change = self._change(position, key, before, tree)
        self._keep(key, tree)
        if change is not None:
            self.steps.append(change)

    def objects(self) -> Sequence[Created]:
        """The objects at the start, each after its owners."""
        found: list[Created] = []
        left = dict(self._initial)
        while left:
            uids = {_uid(tree) for tree in left.values()}
            ready = [key for key, tree in left.items() if not uids.intersection(_owners(tree))] or list(left)
            found += [Created(0.0, key, left.pop(key), self._manager(key)) for key in ready]
        return found

    def related_to(self, only: str) -> set[ObjectKey]:
        """The keys without other objects of reconciled kinds, and without what those own."""
        kind, *where = only.split("/")
        if not where or len(where) > 2 or not all(where):
            raise ConfigError(
                f"{only!r} is not an object; write KIND/NAME or KIND/NAMESPACE/NAME, such as website/blog"
            )
        reconciled = {(one.group, one.kind): one for one in self._controllers}
        meant = {
            key
            for key in self._trees
            if kind.lower() in {key.gvk.kind.lower(), f"{key.gvk.kind.lower()}s"}
            and key.name == where[-1]
            and (len(where) == 1 or key.namespace == where[0])
        }
        if not meant:
            known = ", ".join(sorted(str(one) for one in self._trees)[:10]) or "nothing"
            raise ConfigError(f"the recording has no object {only}; it has {known}")
        others = {key for key in self._trees if (key.gvk.group, key.gvk.kind) in reconciled} - meant
        by_uid = {_uid(tree): key for key, tree in self._trees.items()}
        chosen = {key for key in self._trees if key in meant or key not in others}
        # What is owned by an object that is left out is left out, too.
        while True:
            owned = {
                key for key in chosen if any(by_uid.get(uid, key) not in chosen for uid in _owners(self._trees[key]))
            }
            if not owned - meant:
                return chosen
            chosen -= owned - meant

    def _keep(self, key: ObjectKey, tree: Tree | None) -> None:
        if tree is None:
            old = self._present.pop(key, None)
            self._gone.add(_uid(old or {}))
            return
        if _is_deleting(tree):
            self._gone.add(_uid(tree))
        self._present[key] = self._trees[key] = tree

    def _change(self, position: int, key: ObjectKey, before: Tree | None, tree: Tree | None) -> Change | None:
        at = self._entries[position].at / 1e6
        if tree is None:
            return None if before is None or self._is_consequence(at, key, before) else Deleted(at, key)
        if position > self._own_versions.get(_version(tree), position):
            return None
        if before is None or _uid(before) != _uid(tree):
            return None if _is_deleting(tree) else Created(at, key, tree, None)
        if _is_deleting(tree) and not _is_deleting(before):
            return None if self._is_consequence(at, key, before) else Deleted(at, key)
        patch, status = _patch(_content(before), _content(tree)), _patch(_status(before), _status(tree))
        return Patched(at, key, patch or None, status or None) if patch or status else None

    def _is_consequence(self, at: float, key: ObjectKey, before: Tree) -> bool:
        """Whether a deletion follows from an earlier one, or is the process's own."""
        if _uid(before) in self._gone or self._gone.intersection(_owners(before)):
            return True
        for place, (deleted_at, resource, namespace, name) in enumerate(self._own_deletions):
            is_it = resource.startswith(key.gvk.kind.lower().removesuffix("y")) and name == key.name
            if is_it and namespace in {None, key.namespace} and deleted_at <= at:
                del self._own_deletions[place]
                return True
        return False

    def _manager(self, key: ObjectKey) -> str | None:
        """The controller that reconciles an owner of an object: it has written the object."""
        for owner in self._initial.get(key, {}).get("metadata", {}).get("ownerReferences") or ():
            for one in self._controllers:
                if one.kind == owner.get("kind") and owner.get("apiVersion", "").startswith(one.group):
                    return one.name
        return None


def _versions(entries: Sequence[Entry]) -> Iterator[tuple[int, bool, ObjectKey, Tree | None]]:
    """The versions of objects, each with the position of its entry, and whether it is of the first list of a cache."""
    scopes: dict[int, ScopeEntry] = {}
    full = {(one.group, one.kind) for one in entries if isinstance(one, ScopeEntry) and not one.is_metadata}
    listed: dict[int, set[ObjectKey]] = {}
    known: dict[int, set[ObjectKey]] = {}
    for position, entry in enumerate(entries):
        if isinstance(entry, ScopeEntry):
            scopes[entry.number] = entry
        if not isinstance(entry, Batch):
            continue
        scope, number = scopes[entry.scope], entry.scope
        if scope.is_metadata and (scope.group, scope.kind) in full:
            continue  # another cache has whole objects
        gvk = GroupVersionKind(scope.group, scope.version, scope.kind)
        for event in entry.events:
            code, raw = event.code, event.raw
            if code == _LIST:
                listed[number] = set()
            elif code == _LIST_END:
                gone = known.get(number, set()) - listed.get(number, set())
                known[number] = listed.pop(number, set())
                yield from ((position, False, key, None) for key in gone)
            else:
                tree: Tree = _read(raw)
                metadata = tree["metadata"]
                key = ObjectKey(gvk, metadata.get("namespace"), metadata["name"])
                if code == _LISTED:
                    listed.setdefault(number, set()).add(key)
                else:
                    there = known.setdefault(number, set())
                    (there.discard if code == _DELETED else there.add)(key)
                is_first = code == _LISTED and number not in known
                yield position, is_first, key, None if code == _DELETED else tree


def _own_versions(entries: Sequence[Entry]) -> Mapping[tuple[str, str], int]:
    """The versions of objects in the answers to writes, each with the position of its request.

    A write that changes nothing is answered with the version that another client made: that one was seen before.
    """
    writes: dict[int, int] = {}
    found: dict[tuple[str, str], int] = {}
    for position, entry in enumerate(entries):
        if isinstance(entry, Request) and entry.method in _WRITES:
            writes[entry.number] = position
        elif isinstance(entry, Answer) and entry.number in writes and 200 <= entry.status < 300:
            try:
                tree = _read(entry.body)
            except (msgspec.MsgspecError, ValueError):
                continue
            if is_map(tree) and is_map(tree.get("metadata")):
                found.setdefault(_version(tree), writes[entry.number])
    return found


def _own_deletions(entries: Sequence[Entry]) -> Iterator[tuple[float, str, str | None, str]]:
    """The deletions of the process: time, resource, namespace and name."""
    for entry in entries:
        if isinstance(entry, Request) and entry.method == "DELETE":
            parts = entry.path.strip("/").split("/")
            namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-2] else None
            yield entry.at / 1e6, parts[-2], namespace, parts[-1]


def _version(tree: Mapping[str, Any]) -> tuple[str, str]:
    metadata = tree["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")


def _uid(tree: Mapping[str, Any]) -> str:
    metadata: Tree = tree.get("metadata") or {}
    found: str = metadata.get("uid", "")
    return found


def _owners(tree: Mapping[str, Any]) -> set[str]:
    return {one.get("uid", "") for one in tree["metadata"].get("ownerReferences") or ()}


def _is_deleting(tree: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in tree["metadata"]


def _content(tree: Mapping[str, Any]) -> Tree:
    """What users write: no status, and of the metadata only what they set."""
    metadata = {name: tree["metadata"][name] for name in _METADATA if name in tree["metadata"]}
    return {**{name: value for name, value in tree.items() if name not in _SERVER}, "metadata": metadata}


def _status(tree: Mapping[str, Any]) -> Tree:
    return {"status": tree["status"]} if "status" in tree else {}


def _patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Tree:
    """The merge patch that makes one tree of another; empty if they are the same."""
    found: Tree = dict.fromkeys(name for name in before if name not in after)
    for name, value in after.items():
        old = before.get(name)
        if is_map(value) and is_map(old):
            inner = _patch(old, value)
            if inner:
                found[name] = inner
        elif value != old or name not in before:
            found[name] = value
    return found
