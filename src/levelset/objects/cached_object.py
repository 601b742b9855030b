"""`CachedObject`: an object as caches hold it, with decoded metadata (its head) and the rest as JSON bytes.

A cache holds 100,000s of objects and reads few of them. So only the metadata that every watch, queue and index needs is
decoded; the rest stays JSON until it is read. A cached object is one Python object that the garbage collector does not
track: no dict, no list, no reference back. docs/decisions/0003 has the measurements.

Managed fields, a third of a typical Pod, can be cut out of the bytes without decoding them.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from levelset.errors import BadObject
from levelset.objects import codec
from levelset.objects.model import wire_name

__all__ = [
    "CachedObject",
    "CachedObjectDecoder",
    "Head",
    "OwnerHead",
    "cached_from_head",
    "decode_cached",
    "decode_head",
    "set_decoded",
    "without_managed_fields",
]

T = TypeVar("T")

_NONE: Final = Raw(b"null")


class OwnerHead(Struct, frozen=True, gc=False, rename=wire_name):
    """One owner reference in a head."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class _Extra:
    """The slots of a `CachedObject` that are not members of the JSON, so that no JSON can set them.

    It is the base of `Head`, although a plain head never fills them: msgspec allows additional slots only in a base
    without fields.
    """

    __slots__ = ("decoded", "raw")

    raw: bytes
    decoded: Any
    """Used by `DecodedObjects` for the decoded form, None at first. Not part of the object's value."""


