"""Objects to keep by the hundred thousand: a small head, and the bytes as they came.

A cache holds objects far more often than it looks inside them. So a kept object is decoded only as far as every
watch, queue and index needs it (its head); the rest stays JSON until somebody asks. Nothing in it is tracked by the
garbage collector: no dict, no list, no reference back. docs/decisions/0003 has the measurements.
"""

from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from levelset.errors import BadObject
from levelset.objects import codec
from levelset.objects.wirenames import wire_name

__all__ = ["Head", "Kept", "OwnerHead", "keep", "read_head", "without_managed_fields"]

T = TypeVar("T")

_NONE: Final = Raw(b"null")


class OwnerHead(Struct, frozen=True, gc=False, rename=wire_name):
    """One owner, as a head shows it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Head(Struct, frozen=True, gc=False, rename=wire_name):
    """The metadata that a runtime asks for all the time; what is no scalar stays JSON until asked for."""

    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    deletion_timestamp: str | None = None
    labels_json: Raw = msgspec.field(default=_NONE, name="labels")
    annotations_json: Raw = msgspec.field(default=_NONE, name="annotations")
    owners_json: Raw = msgspec.field(default=_NONE, name="ownerReferences")
    finalizers_json: Raw = msgspec.field(default=_NONE, name="finalizers")

    @property
    def labels(self) -> dict[str, str]:
        """The labels, decoded anew at each call."""
        return _read(_texts, self.labels_json) or {}

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations, decoded anew at each call."""
        return _read(_texts, self.annotations_json) or {}

    @property
    def owners(self) -> tuple[OwnerHead, ...]:
        """The owner references, decoded anew at each call."""
        return _read(_owners, self.owners_json) or ()

    @property
    def finalizers(self) -> tuple[str, ...]:
        """The finalizers, decoded anew at each call."""
        return _read(_names, self.finalizers_json) or ()


class Kept(Struct, frozen=True, gc=False):
    """An object to keep: its head and its bytes."""

    head: Head
    raw: bytes

    def read(self, kind: type[T]) -> T:
        """The typed object, decoded for this caller alone."""
        return codec.decode(kind, self.raw)

    def tree(self) -> Any:
        """The JSON tree, decoded for this caller alone."""
        return codec.decode_tree(self.raw)


class _Envelope(Struct, frozen=True, gc=False):
    metadata: Head


class _OwnedMetadata(Struct, rename=wire_name):
    managed_fields: Raw = _NONE


class _OwnedEnvelope(Struct):
    metadata: _OwnedMetadata


_envelopes: Final = msgspec.json.Decoder(_Envelope)
_owned: Final = msgspec.json.Decoder(_OwnedEnvelope)
_texts: Final = msgspec.json.Decoder(dict[str, str])
_names: Final = msgspec.json.Decoder(tuple[str, ...])
_owners: Final = msgspec.json.Decoder(tuple[OwnerHead, ...])
_NAME: Final = b'"managedFields"'
_WORD: Final = b"managedFields"  # found sooner without the quote, which is everywhere


def keep(raw: bytes, *, managed_fields: bool = True) -> Kept:
    """The object to keep for these bytes; BadObject if they are no object with metadata.

    Without managed fields the bytes become smaller by what those take, a third of a Pod, for some microseconds.
    """
    if not managed_fields:
        raw = without_managed_fields(raw)
    return Kept(read_head(raw), raw)


def read_head(raw: bytes) -> Head:
    """The head of the object in these bytes, skipping everything else."""
    try:
        return _envelopes.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"this is no object with metadata: {error}") from error


def without_managed_fields(raw: bytes) -> bytes:
    """The same object without `metadata.managedFields`, cut out of the bytes rather than decoded and written again."""
    try:
        found = _owned.decode(raw).metadata.managed_fields
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"this is no object with metadata: {error}") from error
    if found is _NONE:
        return raw
    return _cut(raw, bytes(found)) or _rewritten(raw)


def _cut(raw: bytes, value: bytes) -> bytes | None:
    """The bytes without this member, or None where its place is in doubt."""
    name = raw.find(_NAME)
    # Looking for a value of some kilobytes would cost more than all the rest; where it must stand, it is compared.
    start = raw.find(value[:1], name + len(_NAME))
    if (
        raw.find(_WORD, name + len(_NAME)) >= 0
        or raw[name + len(_NAME) : start].strip() != b":"
        or not raw.startswith(value, start)
    ):
        return None
    before = raw[:name].rstrip()
    if before.endswith(b","):
        return before[:-1] + raw[start + len(value) :]
    after = raw[start + len(value) :].lstrip()  # the first member: it takes the comma behind it along
    return before + after.removeprefix(b",")


def _rewritten(raw: bytes) -> bytes:
    tree = codec.decode_tree(raw)
    tree["metadata"].pop("managedFields", None)
    return codec.encode_tree(tree)


def _read(decoder: msgspec.json.Decoder[T], raw: Raw) -> T | None:
    if raw is _NONE or raw == _NONE:
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadObject(f"the metadata cannot be read: {error}", field="metadata") from error
