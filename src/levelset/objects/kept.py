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


class _OwnedHead(Head, frozen=True, gc=False, rename=wire_name):
    managed_fields: Raw = _NONE


class _OwnedEnvelope(Struct, frozen=True, gc=False):
    metadata: _OwnedHead


_envelopes: Final = msgspec.json.Decoder(_Envelope)
_owned: Final = msgspec.json.Decoder(_OwnedEnvelope)
_texts: Final = msgspec.json.Decoder(dict[str, str])
_names: Final = msgspec.json.Decoder(tuple[str, ...])
_owners: Final = msgspec.json.Decoder(tuple[OwnerHead, ...])
_WORD: Final = b"managedFields"  # found sooner without the quotes, which are everywhere
_QUOTE: Final = b'"'


def keep(raw: bytes, *, managed_fields: bool = True) -> Kept:
    """The object to keep for these bytes; BadObject if they are no object with metadata.

    Without managed fields the bytes become smaller by what those take, a third of a Pod, for some microseconds.
    """
    if managed_fields:
        return Kept(read_head(raw), raw)
    owned = _read_owned(raw)
    if owned.managed_fields is _NONE:
        return Kept(read_head(raw), raw)
    cut = _cut(raw, bytes(owned.managed_fields))
    return _kept_apart(owned, cut) if cut is not None else keep(_rewritten(raw))


def read_head(raw: bytes) -> Head:
    """The head of the object in these bytes, skipping everything else."""
    try:
        return _envelopes.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"this is no object with metadata: {error}") from error


def without_managed_fields(raw: bytes) -> bytes:
    """The same object without `metadata.managedFields`, cut out of the bytes rather than decoded and written again."""
    found = _read_owned(raw).managed_fields
    if found is _NONE:
        return raw
    return _cut(raw, bytes(found)) or _rewritten(raw)


def _read_owned(raw: bytes) -> _OwnedHead:
    try:
        return _owned.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"this is no object with metadata: {error}") from error


def _kept_apart(owned: _OwnedHead, raw: bytes) -> Kept:
    """What is kept of an object that has been cut: its head must not hold on to the bytes from before."""
    head = Head(
        owned.name,
        owned.namespace,
        owned.uid,
        owned.resource_version,
        owned.generation,
        owned.deletion_timestamp,
        owned.labels_json.copy(),
        owned.annotations_json.copy(),
        owned.owners_json.copy(),
        owned.finalizers_json.copy(),
    )
    return Kept(head, raw)


def _cut(raw: bytes, value: bytes) -> bytes | None:
    """The bytes without this member, or None where its place is in doubt."""
    word = raw.find(_WORD)
    name, end = word - 1, word + len(_WORD)
    # Looking for a value of some kilobytes would cost more than all the rest; where it must stand, it is compared.
    start = raw.find(value[:1], end)
    after = start + len(value)
    if (
        raw[name:word] != _QUOTE
        or raw[end : end + 1] != _QUOTE
        or raw[end + 1 : start].strip() != b":"
        or not raw.startswith(value, start)
        or raw.rfind(_WORD, after) >= 0  # from behind, which is quicker: is there another of this name?
    ):
        return None
    before = raw[:name].rstrip()
    if before.endswith(b","):
        return before[:-1] + raw[after:]
    # The first member takes the comma behind it along.
    return before + raw[after:].lstrip().removeprefix(b",")


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
