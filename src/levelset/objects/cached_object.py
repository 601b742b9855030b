"""Objects to keep by the hundred thousand: a small head, and the bytes as they came.

A cache holds objects far more often than it looks inside them. So a kept object is decoded only as far as every
watch, queue and index needs it (its head); the rest stays JSON until somebody asks. It is one object, of a class that
is a head with bytes. Nothing in it is tracked by the garbage collector: no dict, no list, no reference back.
docs/decisions/0003 has the measurements.
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
    "Head",
    "Kept",
    "OwnerHead",
    "beginning_of",
    "cut_managed_fields",
    "keep",
    "keep_all",
    "kept_of",
    "read_head",
    "set_made",
    "without_managed_fields",
]

T = TypeVar("T")

_NONE: Final = Raw(b"null")


class OwnerHead(Struct, frozen=True, gc=False, rename=wire_name):
    """One owner, as a head shows it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class _Beside:
    """What a kept object has beside its head. It is no member of the JSON, so that no JSON can ever set it.

    The base of a head, though a head alone never has it: only a class without members can bring slots of its own.
    """

    __slots__ = ("made", "raw")

    raw: bytes
    made: Any
    """For whoever remembers what was decoded of it; None at first. It is no part of what the object is."""


class Head(_Beside, Struct, frozen=True, gc=False, rename=wire_name):
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
    managed_json: Raw = msgspec.field(default=_NONE, name="managedFields")

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


class Kept(Head, frozen=True, gc=False):
    """An object to keep: a head, and its bytes. `keep` and `kept_of` make it."""

    @property
    def head(self) -> Head:
        """The head, which is the object itself."""
        return self

    def read(self, kind: type[T]) -> T:
        """The typed object, decoded for this caller alone."""
        return codec.decode(kind, self.raw)

    def tree(self) -> Any:
        """The JSON tree, decoded for this caller alone."""
        return codec.decode_tree(self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and self.raw == other.raw and super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as it is for what has JSON in it

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, raw={self.raw!r})"

    def __copy__(self) -> "Kept":
        return self

    def __reduce__(self) -> Any:
        return _filled, (msgspec.structs.astuple(self), self.raw)


class _Envelope(Struct, frozen=True, gc=False):
    metadata: Head


class _KeptEnvelope(Struct, frozen=True, gc=False):
    metadata: Kept


class _Managed(Struct, gc=False):
    managed: Raw = msgspec.field(name="managedFields")


_envelopes: Final = msgspec.json.Decoder(_Envelope)
_kept_envelopes: Final = msgspec.json.Decoder(_KeptEnvelope)
_managed: Final = msgspec.json.Decoder(_Managed)
_texts: Final = msgspec.json.Decoder(dict[str, str])
_names: Final = msgspec.json.Decoder(tuple[str, ...])
_owners: Final = msgspec.json.Decoder(tuple[OwnerHead, ...])
_metadata: Final = attrgetter("metadata")
# The ways to fill in what is no member. The bytes are there before anybody else sees the object, and do not change.
_set_raw: Final[Callable[[Kept, bytes], None]] = _Beside.__dict__["raw"].__set__
set_made: Final[Callable[[Kept, Any], None]] = _Beside.__dict__["made"].__set__
"""Sets `made` of a kept object."""
_WORD: Final = b"managedFields"  # found sooner without the quotes, which are everywhere
_QUOTE: Final = b'"'
_METADATA: Final = b'"metadata":'
_MEMBER: Final = b',"managedFields":'
_BEFORE_F: Final = _MEMBER.index(b"F")


def keep(raw: bytes, *, managed_fields: bool = True) -> Kept:
    """The object to keep for these bytes; BadObject if they are no object with metadata.

    Without managed fields the bytes become smaller by what those take, a third of a Pod, for some microseconds.
    """
    kept = _read_kept(raw)
    if managed_fields or kept.managed_json is _NONE:
        return kept
    # Read once more: a head must not hold on to the bytes from before.
    return _read_kept(_cut(raw, bytes(kept.managed_json)) or _rewritten(raw))


