"""`metadata.managedFields`: its entries as values, and how writes other than apply update them.

`parse_managed` and `print_managed` convert between the wire form and `ManagedEntry` values. `track_update` computes the
entries after a create, update or patch; the entries after an apply are computed in `server_side_apply.py`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from math import floor
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from levelset.errors import BadPatch, BadTime
from levelset.objects.json_tree import Tree
from levelset.objects.timestamps import format_time, parse_time
from levelset.patch.field_paths import path
from levelset.patch.field_sets import EMPTY, Changes, FieldSet, compare, parse_fields
from levelset.patch.json_patch import json_equal
from levelset.patch.merge_schema import Shape

__all__ = [
    "NEVER_TRACKED",
    "UNTRACKED_METADATA",
    "Applied",
    "EntryKey",
    "ManagedEntry",
    "Managers",
    "Operation",
    "as_object",
    "cap_updates",
    "conflict_order",
    "entry_time",
    "fit_to_schema",
    "has_managers",
    "is_plain_apply",
    "is_reset",
    "managed_fields",
    "parse_managed",
    "print_managed",
    "record_update",
    "remove_lost_fields",
    "same_object",
    "track_update",
    "trackable",
    "with_managed",
    "without_managed",
]

_encode: Final = msgspec.json.Encoder().encode
_CACHED_BYTES: Final = 8192

Operation: TypeAlias = Literal["Apply", "Update"]
EntryKey: TypeAlias = tuple[str, str, str, str]
Managers: TypeAlias = Mapping[EntryKey, "ManagedEntry"]

MAX_UPDATE_ENTRIES: Final = 10
ANCIENT: Final = "ancient-changes"

# Fields that the server maintains or that identify the object: they never have an owner.
NEVER_TRACKED: Final = FieldSet.of(
    path("apiVersion"),
    path("kind"),
    path("metadata"),
    path("metadata", "name"),
    path("metadata", "namespace"),
    path("metadata", "uid"),
    path("metadata", "resourceVersion"),
    path("metadata", "generation"),
    path("metadata", "creationTimestamp"),
    path("metadata", "selfLink"),
    path("metadata", "clusterName"),
    path("metadata", "managedFields"),
)
UNTRACKED_METADATA: Final = frozenset(element[2:] for element in NEVER_TRACKED.tree["f:metadata"] if element != ".")
"""The names of the metadata members among them."""


class ManagedEntry(msgspec.Struct, frozen=True):
    """The fields that one manager owns through one kind of operation on one endpoint.

    `time` is the RFC 3339 text of its last change.
    """

    manager: str
    operation: Operation
    api_version: str
    fields: FieldSet
    time: str | None = None
    subresource: str | None = None

    @property
    def key(self) -> EntryKey:
        """The identity of an entry: an applier has one entry for all versions, an updater one for each version."""
        version = "" if self.operation == "Apply" else self.api_version
        return (self.manager, self.operation, version, self.subresource or "")

    @classmethod
    def parse(cls, tree: Tree, *, where: str = "managedFields[0]") -> "ManagedEntry":
        """The entry that a member of `managedFields` describes; raises BadPatch naming the field that is wrong."""
        if not isinstance(tree, dict):
            raise BadPatch(f"{where} must be a map", field=where)
        if _text(tree, "fieldsType", where) != "FieldsV1":
            raise BadPatch(f"{where}.fieldsType must be FieldsV1", field=f"{where}.fieldsType")
        version = _text(tree, "apiVersion", where)
        if not version:
            raise BadPatch(f"{where}.apiVersion must not be empty", field=f"{where}.apiVersion")
        return cls(
            manager=_text(tree, "manager", where),
            operation=_operation(tree, where),
            api_version=version,
            fields=parse_fields(tree.get("fieldsV1"), where=f"{where}.fieldsV1"),
            time=_time(tree, where),
            subresource=_text(tree, "subresource", where) or None,
        )

    def print(self) -> dict[str, Tree]:
        """The tree of this entry, in the order in which Kubernetes writes it."""
        fields: Any = self.fields.tree  # as `print_fields`
        out: dict[str, Tree] = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if self.time is None:
            del out["time"]
        if self.subresource is not None:
            out["subresource"] = self.subresource
        return out

    def owning(self, fields: FieldSet) -> "ManagedEntry":
        """The same entry with other fields, and with its time unchanged."""
        return self if fields is self.fields or fields == self.fields else replace(self, fields=fields)


class _WireEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry in its usual wire form: complete, and every member of the right type."""

    manager: str
    operation: Operation
    apiVersion: str  # noqa: N815  # the names of the wire
    fieldsType: Literal["FieldsV1"]  # noqa: N815
    fieldsV1: dict[str, Any]  # noqa: N815
    time: str | None = None
    subresource: str | None = None


