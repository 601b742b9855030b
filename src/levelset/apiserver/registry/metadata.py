"""Object metadata: decoding, the fields that the server sets, and validation.

All functions are pure apart from modifying, in place, the tree that was decoded for this write.
"""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from operator import ne
from time import time
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.registry.builtin.rules.checks import label_key_problems, label_value_problems
from levelset.apiserver.resources.served_resource import Rules
from levelset.apiserver.resources.server_state import ServerState, Tree, utc_now
from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.formats import text_format
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import Cause
from levelset.objects import encode_tree
from levelset.objects.names import check_path_segment, is_label_key, is_label_value
from levelset.objects.timestamps import format_time

__all__ = [
    "check_common_metadata",
    "check_immutable_metadata",
    "check_metadata",
    "check_updated_metadata",
    "finalizer_warnings",
    "format_timestamp",
    "generate_name",
    "inherit_metadata",
    "init_metadata",
    "is_deleting",
    "merge_duplicate_owners",
    "metadata_of",
    "new_uid",
    "read_metadata",
    "write_timestamp",
]

GENERATED_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
GENERATED_LENGTH: Final = 5
MAX_GENERATED_BASE: Final = 58

# Fields of a new object that clients cannot set; selfLink is not used any more.
_MAX_LABEL_KEY: Final = 253 + 1 + 63
_SET_BY_SERVER: Final = frozenset(
    {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"}
)

# The random bits of a UUID, and the fixed ones that mark it as version 4.
_UUID_FREE: Final = ~(0xF000 << 64) & ~(0xC000 << 48)
_UUID_FIXED: Final = (0x4000 << 64) | (0x8000 << 48)


class _Owner(msgspec.Struct, frozen=True, gc=False):
    apiVersion: str | None = None  # noqa: N815 - the JSON names
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None  # noqa: N815


class _StrictOwner(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    apiVersion: str = ""  # noqa: N815
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    blockOwnerDeletion: bool = False  # noqa: N815


class _CommonFields(msgspec.Struct, frozen=True, gc=False):
    """The types of the fields without nested values that could be null."""

    name: str | None = None
    generateName: str | None = None  # noqa: N815
    namespace: str | None = None
    selfLink: str | None = None  # noqa: N815
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815
    generation: int | None = None
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    deletionGracePeriodSeconds: int | None = None  # noqa: N815
    finalizers: list[str] | None = None
    managedFields: list[dict[str, Any] | None] | None = None  # noqa: N815


class _Metadata(_CommonFields, frozen=True, gc=False):
    """The types of all fields; any other field is unknown."""

    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    ownerReferences: list[_Owner] | None = None  # noqa: N815


class _StrictMetadata(_CommonFields, frozen=True, gc=False, forbid_unknown_fields=True):
    """The strict types for the fast path: no unknown fields, and no null inside of a field."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[_StrictOwner] | None = None  # noqa: N815


class _ManagedFields(msgspec.Struct, frozen=True, gc=False):
    manager: str | None = None
    operation: str | None = None
    apiVersion: str | None = None  # noqa: N815
    time: str | None = None
    fieldsType: str | None = None  # noqa: N815
    subresource: str | None = None


_TIMES: Final = frozenset({"creationTimestamp", "deletionTimestamp"})
_WITH_TIMES: Final = _TIMES | {"managedFields"}
_METADATA_FIELDS: Final = frozenset(_Metadata.__struct_fields__)
_OWNER_FIELDS: Final = frozenset(_Owner.__struct_fields__)


def metadata_of(tree: Tree) -> Tree:
    """The metadata of an object that has gone through `read_metadata`."""
    metadata: Tree = tree["metadata"]
    return metadata


def read_metadata(tree: Tree) -> list[str]:
    """Normalizes `metadata` in place and returns the paths of the unknown fields that it dropped.

    Nulls, empty lists and empty maps are removed. Raises Undecodable if a field has the wrong type.
    """
    metadata = tree.get("metadata")
    if metadata is None:
        tree["metadata"] = {}
        return []
    dropped: list[str] = []
    try:
        msgspec.convert(metadata, _StrictMetadata)
    except msgspec.ValidationError:
        dropped = _read_lenient(metadata)
    if not all(metadata.values()):
        _drop_empty(metadata)
    if not _WITH_TIMES.isdisjoint(metadata):
        _check_times(metadata)
    return dropped


def _read_lenient(metadata: Tree) -> list[str]:
    """As `read_metadata`, for metadata with unknown, null or invalid fields."""
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`$", "`metadata")
        raise Undecodable(f"the object cannot be decoded: {problem}") from None
    dropped: list[str] = []
    if not _METADATA_FIELDS.issuperset(metadata):
        unknown = sorted(metadata.keys() - _METADATA_FIELDS)
        dropped = [f"metadata.{name}" for name in unknown]
        for name in unknown:
            del metadata[name]
    for name in ("labels", "annotations"):
        if metadata.get(name):
            _replace_null_values(metadata, name)
    if metadata.get("ownerReferences"):
        dropped += _read_owners(metadata)
    return dropped


def _check_managed_fields(entries: list[Any]) -> None:
    for index, one in enumerate(entries):
        where = f"metadata.managedFields[{index}]"
        try:
            entry = _ManagedFields() if one is None else msgspec.convert(one, _ManagedFields)
        except msgspec.ValidationError as error:
            problem = str(error).replace("`$", f"`{where}")
            raise Undecodable(f"the object cannot be decoded: {problem}") from None
        if entry.time is not None and not _is_time(entry.time):
            problem = f"{where}.time: {entry.time!r} is not a time as in RFC 3339"
            raise Undecodable(f"the object cannot be decoded: {problem}")


def _check_times(metadata: Tree) -> None:
    for name in _TIMES & metadata.keys():
        if not _is_time(metadata[name]):
            problem = f"metadata.{name}: {metadata[name]!r} is not a time as in RFC 3339"
            raise Undecodable(f"the object cannot be decoded: {problem}")
    if metadata.get("managedFields"):
        _check_managed_fields(metadata["managedFields"])


@lru_cache(maxsize=256)  # an update mostly has the time of its object
def _is_time(text: str) -> bool:
    check = text_format("date-time")
    return check is not None and check(text)


def _replace_null_values(metadata: Tree, name: str) -> None:
    if None in metadata[name].values():
        metadata[name] = {key: value or "" for key, value in metadata[name].items()}


def _drop_empty(metadata: Tree) -> None:
    for name in [name for name, value in metadata.items() if not value and value != 0]:
        # `[]` and `[{}]` in managedFields have a meaning: they reset the field ownership. An empty text is no time.
        if metadata[name] is None or (name != "managedFields" and not (name in _TIMES and metadata[name] == "")):
            del metadata[name]


def init_metadata(metadata: Tree, *, namespace: str | None, uid: str, now: str, generation: bool) -> None:
    """Prepares the metadata of a new object: removes what clients cannot set, and sets what the server sets."""
    if not _SET_BY_SERVER.isdisjoint(metadata):
        given = metadata.get("generation")
        for name in _SET_BY_SERVER & metadata.keys():
            del metadata[name]
        if given and not generation:
            metadata["generation"] = given  # as upstream, which sets it only where it counts
    if namespace is None:
        metadata.pop("namespace", None)
    else:
        metadata["namespace"] = namespace
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    if generation:
        metadata["generation"] = 1


def inherit_metadata(metadata: Tree, old: Tree, *, is_stored: bool = True) -> None:
    """Copies from the old object the fields that an update cannot change or may leave out.

    Only the storage drops `selfLink`, so that the response to a dry run has it.
    """
    for name in ("namespace", "uid", "deletionGracePeriodSeconds", "resourceVersion"):
        if name not in metadata and name in old:
            metadata[name] = old[name]
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    for name in ("name", "creationTimestamp", "generation"):
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)
    if is_stored:
        metadata.pop("selfLink", None)


def merge_duplicate_owners(metadata: Tree) -> list[str]:
    """Removes references that are repeated as they are, in place; returns their uids."""
    owners: list[Tree] | None = metadata.get("ownerReferences")
    if owners is None or len(owners) < 2:
        return []
    first: dict[bytes, Tree] = {}
    twice: set[str] = set()
    for one in owners:
        key = encode_tree({name: one[name] for name in sorted(one) if one[name] not in ("", None)})
        if key in first:
            twice.add(str(one.get("uid", "")))
        first.setdefault(key, one)
    if twice:
        metadata["ownerReferences"] = list(first.values())
    return sorted(twice)


def is_deleting(tree: Tree) -> bool:
    """Whether the object has a deletionTimestamp."""
    return "deletionTimestamp" in tree["metadata"]


def generate_name(base: str, source: random.Random) -> str:
    """The base with a random suffix, cut so that it fits into a label."""
    ending = "".join([source.choice(GENERATED_LETTERS) for _ in range(GENERATED_LENGTH)])
    return base[:MAX_GENERATED_BASE] + ending


def new_uid(source: random.Random) -> str:
    """A random UUID, version 4."""
    text = (source.getrandbits(128) & _UUID_FREE | _UUID_FIXED).to_bytes(16, "big").hex("-", 2)
    return f"{text[:4]}{text[5:29]}{text[30:34]}{text[35:]}"


def write_timestamp(state: ServerState) -> str:
    """The timestamp of a write that happens now; the wall clock, which servers use, takes a faster path."""
    return _format_second(int(time())) if state.now is utc_now else format_timestamp(state.now())


def format_timestamp(now: datetime) -> str:
    """The time in the format of metadata: RFC 3339 in UTC, in whole seconds."""
    return _format_second(int(now.timestamp()))


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    return format_time(datetime.fromtimestamp(second, UTC))


def _read_owners(metadata: Tree) -> list[str]:
    dropped: list[str] = []
    owners: list[Tree] = metadata["ownerReferences"]
    for index, owner in enumerate(owners):
        if not _OWNER_FIELDS.issuperset(owner):
            for name in sorted(owner.keys() - _OWNER_FIELDS):
                dropped.append(f"metadata.ownerReferences[{index}].{name}")
                del owner[name]
        if None in owner.values():
            for name in [name for name, value in owner.items() if value is None]:
                del owner[name]
    return dropped


MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_IMMUTABLE: Final = ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_REQUIRED_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid")


def check_metadata(metadata: Tree, rules: Rules) -> list[Cause]:
    """Validates the metadata of a new object by the rules of its kind."""
    causes: list[Cause] = []
    if not rules.metadata_checks.create:
        return causes
    name = metadata.get("name")
    if "generateName" in metadata and rules.names_prefixes:
        causes += _check_prefix(metadata["generateName"], rules.name_check)
    if not name:
        causes.append(field_errors.required("metadata.name", "name or generateName is required"))
    elif problems := rules.name_check(name):
        causes += [field_errors.invalid("metadata.name", name, one) for one in problems]
    if not rules.generation and metadata.get("generation", 0) < 0:
        detail = "must be greater than or equal to 0"
        causes.append(field_errors.invalid("metadata.generation", metadata["generation"], detail))
    if _CHECKED.isdisjoint(metadata):
        return causes
    for word, check in _CHECKS:
        if word in metadata:
            causes += check(metadata[word])
            if word == "finalizers" and rules.finalizers_need_slash:
                causes += _check_qualified_finalizers(metadata[word])
    return causes


def check_common_metadata(metadata: Tree, rules: Rules) -> list[Cause]:
    """Validates what all objects must have in their metadata: of a new one that its kind has found to be valid."""
    if not rules.metadata_checks.create:
        common = Rules(name_check=check_path_segment, generation=rules.generation)
        return check_metadata(metadata, common)
    return _check_prefix(metadata["generateName"], check_path_segment) if "generateName" in metadata else []


def check_updated_metadata(metadata: Tree, old: Tree, rules: Rules, *, is_part: bool = False) -> list[Cause]:
    """Validates the metadata of an update, of which upstream reports a cause each time that it is checked.

    `is_part` is whether it is an update through `status` or `approval`.
    """
    checks = rules.part_metadata_checks if is_part else rules.metadata_checks
    causes = check_immutable_metadata(metadata, old)
    if causes:
        causes *= 1 + checks.update
    if "generateName" in metadata:
        causes += _check_prefix(metadata["generateName"], check_path_segment)
        if rules.names_prefixes:
            causes += _check_prefix(metadata["generateName"], rules.name_check) * checks.own
    if _CHECKED.isdisjoint(metadata):
        return causes
    for word, check in _CHECKS:
        if word not in metadata or metadata[word] == old.get(word):
            continue
        if word != "finalizers":
            causes += check(metadata[word]) * (2 + checks.own + checks.update)
            continue
        causes += check(metadata[word]) * (1 + checks.own)
        if rules.finalizers_need_slash:
            causes += _check_qualified_finalizers(metadata[word]) * (checks.own + checks.update)
    return causes


def _check_prefix(prefix: str, name_check: Callable[[str], list[str]]) -> list[Cause]:
    problems = name_check(_as_name(prefix)) if prefix else ()
    return [field_errors.invalid("metadata.generateName", prefix, one) for one in problems]


def _as_name(prefix: str) -> str:
    """A name that is valid if the prefix can be that of one, which may end with a dash."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def check_immutable_metadata(metadata: Tree, old: Tree) -> list[Cause]:
    """Validates that an update does not change immutable metadata."""
    causes: list[Cause] = []
    if "deletionTimestamp" in old:
        added = dict.fromkeys(one for one in metadata.get("finalizers", ()) if one not in old.get("finalizers", ()))
        if added:
            shown = ", ".join(f'"{one}"' for one in added)
            problem = "no new finalizers can be added if the object is being deleted, found new finalizers"
            causes.append(field_errors.forbidden("metadata.finalizers", f"{problem} []string{{{shown}}}"))
    if any(map(ne, map(metadata.get, _IMMUTABLE), map(old.get, _IMMUTABLE))):
        causes += [
            field_errors.invalid(f"metadata.{word}", metadata.get(word), "field is immutable")
            for word in _IMMUTABLE
            if metadata.get(word) != old.get(word)
        ]
    return causes


def finalizer_warnings(metadata: Tree, old: Tree | None = None) -> list[str]:
    """The warnings about new finalizers without a domain, which may conflict with those of other controllers."""
    finalizers = metadata.get("finalizers")
    if not finalizers or (old is not None and finalizers == old.get("finalizers")):
        return []
    prefer = "prefer a domain-qualified finalizer name"
    avoid = "to avoid accidental conflicts with other finalizer writers"
    return [
        f'metadata.finalizers: "{one}": {prefer}{" including a path (/)" if "." in one else ""} {avoid}'
        for one in finalizers
        if "/" not in one and one not in STANDARD_FINALIZERS
    ]


def _check_labels(labels: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in labels.items():
        if not is_label_key(key):
            problems = label_key_problems(key)
            causes += [field_errors.invalid("metadata.labels", key, problem) for problem in problems]
        if not is_label_value(value):
            causes += [
                field_errors.invalid("metadata.labels", value, problem) for problem in label_value_problems(value)
            ]
    return causes


def _check_annotations(annotations: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key in annotations:
        causes += [field_errors.invalid("metadata.annotations", key, one) for one in _key_problems(key.lower())]
    size = sum([len(key.encode()) + len(value.encode()) for key, value in annotations.items()])
    if size > MAX_ANNOTATIONS_BYTES:
        causes.append(field_errors.too_long("metadata.annotations", MAX_ANNOTATIONS_BYTES))
    return causes


def _check_finalizers(finalizers: list[str]) -> list[Cause]:
    causes = [
        field_errors.invalid("metadata.finalizers", one, problem)
        for one in finalizers
        for problem in _key_problems(one)
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        problem = "finalizers orphan and foregroundDeletion cannot be both set"
        causes.append(field_errors.invalid("metadata.finalizers", cast("Any", finalizers), problem))
    return causes


def _check_qualified_finalizers(finalizers: list[str]) -> list[Cause]:
    problem = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        field_errors.invalid(f"metadata.finalizers[{index}]", one, problem)
        for index, one in enumerate(finalizers)
        if "/" not in one and one not in STANDARD_FINALIZERS
    ]


def _check_owners(owners: list[Tree]) -> list[Cause]:
    causes: list[Cause] = []
    for owner in owners:
        if not all(map(owner.get, _REQUIRED_OWNER_FIELDS)):
            for word in [word for word in _REQUIRED_OWNER_FIELDS if not owner.get(word)]:
                field = f"metadata.ownerReferences.{word}"
                problem = "version must not be empty" if word == "apiVersion" else "must not be empty"
                causes.append(field_errors.invalid(field, owner.get(word, ""), problem))
        elif owner["apiVersion"].count("/") > 1:  # it has no version, as Go parses it
            field = "metadata.ownerReferences.apiVersion"
            causes.append(field_errors.invalid(field, owner["apiVersion"], "version must not be empty"))
        if owner.get("kind") == "Event" and owner.get("apiVersion") == "v1":
            problem = "/v1, Kind=Event is disallowed from being an owner"
            causes.append(field_errors.invalid("metadata.ownerReferences", cast("Any", owner), problem))
    if len(owners) > 1:
        controllers = [f"{one.get('kind')}/{one.get('name')}" for one in owners if one.get("controller") is True]
        for other in controllers[1:]:
            problem = 'Only one reference can have Controller set to true. Found "true" in references for'
            problem = f"{problem} {controllers[0]} and {other}"
            causes.append(field_errors.invalid("metadata.ownerReferences", cast("Any", owners), problem))
    return causes


_CHECKS: Final[tuple[tuple[str, Callable[[Any], list[Cause]]], ...]] = (
    ("labels", _check_labels),
    ("annotations", _check_annotations),
    ("finalizers", _check_finalizers),
    ("ownerReferences", _check_owners),
)
_CHECKED: Final = frozenset(word for word, _ in _CHECKS)


def _key_problems(key: str) -> tuple[str, ...]:
    return () if is_label_key(key) else label_key_problems(key)
