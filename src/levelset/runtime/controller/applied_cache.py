"""What was applied last, so that the same is not sent again while the child is as that left it.

A server-side apply that changes nothing is still a request. It is spared when the same document was applied before and
the child has not changed since in anything but its status. That can be told without knowing what the server fills in,
normalizes or owns: what is compared is what the server made of it.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import msgspec

from levelset.objects import codec
from levelset.objects.cached_object import Head, Kept, read_head
from levelset.objects.ref import Ref
from levelset.objects.resource import Object, origin_of
from levelset.runtime.controller.cache_lookup import Peeking

__all__ = ["Applied", "Mark", "content_of", "mark_of", "raw_of"]

_MOST: Final = 100_000
_ANSWERS: Final = 1_000
_BETWEEN: Final = b"\0"  # which is in no JSON
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])  # what is not looked at is not built
_values: Final = msgspec.json.Decoder()


class Mark(msgspec.Struct, frozen=True, gc=False):
    """An apply: which document, and what the server made of it, as far as anybody can compare it.

    What is None was not looked at, and so is another than whatever is there.
    """

    document: int
    uid: str
    version: str
    generation: int | None = None
    metadata: int | None = None
    content: int | None = None

    @classmethod
    def of(cls, document: bytes, answer: bytes, *, is_metadata: bool = False) -> "Mark":
        """The mark for a document and the object that came of it, or only its metadata."""
        head = read_head(answer)
        # Where there is a generation it tells of any other content, and the content itself is never asked for.
        content = None if is_metadata or head.generation else content_of(answer)
        return cls(hash(document), head.uid, head.resource_version, head.generation, _metadata(head), content)

    def is_of(self, document: bytes) -> bool:
        """Whether it was this document."""
        return self.document == hash(document)

    def still_holds(self, document: bytes, now: Kept, *, is_metadata: bool) -> bool:
        """Whether applying the document again would find the child as the last time left it."""
        if not self.is_of(document) or self.uid != now.uid:
            return False
        if self.version == now.resource_version:
            return True
        if self.metadata != _metadata(now):
            return False
        if self.generation:
            return self.generation == now.generation
        return not is_metadata and self.content is not None and self.content == content_of(now.raw)


class Applied:
    """The last apply of each child, up to `most`, with the answers to the latest of them."""

    __slots__ = ("_answers", "_marks", "_most", "_most_answers", "find")

    def __init__(self, *, most: int = _MOST, answers: int = _ANSWERS) -> None:
        self._most = most
        self._most_answers = answers
        self._marks: OrderedDict[Ref[Any], Mark] = OrderedDict()
        self._answers: OrderedDict[Ref[Any], tuple[str, Any]] = OrderedDict()
        self.find: Callable[[Ref[Any]], Mark | None] = self._marks.get
        """The last apply of a child, if it is remembered."""

    def __len__(self) -> int:
        return len(self._marks)

    def note(self, child: Ref[Any], mark: Mark, answer: Any) -> None:
        """Remembers an apply and what was answered."""
        _put(self._marks, child, mark, self._most)
        _put(self._answers, child, (mark.version, answer), self._most_answers)

    def filled(self, child: Ref[Any], mark: Mark, document: bytes) -> Mark:
        """The mark of a child with what nobody could compare when it was made, for as long as the answer is there."""
        if mark.generation or mark.content is not None:
            return mark
        answer = self.answer(child, mark.version)
        if answer is None:
            return mark
        made = Mark.of(document, raw_of(answer))
        _put(self._marks, child, made, self._most)
        return made

    def answer(self, child: Ref[Any], version: str) -> Any | None:
        """The child in this version, if that is what the last apply answered and it is remembered."""
        known, answer = self._answers.get(child, ("", None))
        return answer if known == version else None

    def forget(self, child: Ref[Any]) -> None:
        """The child is gone, or was written in another way."""
        self._marks.pop(child, None)
        self._answers.pop(child, None)


def mark_of(child: Ref[Any], document: bytes, answer: Any, peeking: Peeking) -> Mark:
    """The mark for a document and the object that came of it, with what can be compared with the caches there are.

    For a cache that is declared later it is `filled` from the answer. A tree is the caller's to change, and so all of
    it is looked at now.
    """
    whole = peeking.source(child.gvk, child.namespace)
    if (whole is not None and not whole.scope.is_changed) or not isinstance(answer, Object):
        return Mark.of(document, raw_of(answer))
    if peeking.source(child.gvk, child.namespace, is_metadata=True) is not None:
        return Mark.of(document, raw_of(answer), is_metadata=True)
    metadata = answer.metadata
    return Mark(hash(document), metadata.uid, metadata.resource_version)


def raw_of(obj: Any) -> bytes:
    """The JSON of an object: what it was read from, if that is known."""
    return (origin_of(obj) if isinstance(obj, Object) else None) or codec.encode(codec.to_tree(obj))


def content_of(raw: bytes) -> int:
    """A number for all of an object but its metadata and status."""
    try:
        members = _members.decode(raw)
        members.pop("metadata", None)
        members.pop("status", None)
        names = sorted(members)
        # Read and written again: a server may spell the same value in two ways.
        content = [_values.decode(members[name]) for name in names]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        codec.decode_tree(raw)  # which says what is wrong, unless it is only no object
        return 0
    return hash((*names, codec.encode_tree(content)))


def _metadata(head: Head) -> int:
    """A number for what of the metadata somebody may have changed."""
    parts = (head.labels_json, head.annotations_json, head.owners_json, head.finalizers_json)
    return hash((_BETWEEN.join(parts), head.deletion_timestamp))


def _put(table: OrderedDict[Ref[Any], Any], child: Ref[Any], value: Any, most: int) -> None:
    before = len(table)
    table[child] = value
    if len(table) == before:
        table.move_to_end(child)
    elif before >= most:
        table.popitem(last=False)