def _entry_of_wire(wire: _WireEntry) -> ManagedEntry:
    if not wire.apiVersion:
        raise BadPatch("apiVersion must not be empty")
    time = wire.time or None
    _seconds(time)
    fields = parse_fields(wire.fieldsV1)
    return ManagedEntry(wire.manager, wire.operation, wire.apiVersion, fields, time, wire.subresource or None)


def parse_managed(tree: Tree, *, where: str = "metadata.managedFields") -> dict[EntryKey, ManagedEntry]:
    """The entries of a `managedFields` list by their keys; raises BadPatch naming the entry and field."""
    if tree is None:
        return {}
    if not isinstance(tree, list):
        raise BadPatch(f"{where} must be a list", field=where)
    try:
        # One by one: the type of the list would be built for each call.
        entries = [_entry_of_wire(msgspec.convert(one, _WireEntry)) for one in tree]
    except (msgspec.ValidationError, BadPatch, BadTime):
        # Unusual (such as a null) or invalid: parsed again, slower, with an error that names the field.
        entries = [ManagedEntry.parse(item, where=f"{where}[{position}]") for position, item in enumerate(tree)]
    return {entry.key: entry for entry in entries}


def is_plain_apply(tree: dict[str, Tree], entry: ManagedEntry) -> bool:
    """Whether a member of `managedFields` is in its usual form and of the same manager, version and endpoint.

    Of its fields, only that they are a map is checked.
    """
    if tree.get("manager") != entry.manager or tree.get("operation") != "Apply":
        return False
    if tree.get("apiVersion") != entry.api_version or tree.get("subresource") != entry.subresource:
        return False
    time = tree.get("time")
    if tree.get("fieldsType") != "FieldsV1" or not isinstance(tree.get("fieldsV1"), dict) or not isinstance(time, str):
        return False
    try:
        _seconds(time)
    except BadTime:
        return False
    return True


def print_managed(managers: Managers) -> list[Tree]:
    """The `managedFields` list of these entries: appliers before updaters, then by age, then by name."""
    if len(managers) == 1:
        (entry,) = managers.values()
        return [entry.print()]
    return [entry.print() for entry in sorted(managers.values(), key=_wire_order)]


def entry_time(now: datetime | str) -> str:
    """The time of a new entry, as `format_time` writes it; cached, since many are made within one second."""
    if isinstance(now, str):
        return now
    if now.__class__ is datetime and now.tzinfo is not None:
        return _second_text(floor(now.timestamp()))
    return format_time(now)


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    return format_time(datetime.fromtimestamp(second, UTC))


def cap_updates(managers: Managers) -> Managers:
    """The entries with the oldest updates merged into one "ancient-changes" entry, so that there are at most ten.

    A bucket holds one version; entries of different versions cannot be merged. Of several in the same second, those
    that are first by `_identifier` are merged.
    """
    if len(managers) <= MAX_UPDATE_ENTRIES:
        return managers
    updates = [entry for entry in managers.values() if entry.operation == "Update"]
    surplus = len(updates) - MAX_UPDATE_ENTRIES
    if surplus <= 0:
        return managers
    joined = dict(managers)
    oldest: dict[str, ManagedEntry] = {}
    for entry in sorted(updates, key=lambda one: (_seconds(one.time), _identifier(one))):
        if len(joined) <= len(managers) - surplus:
            break
        first = oldest.setdefault(entry.api_version, entry)
        if first is not entry:
            _join_into_bucket(joined, first, entry)
    return joined


def _join_into_bucket(managers: dict[EntryKey, ManagedEntry], first: ManagedEntry, entry: ManagedEntry) -> None:
    """Merges the entry; also the first one if there is no bucket yet, or if the entry is the bucket."""
    empty = ManagedEntry(ANCIENT, "Update", entry.api_version, EMPTY)
    bucket = managers.get(empty.key)
    # Kubernetes removes a bucket that it comes to after another entry, and with it the owners of these fields.
    merged = [entry] if bucket is not None and bucket.key != entry.key else [first, entry]
    fields = EMPTY if bucket is None else bucket.fields
    for one in merged:
        del managers[one.key]
        fields |= one.fields
    managers[empty.key] = replace(empty, fields=fields, time=entry.time)


def _identifier(entry: ManagedEntry) -> bytes:
    """The text by which Kubernetes orders entries of the same second: what identifies one, as Go writes it in JSON."""
    parts = {"manager": entry.manager, "operation": entry.operation, "apiVersion": entry.api_version}
    if entry.subresource is not None:
        parts["subresource"] = entry.subresource
    text = _encode({name: part for name, part in parts.items() if part})
    return text.replace(b"&", rb"\u0026").replace(b"<", rb"\u003c").replace(b">", rb"\u003e")


