"""The metadata of objects: what clients may say about it, what the server fills in, and what is refused.

Everything here is pure and works on the tree that was decoded for this write.
"""

import random
from datetime import UTC, datetime
from functools import lru_cache
from time import time
from typing import Any, Final

import msgspec

from levelset.apiserver.refusals import Undecodable
from levelset.apiserver.world import Tree, World, utc_now
from levelset.objects.times import format_time

__all__ = [
    "fill_new",
    "generate_name",
    "inherit",
    "is_deleting",
    "merge_duplicate_owners",
    "metadata_of",
    "new_uid",
    "read_metadata",
    "stamp",
    "time_text",
]

GENERATED_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
GENERATED_LENGTH: Final = 5
MAX_GENERATED_BASE: Final = 58

# What only the server says about a new object; selfLink is said by nobody any more.
_SET_BY_SERVER: Final = frozenset(
    {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"}
)

# Of the bits of a UUID, those that are free, and those that say that it is a random one.
_UUID_FREE: Final = ~(0xF000 << 64) & ~(0xC000 << 48)
_UUID_FIXED: Final = (0x4000 << 64) | (0x8000 << 48)


class _Owner(msgspec.Struct, frozen=True, gc=False):
    apiVersion: str | None = None  # noqa: N815  # the names of the wire
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None  # noqa: N815


class _PlainOwner(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    apiVersion: str = ""  # noqa: N815
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    blockOwnerDeletion: bool = False  # noqa: N815


class _Members(msgspec.Struct, frozen=True, gc=False):
    """The types of the members that hold nothing else that might be null."""

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


class _Metadata(_Members, frozen=True, gc=False):
    """The types of all members; what is not here is unknown."""

    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    ownerReferences: list[_Owner] | None = None  # noqa: N815


class _PlainMetadata(_Members, frozen=True, gc=False, forbid_unknown_fields=True):
    """As nearly all metadata is: with nothing unknown in it, and no null but for a member."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[_PlainOwner] | None = None  # noqa: N815


_KNOWN: Final = frozenset(_Metadata.__struct_fields__)
_KNOWN_OF_OWNER: Final = frozenset(_Owner.__struct_fields__)


def metadata_of(tree: Tree) -> Tree:
    """The metadata of an object that has gone through `read_metadata`."""
    metadata: Tree = tree["metadata"]
    return metadata


def read_metadata(tree: Tree) -> list[str]:
    """Brings `metadata` into its one form, in place, and returns the paths of the unknown fields that it dropped.

    Nulls and empty lists and maps are left out. Raises Undecodable if something has the wrong type.
    """
    metadata = tree.get("metadata")
    if metadata is None:
        tree["metadata"] = {}
        return []
    try:
        msgspec.convert(metadata, _PlainMetadata)
    except msgspec.ValidationError:
        return _read_any(metadata)
    if not all(metadata.values()):
        _drop_empty(metadata)
    return []


def _read_any(metadata: Tree) -> list[str]:
    """As `read_metadata`, for metadata in which something is unknown, null or wrong."""
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`$", "`metadata")
        raise Undecodable(f"the object cannot be decoded: {problem}") from None
    dropped: list[str] = []
    if not _KNOWN.issuperset(metadata):
        unknown = sorted(metadata.keys() - _KNOWN)
        dropped = [f"metadata.{name}" for name in unknown]
        for name in unknown:
            del metadata[name]
    if not all(metadata.values()):
        _drop_empty(metadata)
    if "labels" in metadata:
        _fill_texts(metadata, "labels")
    if "annotations" in metadata:
        _fill_texts(metadata, "annotations")
    if "ownerReferences" in metadata:
        dropped += _read_owners(metadata)
    return dropped


def _fill_texts(metadata: Tree, name: str) -> None:
    if None in metadata[name].values():
        metadata[name] = {key: value or "" for key, value in metadata[name].items()}


def _drop_empty(metadata: Tree) -> None:
    for name in [name for name, value in metadata.items() if not value and value != 0]:
        # `[]` and `[{}]` in managedFields mean something: forget who owns what.
        if name != "managedFields" or metadata[name] is None:
            del metadata[name]


def fill_new(metadata: Tree, *, namespace: str | None, uid: str, now: str, generation: bool) -> None:
    """Makes the metadata that of a new object: what clients may not set is wiped, what the server sets is set."""
    if not _SET_BY_SERVER.isdisjoint(metadata):
        for name in _SET_BY_SERVER & metadata.keys():
            del metadata[name]
    if namespace is None:
        metadata.pop("namespace", None)
    else:
        metadata["namespace"] = namespace
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    if generation:
        metadata["generation"] = 1


def inherit(metadata: Tree, old: Tree) -> None:
    """Takes over from the old object what an update cannot change or may leave out."""
    for name in ("namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
        if name in old and name not in metadata:
            metadata[name] = old[name]
    for name in ("name", "creationTimestamp", "generation"):
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)


def merge_duplicate_owners(metadata: Tree) -> list[str]:
    """Keeps the first of several references to one owner, in place; returns the uids that were given twice."""
    owners: list[Tree] | None = metadata.get("ownerReferences")
    if owners is None or len(owners) < 2:
        return []
    first: dict[str, Tree] = {}
    twice: set[str] = set()
    for one in owners:
        uid = str(one.get("uid", ""))
        if uid in first:
            twice.add(uid)
        first.setdefault(uid, one)
    if twice:
        metadata["ownerReferences"] = list(first.values())
    return sorted(twice)


def is_deleting(tree: Tree) -> bool:
    """Whether the deletion of this object has begun."""
    return "deletionTimestamp" in tree["metadata"]


def generate_name(base: str, source: random.Random) -> str:
    """A name that begins like the base and ends at random, and still fits into a label."""
    ending = "".join([source.choice(GENERATED_LETTERS) for _ in range(GENERATED_LENGTH)])
    return base[:MAX_GENERATED_BASE] + ending


def new_uid(source: random.Random) -> str:
    """A random UUID, version 4."""
    text = (source.getrandbits(128) & _UUID_FREE | _UUID_FIXED).to_bytes(16, "big").hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def stamp(world: World) -> str:
    """The time of a write that happens now, as `time_text` has it, and faster by the clock that most worlds have."""
    return _time_text(int(time())) if world.now is utc_now else time_text(world.now())


def time_text(now: datetime) -> str:
    """The time as metadata has it: RFC 3339, in whole seconds."""
    return _time_text(int(now.timestamp()))


@lru_cache(maxsize=64)
def _time_text(second: int) -> str:
    return format_time(datetime.fromtimestamp(second, UTC))


def _read_owners(metadata: Tree) -> list[str]:
    dropped: list[str] = []
    owners: list[Tree] = metadata["ownerReferences"]
    for index, owner in enumerate(owners):
        if not _KNOWN_OF_OWNER.issuperset(owner):
            for name in sorted(owner.keys() - _KNOWN_OF_OWNER):
                dropped.append(f"metadata.ownerReferences[{index}].{name}")
                del owner[name]
        if None in owner.values():
            for name in [name for name, value in owner.items() if value is None]:
                del owner[name]
    return dropped