def keep_all(raws: Sequence[bytes], *, managed_fields: bool = True) -> list[Kept] | None:
    """What `keep` gives for each of them, in less time; None if it has to be asked about each, for whatever reason."""
    decoded = map(_metadata, map(_kept_envelopes.decode, raws))
    try:
        found: list[Kept] = list(islice(decoded, 1))
        if managed_fields or not _have_managed_fields(found):  # most likely all are as the first
            found += decoded
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not managed_fields and _have_managed_fields(found):
        return None
    deque(map(_set_raw, found, raws), 0)
    deque(map(set_made, found, repeat(None)), 0)
    return found


def kept_of(head: Head, raw: bytes) -> Kept:
    """The object to keep with this head and these bytes, for those who know that they belong together."""
    return _filled(msgspec.structs.astuple(head), raw)


def _filled(members: tuple[Any, ...], raw: bytes) -> Kept:
    kept = Kept(*members)
    _set_raw(kept, raw)
    set_made(kept, None)
    return kept


def _read_kept(raw: bytes) -> Kept:
    try:
        kept = _kept_envelopes.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _no_object(error) from error
    _set_raw(kept, raw)
    set_made(kept, None)
    return kept


def _have_managed_fields(objects: Sequence[Kept]) -> bool:
    for kept in objects:  # noqa: SIM110 -- any(...) takes longer
        if kept.managed_json is not _NONE:
            return True
    return False


def beginning_of(raw: bytes) -> bytes | None:
    """How an object begins, up to the value of its metadata, if nothing that has members comes before that."""
    end = raw.find(_METADATA)
    # A quote behind a backslash would be part of a longer name.
    if end < 1 or raw[end - 1] not in b"{," or raw.count(b"{", 0, end) != 1:
        return None
    return raw[: end + len(_METADATA)]


def cut_managed_fields(text: bytes, start: int, stop: int, beginning: bytes) -> bytes | None:
    """The object in this part of a text without managed fields, if they stand where servers write them; else None.

    A server writes all objects of a kind alike: with the same `beginning_of`, without spaces, and with managed fields
    as a list of objects behind other metadata. So they are looked for as text, which is then proved: what goes from the
    beginning of the metadata to their end is a whole object but for its brace, and they are the last thing in it. That
    the rest is an object is seen by whoever reads its head.
    """
    if not text.startswith(beginning, start):
        return None
    metadata = start + len(beginning)
    name = (
        text.find(b"F", metadata, stop) - _BEFORE_F
    )  # a letter is found much sooner than a word, and this one is rare
    if name < metadata or not text.startswith(_MEMBER, name):
        name = text.find(_MEMBER, metadata, stop)
    value = name + len(_MEMBER)
    end = text.find(b"]", value, stop) + 1 if name >= 0 else 0
    if not end:
        return None
    # As a rule nothing comes after them, so that the brace is there, and does not have to be added to a copy.
    whole = text[metadata : end + 1] if text.startswith(b"}", end) else text[metadata:end] + b"}"
    try:
        managed = _managed.decode(whole).managed
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if memoryview(managed).nbytes != end - value:
        return None
    return b"".join((text[start:name], memoryview(text)[end:stop]))


def read_head(raw: bytes) -> Head:
    """The head of the object in these bytes, skipping everything else."""
    try:
        return _envelopes.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _no_object(error) from error


def _no_object(error: Exception) -> BadObject:
    return BadObject(f"this is no object with metadata: {error}")


def without_managed_fields(raw: bytes) -> bytes:
    """The same object without `metadata.managedFields`, cut out of the bytes rather than decoded and written again."""
    found = read_head(raw).managed_json
    if found is _NONE:
        return raw
    return _cut(raw, bytes(found)) or _rewritten(raw)


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