def conflict_order(entry: ManagedEntry) -> bytes:
    """The text by which Kubernetes orders the owners that an apply conflicts with; the time is a part of it."""
    parts = {"manager": entry.manager, "operation": entry.operation}
    if entry.operation == "Update":
        parts |= {"apiVersion": entry.api_version, "time": entry.time or ""}
    parts["subresource"] = entry.subresource or ""
    return _encode({name: part for name, part in parts.items() if part})


def _wire_order(entry: ManagedEntry) -> tuple[str | int, ...]:
    return (entry.operation, _seconds(entry.time), entry.manager, entry.api_version, entry.subresource or "")


def _operation(entry: Mapping[str, Tree], where: str) -> Operation:
    match _text(entry, "operation", where):
        case "Apply":
            return "Apply"
        case "Update":
            return "Update"
        case other:
            raise BadPatch(f"{where}.operation must be Apply or Update, not {other!r}", field=f"{where}.operation")


def _text(entry: Mapping[str, Tree], name: str, where: str) -> str:
    found = entry.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise BadPatch(f"{where}.{name} must be a text", field=f"{where}.{name}")
    return found


def _time(entry: Mapping[str, Tree], where: str) -> str | None:
    text = _text(entry, "time", where)
    if not text:
        return None
    try:
        _seconds(text)
    except BadTime as error:
        raise BadPatch(f"{where}.time: {error}", field=f"{where}.time") from None
    return text


@lru_cache(maxsize=1024)
def _seconds(time: str | None) -> int:
    return 0 if time is None else int(parse_time(time).timestamp())


UNKNOWN_MANAGER: Final = "unknown"


class Applied(msgspec.Struct, frozen=True):
    """The object to store, and whether it differs from the live one.

    If it does not, `object` is the live object itself, and there is nothing to write.
    """

    object: dict[str, Tree]
    changed: bool


def track_update(
    live: Any,
    new: Any,
    *,
    manager: str,
    shape: Shape,
    now: datetime | str,
    api_version: str,
    subresource: str | None = None,
    ignore: FieldSet = EMPTY,
) -> Applied:
    """The object `new` with its `managedFields` as a create, update or patch by `manager` leaves them.

    The manager owns what `new` adds or changes, without conflicts; fields that it removes lose all owners. `live` is
    None for a create. An object without managedFields (see `is_reset`) stays untracked. `new` may contain managedFields
    of its own, except through a subresource; if they are unreadable, those of `live` are used. `now` is the time, or
    its text as `entry_time` writes it; `ignore` are the fields that this endpoint resets. Neither argument is changed.
    Raises BadPatch only if the trees are not objects.
    """
    try:
        before, after = as_object({} if live is None else live), as_object(new)
        stored, given = _metadata(before).get("managedFields"), _metadata(after).get("managedFields")
        if subresource is not None or given is None or given == stored:
            given = stored
        changes = compare(trackable(before), trackable(after), shape)
        is_same = live is not None and not changes and same_object(before, after)
        if is_same and given is stored and not _has_repeated(stored):
            return Applied(as_object(live), changed=False)
        managers = _managers_of_write(stored, given)
        if managers or live is None:
            entry = ManagedEntry(manager or UNKNOWN_MANAGER, "Update", api_version, EMPTY, entry_time(now), subresource)
            managers = cap_updates(record_update(managers, changes.beyond(ignore), entry, shape))
        if is_same and managers == _parse_or_empty(stored) and not _has_repeated(stored):
            return Applied(as_object(live), changed=False)
        return Applied(with_managed(after, managers), changed=True)
    except RecursionError:
        raise BadPatch("the object is nested too deeply to be tracked") from None


def _has_repeated(managed: Tree) -> bool:
    """Whether two entries are of one manager, which a write of a Scale can lead to: the next write leaves the last."""
    return isinstance(managed, list) and len(managed) > 1 and len(_parse_or_empty(managed)) < len(managed)


def record_update(managers: Managers, changes: Changes, entry: ManagedEntry, shape: Shape) -> Managers:
    """The entries after a write that made these changes; `entry` is the writer's, and owns nothing yet."""
    taken = changes.changed - NEVER_TRACKED
    writer = entry.key if taken else None
    texts = (_encode(changes.changed.tree), _encode(changes.removed.tree))
    settled: dict[EntryKey, ManagedEntry] = {}
    for key, held in managers.items():
        fields = held.fields
        is_writer = key == writer
        if is_writer or _overlaps(held, changes.changed) or _overlaps(held, changes.removed):
            owned = _encode(fields.tree)
            is_small = len(owned) + len(texts[0]) + len(texts[1]) <= _CACHED_BYTES
            settle = _fields_after if is_small else _fields_after.__wrapped__
            fields = settle(owned, *texts, shape, is_writer)
        if is_writer:
            taken = fields
        elif fields.tree:
            settled[key] = held.owning(fields)
    if writer is not None:
        settled[writer] = replace(entry, fields=taken)
    return settled


