"""`CachedObject`: an object as caches hold it, with decoded metadata (its head) and the rest as JSON bytes.

A cache holds 100,000s of objects and reads few of them. So only the metadata that every watch, queue and index needs is
decoded; the rest stays JSON until it is read. A cached object is one Python object that the garbage collector does not
track: no dict, no list, no reference back. docs/decisions/0003 has the measurements.

Managed fields, a third of a typical Pod, can be cut out of the bytes without decoding them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice, repeat
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from levelset.errors import BadObject
from levelset.objects import codec
from levelset.objects.model import wire_name

__all__ = [
    "CachedObject",
    "Head",
    "OwnerHead",
    "cached_from_head",
    "cut_managed_fields",
    "decode_all_cached",
    "decode_cached",
    "decode_head",
    "metadata_prefix",
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
_cached_envelopes: Final = msgspec.json.Decoder(_CachedEnvelope)
_managed: Final = msgspec.json.Decoder(_Managed)
_texts: Final = msgspec.json.Decoder(dict[str, str])
_names: Final = msgspec.json.Decoder(tuple[str, ...])
_owners: Final = msgspec.json.Decoder(tuple[OwnerHead, ...])
_metadata: Final = attrgetter("metadata")
# The setters of the additional slots: the struct is frozen. The bytes are set once, before the object is shared.
_set_raw: Final[Callable[[CachedObject, bytes], None]] = _Extra.__dict__["raw"].__set__
set_decoded: Final[Callable[[CachedObject, Any], None]] = _Extra.__dict__["decoded"].__set__
"""Sets `decoded` of a cached object."""
_WORD: Final = b"managedFields"  # without the quotes: bytes.find is slow if the first byte is frequent
_QUOTE: Final = b'"'
_METADATA: Final = b'"metadata":'
_MEMBER: Final = b',"managedFields":'
_BEFORE_F: Final = _MEMBER.index(b"F")


def decode_cached(raw: bytes, *, managed_fields: bool = True) -> CachedObject:
    """The cached form of an object; BadObject if the bytes are not an object with metadata.

    With `managed_fields=False` these are cut out of the bytes, which takes some microseconds.
    """
    cached = _decode_cached(raw)
    if managed_fields or cached.managed_json is _NONE:
        return cached
    # Decoded again: the Raw members of the first head reference the whole original bytes.
    return _decode_cached(_cut(raw, bytes(cached.managed_json)) or _rewritten(raw))


def decode_all_cached(raws: Sequence[bytes], *, managed_fields: bool = True) -> list[CachedObject] | None:
    """`decode_cached` for each of them, in less time; None if one needs `decode_cached` (an error, managed fields)."""
    decoded = map(_metadata, map(_cached_envelopes.decode, raws))
    try:
        found: list[CachedObject] = list(islice(decoded, 1))
        if managed_fields or not _have_managed_fields(found):  # most likely all are like the first
            found += decoded
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not managed_fields and _have_managed_fields(found):
        return None
    deque(map(_set_raw, found, raws), 0)
    deque(map(set_decoded, found, repeat(None)), 0)
    return found


def cached_from_head(head: Head, raw: bytes) -> CachedObject:
    """The cached object with this head and these bytes; the caller guarantees that they belong together."""
    return _filled(msgspec.structs.astuple(head), raw)


def _filled(members: tuple[Any, ...], raw: bytes) -> CachedObject:
    cached = CachedObject(*members)
    _set_raw(cached, raw)
    set_decoded(cached, None)
    return cached


def _decode_cached(raw: bytes) -> CachedObject:
    try:
        cached = _cached_envelopes.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _no_object(error) from error
    _set_raw(cached, raw)
    set_decoded(cached, None)
    return cached


def _have_managed_fields(objects: Sequence[CachedObject]) -> bool:
    for cached in objects:  # noqa: SIM110 -- any(...) is slower
        if cached.managed_json is not _NONE:
            return True
    return False


def metadata_prefix(raw: bytes) -> bytes | None:
    """The bytes of an object up to the value of its metadata, if no nested object comes before it; else None."""
    end = raw.find(_METADATA)
    # The byte before must start a member: after a backslash the quote would be part of a longer name.
    if end < 1 or raw[end - 1] not in b"{," or raw.count(b"{", 0, end) != 1:
        return None
    return raw[: end + len(_METADATA)]


def cut_managed_fields(text: bytes, start: int, stop: int, prefix: bytes) -> bytes | None:
    """The object in `text[start:stop]` without managed fields, if they are where servers write them; else None.

    A server encodes all objects of a kind alike: with the same `metadata_prefix`, without spaces, and with managed
    fields as a list of objects after other metadata. So they are searched as text, and the result is verified: from the
    start of the metadata to the end of the managed fields it must be a whole object but for its closing brace, with the
    managed fields last. Whether the rest is an object is checked by the caller, which decodes its head.
    """
    if not text.startswith(prefix, start):
        return None
    metadata = start + len(prefix)
    # A single rare byte is found much faster than a word.
    name = text.find(b"F", metadata, stop) - _BEFORE_F
    if name < metadata or not text.startswith(_MEMBER, name):
        name = text.find(_MEMBER, metadata, stop)
    value = name + len(_MEMBER)
    end = text.find(b"]", value, stop) + 1 if name >= 0 else 0
    if not end:
        return None
    # Usually the managed fields are last, so the closing brace follows and need not be appended to a copy.
    whole = text[metadata : end + 1] if text.startswith(b"}", end) else text[metadata:end] + b"}"
    try:
        managed = _managed.decode(whole).managed
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if memoryview(managed).nbytes != end - value:
        return None
    return b"".join((text[start:name], memoryview(text)[end:stop]))


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
    found = decode_head(raw).managed_json
    if found is _NONE:
        return raw
    return _cut(raw, bytes(found)) or _rewritten(raw)


def _cut(raw: bytes, value: bytes) -> bytes | None:
    """The bytes without the managed fields of this value, or None if their position is ambiguous."""
    word = raw.find(_WORD)
    name, end = word - 1, word + len(_WORD)
    # Compared at its only possible position: searching for a value of some kilobytes would cost more than the rest.
    start = raw.find(value[:1], end)
    after = start + len(value)
    if (
        raw[name:word] != _QUOTE
        or raw[end : end + 1] != _QUOTE
        or raw[end + 1 : start].strip() != b":"
        or not raw.startswith(value, start)
        or raw.rfind(_WORD, after) >= 0  # another occurrence of the name; searched from the end, which is faster
    ):
        return None
    before = raw[:name].rstrip()
    if before.endswith(b","):
        return before[:-1] + raw[after:]
    # As the first member it takes the comma after it along.
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
