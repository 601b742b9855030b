"""Remembers the last server-side apply of each child, so that an apply that would change nothing is not sent.

An apply is skipped if the same document was applied before and the child has not changed since in anything but its
status. What is compared is the server's own result of the last apply, so nothing has to be known about the defaults
that the server fills in, what it normalizes, or who owns which fields. `Context.apply` uses it.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from levelset.objects import codec
from levelset.objects.cached_object import CachedObject, Head, decode_head
from levelset.objects.ref import Ref
from levelset.objects.resource import Object, origin_of

__all__ = ["AppliedCache", "ApplyRecord", "apply_record_of", "content_hash", "json_of"]

T = TypeVar("T")

_MAX_RECORDS: Final = 100_000
_MAX_RESPONSES: Final = 1_000
_SEPARATOR: Final = b"\0"  # never occurs in JSON
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])  # values that are not compared stay undecoded
_values: Final = msgspec.json.Decoder()


class ApplyRecord(msgspec.Struct, frozen=True, gc=False):
    """One apply: hashes of the document and of its result. None is not recorded, and never compares equal."""

    document: int
    uid: str
    version: str
    generation: int | None = None
    metadata: int | None = None
    content: int | None = None

    @classmethod
    def of(cls, document: bytes, response: bytes) -> "ApplyRecord":
        """The complete record of a document and the resulting object."""
        head = decode_head(response)
        # A generation changes with every change of the content, which then need not be hashed.
        content = None if head.generation else content_hash(response)
        return cls(hash(document), head.uid, head.resource_version, head.generation, _metadata_hash(head), content)

    @property
    def is_complete(self) -> bool:
        """Whether it has the hashes of the resulting object."""
        return self.metadata is not None

    def completed(self, response: bytes) -> "ApplyRecord":
        """The record with the hashes of the resulting object."""
        return msgspec.structs.replace(ApplyRecord.of(b"", response), document=self.document)

    def is_for(self, document: bytes) -> bool:
        """Whether this document was applied."""
        return self.document == hash(document)

    def still_holds(self, document: bytes, now: CachedObject, *, is_metadata: bool) -> bool:
        """Whether the cached child is still what applying this document resulted in."""
        if not self.is_for(document) or self.uid != now.uid:
            return False
        if self.version == now.resource_version:
            return True
        if self.metadata != _metadata_hash(now):
            return False
        if self.generation:
            return self.generation == now.generation
        return not is_metadata and self.content is not None and self.content == content_hash(now.raw)


class AppliedCache:
    """The last apply of up to `most` children (LRU), with the resulting objects of the latest `responses` of them."""

    __slots__ = ("_max_responses", "_most", "_records", "_responses", "find")

    def __init__(self, *, most: int = _MAX_RECORDS, responses: int = _MAX_RESPONSES) -> None:
        self._most = most
        self._max_responses = responses
        self._records: OrderedDict[Ref[Any], ApplyRecord] = OrderedDict()
        self._responses: OrderedDict[Ref[Any], tuple[str, Any]] = OrderedDict()
        self.find: Callable[[Ref[Any]], ApplyRecord | None] = self._records.get
        """The last apply of a child, or None."""

    def __len__(self) -> int:
        return len(self._records)

    def record(self, child: Ref[Any], applied: ApplyRecord, response: Any) -> None:
        """Records an apply and the resulting object."""
        _put(self._records, child, applied, self._most)
        evicted = _put(self._responses, child, (applied.version, response), self._max_responses)
        if evicted is not None:
            self._complete(*evicted)

    def with_content(self, child: Ref[Any], applied: ApplyRecord) -> ApplyRecord:
        """The record of a child, completed from its response if that is still there (see `apply_record_of`)."""
        if applied.is_complete:
            return applied
        response = self.last_response(child, applied.version)
        if response is None:
            return applied
        made = applied.completed(json_of(response))
        _put(self._records, child, made, self._most)
        return made

    def _complete(self, child: Ref[Any], evicted: tuple[str, Any]) -> None:
        """Completes the record of a child whose response is dropped: later there is nothing to complete it from."""
        version, response = evicted
        applied = self._records.get(child)
        if applied is not None and applied.version == version and not applied.is_complete:
            self._records[child] = applied.completed(json_of(response))

    def last_response(self, child: Ref[Any], version: str) -> Any | None:
        """The child in this version, if the last apply resulted in it and its response is still there."""
        known, response = self._responses.get(child, ("", None))
        return response if known == version else None

    def forget_deleted(self, child: Ref[Any], uid: str) -> None:
        """Drops a child that was deleted, unless another one of its name has been applied since."""
        found = self._records.get(child)
        if found is not None and found.uid == uid:
            self.forget(child)

    def forget(self, child: Ref[Any]) -> None:
        """Drops a child that is gone, or was written in another way."""
        self._records.pop(child, None)
        self._responses.pop(child, None)


def apply_record_of(document: bytes, response: Any) -> ApplyRecord:
    """The record of a document and the resulting object.

    That of a typed object is incomplete: hashes are needed only once the cache has another version of the child, and
    are then computed from the response (`AppliedCache.with_content`). An unstructured response is hashed as a whole
    now, since the caller may change its tree.
    """
    if not isinstance(response, Object):
        return ApplyRecord.of(document, json_of(response))
    metadata = response.metadata
    return ApplyRecord(hash(document), metadata.uid, metadata.resource_version)


def json_of(obj: Any) -> bytes:
    """The JSON of an object: the bytes it was read from, if it still has them."""
    return (origin_of(obj) if isinstance(obj, Object) else None) or codec.encode(codec.to_tree(obj))


def content_hash(raw: bytes) -> int:
    """A hash of everything in an object except its metadata and status."""
    try:
        members = _members.decode(raw)
        members.pop("metadata", None)
        members.pop("status", None)
        names = sorted(members)
        # Decoded and encoded again: a server may encode the same value in two ways.
        content = [_values.decode(members[name]) for name in names]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        codec.decode_tree(raw)  # raises BadObject with the position, unless it is JSON but not an object
        return 0
    return hash((*names, codec.encode_tree(content)))


def _metadata_hash(head: Head) -> int:
    """A hash of the metadata that other writers may change."""
    parts = (head.labels_json, head.annotations_json, head.owners_json, head.finalizers_json)
    return hash((_SEPARATOR.join(parts), head.deletion_timestamp))


def _put(table: OrderedDict[Ref[Any], T], child: Ref[Any], value: T, most: int) -> tuple[Ref[Any], T] | None:
    """Stores an entry as the latest; returns the oldest one if it had to be dropped."""
    before = len(table)
    table[child] = value
    if len(table) == before:
        table.move_to_end(child)
    elif before >= most:
        return table.popitem(last=False)
    return None