# Writes of one kind mostly change the same fields of objects with the same owners.
@lru_cache(maxsize=1024)
def _fields_after(owned: bytes, changed: bytes, removed: bytes, shape: Shape, is_writer: bool) -> FieldSet:
    """The fields that an entry owns after a write of its own or of another manager.

    They apply under this shape: the schema may have made a field atomic since they were written.
    """
    fields, new = FieldSet(msgspec.json.decode(owned)), FieldSet(msgspec.json.decode(changed))
    lost = new | FieldSet(msgspec.json.decode(removed))
    rest = fields.fitted(shape, along=lost) - lost
    return rest | (new - NEVER_TRACKED) if is_writer else rest


def fit_to_schema(managers: Managers, shape: Shape) -> dict[EntryKey, ManagedEntry]:
    """The entries as they apply under this shape: the schema may have made a field atomic since they were written."""
    return {key: entry.owning(entry.fields.fitted(shape)) for key, entry in managers.items()}


def remove_lost_fields(managers: Managers, changes: Changes) -> Managers:
    """The entries without the fields that another manager changed or removed; empty entries are dropped."""
    lost = changes.changed | changes.removed
    settled = {
        key: entry.owning(entry.fields - lost) if _overlaps(entry, lost) else entry for key, entry in managers.items()
    }
    return {key: entry for key, entry in settled.items() if entry.fields.tree}


def _overlaps(entry: ManagedEntry, fields: FieldSet) -> bool:
    """Whether the entry may own some of these fields, or some above or below them; a cheap check of the top level."""
    return not fields.tree.keys().isdisjoint(entry.fields.tree)


def is_reset(managed: Tree) -> bool:
    """Whether this value of `managedFields` removes all owners: `[]`, or a list with one empty entry."""
    return isinstance(managed, list) and managed in ([], [{}])


def has_managers(managed: Tree) -> bool:
    """Whether this value of `managedFields` can be read, and has entries."""
    return bool(_parse_or_empty(managed))


def as_object(tree: Tree) -> dict[str, Tree]:
    """The tree as a map; raises BadPatch if it is not one."""
    if not isinstance(tree, dict):
        raise BadPatch(f"an object must be a map, not {type(tree).__name__}")
    return tree


def managed_fields(tree: Tree) -> Tree:
    """The value of `metadata.managedFields`; None if there is none."""
    return None if tree is None else _metadata(as_object(tree)).get("managedFields")


def without_managed(tree: Tree) -> dict[str, Tree]:
    """The object without its `managedFields`; raises BadPatch if it is not a map."""
    found = as_object(tree)
    metadata = _metadata(found)
    if "managedFields" not in metadata:
        return found
    rest = metadata.copy()
    del rest["managedFields"]
    return {**found, "metadata": rest}


def trackable(tree: dict[str, Tree]) -> dict[str, Tree]:
    """The object without the members that never have an owner, which are most of a small one."""
    rest = tree.copy()
    rest.pop("apiVersion", None)
    rest.pop("kind", None)
    metadata: Any = rest.pop("metadata", None)
    if metadata and not UNTRACKED_METADATA.issuperset(metadata):
        rest["metadata"] = {name: value for name, value in metadata.items() if name not in UNTRACKED_METADATA}
    return rest


def with_managed(tree: dict[str, Tree], managers: Managers) -> dict[str, Tree]:
    """The object with these entries as its `managedFields`, or without any if there are none."""
    if not managers:
        return without_managed(tree)
    return {**tree, "metadata": {**_metadata(tree), "managedFields": print_managed(managers)}}


def same_object(old: dict[str, Tree], new: dict[str, Tree]) -> bool:
    """Whether two objects are the same except for their resourceVersion and managedFields."""
    if old is new:
        return True
    if old.keys() != new.keys():
        return False
    for name, member in old.items():
        other = new[name]
        if member is not other and name != "metadata" and not json_equal(member, other):
            return False
    return json_equal(_unversioned(old), _unversioned(new))


def _managers_of_write(stored: Tree, given: Tree) -> Managers:
    if given is not stored and is_reset(given):
        return {}
    return _parse_or_empty(given) or _parse_or_empty(stored)


def _parse_or_empty(managed: Tree) -> Managers:
    try:
        return parse_managed(managed)
    except BadPatch:
        return {}


def _metadata(tree: dict[str, Tree]) -> dict[str, Tree]:
    metadata = tree.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise BadPatch("metadata must be a map", field="metadata")
    return metadata


def _unversioned(tree: dict[str, Tree]) -> dict[str, Tree]:
    rest = _metadata(tree).copy()
    rest.pop("resourceVersion", None)
    rest.pop("managedFields", None)
    return rest