class Head(_Extra, Struct, frozen=True, gc=False, rename=wire_name):
    """The metadata that caches, queues and indexes need; members that are not scalars stay JSON until they are read."""

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
    managed_json: Raw = msgspec.field(default=_NONE, name="managedFields")

    @property
    def labels(self) -> dict[str, str]:
        """The labels, decoded at each access."""
        return _read(_texts, self.labels_json) or {}

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations, decoded at each access."""
        return _read(_texts, self.annotations_json) or {}

    @property
    def owners(self) -> tuple[OwnerHead, ...]:
        """The owner references, decoded at each access."""
        return _read(_owners, self.owners_json) or ()

    @property
    def finalizers(self) -> tuple[str, ...]:
        """The finalizers, decoded at each access."""
        return _read(_names, self.finalizers_json) or ()


class CachedObject(Head, frozen=True, gc=False):
    """An object in a cache: its head and its bytes. Created by `decode_cached` and `cached_from_head`."""

    @property
    def head(self) -> Head:
        """The head, which is this object itself."""
        return self

    def read(self, kind: type[T]) -> T:
        """The typed object, decoded for this caller alone."""
        return codec.decode(kind, self.raw)

    def tree(self) -> Any:
        """The JSON tree, decoded for this caller alone."""
        return codec.decode_tree(self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CachedObject) and self.raw == other.raw and super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # Raw members are not hashable

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, raw={self.raw!r})"

    def __copy__(self) -> "CachedObject":
        return self

    def __reduce__(self) -> Any:
        return _filled, (msgspec.structs.astuple(self), self.raw)


class _Envelope(Struct, frozen=True, gc=False):
    metadata: Head


class _CachedEnvelope(Struct, frozen=True, gc=False):
    metadata: CachedObject


class _Managed(Struct, gc=False):
    managed: Raw = msgspec.field(name="managedFields")


_envelopes: Final = msgspec.json.Decoder(_Envelope)
_decode_envelope: Final = msgspec.json.Decoder(_CachedEnvelope).decode
_managed: Final = msgspec.json.Decoder(_Managed)
_texts: Final = msgspec.json.Decoder(dict[str, str])
_names: Final = msgspec.json.Decoder(tuple[str, ...])
_owners: Final = msgspec.json.Decoder(tuple[OwnerHead, ...])
# The setters of the additional slots: the struct is frozen. The bytes are set once, before the object is shared.
_set_raw: Final[Callable[[CachedObject, bytes], None]] = _Extra.__dict__["raw"].__set__
set_decoded: Final[Callable[[CachedObject, Any], None]] = _Extra.__dict__["decoded"].__set__
"""Sets `decoded` of a cached object."""
_METADATA: Final = b'"metadata":'
_MEMBER: Final = b',"managedFields":'


def decode_cached(raw: bytes, *, managed_fields: bool = True) -> CachedObject:
    """The cached form of an object; BadObject if the bytes are not an object with metadata.

    With `managed_fields=False` these are cut out of the bytes, which takes some microseconds.
    """
    return CachedObjectDecoder(managed_fields=managed_fields).decode(raw)


class CachedObjectDecoder:
    """Makes cached objects of the bytes of many objects, with or without their managed fields.

    A server writes all objects alike: if the last one had managed fields to be cut out, they are cut out of the next
    one before it is decoded. So each is decoded once.
    """

    __slots__ = ("_is_cutting", "_managed_fields")

    def __init__(self, *, managed_fields: bool = True) -> None:
        self._managed_fields = managed_fields
        self._is_cutting = False

    def decode(self, raw: bytes) -> CachedObject:
        """The cached form of an object; BadObject if the bytes are not an object with metadata."""
        if self._is_cutting:
            whole, raw = raw, _cut_managed_fields(raw) or raw
            self._is_cutting = raw is not whole
        try:
            cached = _decode_envelope(raw).metadata
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise _no_object(error) from error
        if cached.managed_json is not _NONE and not self._managed_fields:
            # Decoded again: the Raw members of the first head reference the whole original bytes.
            cached = self.decode(_cut_managed_fields(raw) or _rewritten(raw))
            self._is_cutting = True
            return cached
        _set_raw(cached, raw)
        set_decoded(cached, None)
        return cached


def cached_from_head(head: Head, raw: bytes) -> CachedObject:
    """The cached object with this head and these bytes; the caller guarantees that they belong together."""
    return _filled(msgspec.structs.astuple(head), raw)


def _filled(members: tuple[Any, ...], raw: bytes) -> CachedObject:
    cached = CachedObject(*members)
    _set_raw(cached, raw)
    set_decoded(cached, None)
    return cached


def _cut_managed_fields(raw: bytes) -> bytes | None:
    """The object without managed fields, if they are where servers write them; else None.

    A server writes an object without spaces, with its metadata before any other nested object, and with the managed
    fields as a list of objects after other metadata. So they are searched as text, and the result is verified: from the
    start of the metadata to the end of the managed fields it must be a whole object but for its closing brace, with the
    managed fields last. Whether the rest is an object is checked by the caller, which decodes its head.
    """
    at = raw.find(_METADATA)
    # The byte before must start a member: after a backslash the quote would be part of a longer name.
    if at < 1 or raw[at - 1] not in b"{," or raw.count(b"{", 0, at) != 1:
        return None
    metadata = at + len(_METADATA)
    name = raw.find(_MEMBER, metadata)
    value = name + len(_MEMBER)
    end = raw.find(b"]", value) + 1 if name >= 0 else 0
    if not end:
        return None
    # Usually the managed fields are last, so the closing brace follows and need not be appended to a copy.
    whole = raw[metadata : end + 1] if raw.startswith(b"}", end) else raw[metadata:end] + b"}"
    try:
        managed = _managed.decode(whole).managed
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if memoryview(managed).nbytes != end - value:
        return None
    return raw[:name] + raw[end:]


def decode_head(raw: bytes) -> Head:
    """The head of an object; nothing else is decoded. BadObject if the bytes are not an object with metadata."""
    try:
        return _envelopes.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _no_object(error) from error


def _no_object(error: Exception) -> BadObject:
    return BadObject(f"not an object with metadata: {error}")


def without_managed_fields(raw: bytes) -> bytes:
    """The same object without `metadata.managedFields`, which are cut out of the bytes where possible."""
    return decode_cached(raw, managed_fields=False).raw


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
