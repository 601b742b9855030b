"""Bodies of large lists and objects, made while they are sent: never whole, neither in memory nor on the event loop.

Plain JSON is the stored bytes, which takes little time: it is put together on the event loop, slice by slice. Tables,
metadata, indented JSON and YAML are rendered from decoded objects, in a thread. A client that reads nothing keeps one
slice, and the connection only for as long as `levelset.http.Limits` allows.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from levelset.apiserver.registry import conversion_webhook, storage_codec
from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.wire.body_encoding import BodyForm, encode, indent, yaml
from levelset.http import Pieces
from levelset.objects import encode_tree
from levelset.storage import Item

__all__ = [
    "LARGE_LIST",
    "MANY_RENDERED",
    "Entries",
    "encoded_list_body",
    "is_large_list",
    "list_body",
    "object_body",
    "rendered_list_body",
]

T = TypeVar("T")

LARGE_LIST: Final = 10_000
"""A plain list of more objects is made while it is sent."""
_LARGE_LIST_BYTES: Final = 1024 * 1024
_SLICE_OBJECTS: Final = 1_000
_SLICE_BYTES: Final = 256 * 1024
MANY_RENDERED: Final = 100
"""A list of more objects that are rendered is made while it is sent: an object takes some 100 µs."""
# Indented, an object is more than twice as long.
_SLICE_BYTES_OF_JSON: Final = 128 * 1024
# A byte of YAML takes 1 µs, one of JSON a hundredth of it.
_SLICE_BYTES_OF_YAML: Final = 32 * 1024


class Entries(msgspec.Struct, frozen=True):
    """A list that is rendered: the tree around its entries, the member that has them, and how an entry is made.

    An entry is made of a stored object (`Item`), or of the JSON of an object.
    """

    envelope: Tree
    member: str
    make: Callable[[Any], Any]


def is_large_list(items: Sequence[Item], *, is_rendered: bool) -> bool:
    """Whether a list is made while it is sent."""
    count, size = (MANY_RENDERED, _SLICE_BYTES_OF_YAML) if is_rendered else (LARGE_LIST, _LARGE_LIST_BYTES)
    return len(items) > count or sum(len(item.value) for item in items) > size


def list_body(served: ServedResource, items: Sequence[Item], metadata: Tree) -> Pieces:
    """The body of a large list as plain JSON."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        separator = storage_codec.list_document(served, [], metadata=metadata)[:-2]  # up to the bracket of the items
        for part in _slices(items, _stored_size, _SLICE_OBJECTS, _SLICE_BYTES):
            if served.converts_by_webhook:  # the cache of conversions may have dropped them since
                await conversion_webhook.convert_items(served, part)
            yield separator + b",".join(storage_codec.list_item_bytes(served, part))
            separator = b","
            await asyncio.sleep(0)  # a client that reads as fast as this writes would keep the event loop
        yield b"]}\n"

    return Pieces(pieces)


def rendered_list_body(
    expensive: ExpensiveWork, served: ServedResource, items: Sequence[Item], entries: Entries, *, form: BodyForm
) -> Pieces:
    """The body of a large list whose entries are rendered, as compact or indented JSON, or as YAML."""
    writer = _WRITERS[form]

    async def pieces() -> AsyncGenerator[bytes, None]:
        is_first = True
        for part in _slices(items, _stored_size, MANY_RENDERED, writer.slice_bytes):
            work = partial(_render, writer, entries, part, is_first=is_first)
            if served.converts_by_webhook:  # what it has converted must be read before anything else runs
                await conversion_webhook.convert_items(served, part)
                yield work()
            else:
                yield await expensive.run(work)
            is_first = False
        yield writer.end

    return Pieces(pieces)


def encoded_list_body(
    expensive: ExpensiveWork, objects: Sequence[bytes], entries: Entries, *, form: BodyForm
) -> Pieces:
    """As `rendered_list_body`, of the JSON of objects."""
    writer = _WRITERS[form]

    async def pieces() -> AsyncGenerator[bytes, None]:
        is_first = True
        for part in _slices(objects, len, MANY_RENDERED, writer.slice_bytes):
            yield await expensive.run(partial(_render, writer, entries, part, is_first=is_first))
            is_first = False
        yield writer.end

    return Pieces(pieces)


def object_body(expensive: ExpensiveWork, tree: Tree, *, form: BodyForm) -> Pieces:
    """The body of a large object that is rendered in a thread."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield await expensive.run(partial(encode, tree, form))

    return Pieces(pieces)


class _Writer(msgspec.Struct, frozen=True):
    """A form of a list: what is before its entries, one entry, what is between two, and the end.

    Objects of at most `slice_bytes` together are rendered at once.
    """

    begin: Callable[[Tree, str], bytes]
    entry: Callable[[Any], bytes]
    between: bytes
    end: bytes
    slice_bytes: int = _SLICE_BYTES_OF_JSON


def _render(writer: _Writer, entries: Entries, items: Sequence[Any], *, is_first: bool) -> bytes:
    begin = writer.begin(entries.envelope, entries.member) if is_first else writer.between
    return begin + writer.between.join([writer.entry(entries.make(item)) for item in items])


def _slices(objects: Sequence[T], size_of: Callable[[T], int], count: int, size: int) -> Iterator[Sequence[T]]:
    """Parts of at most so many objects and, unless it is a single one, bytes."""
    start = bytes_of_part = 0
    for end, one in enumerate(objects):
        bytes_of_one = size_of(one)
        if end > start and (end - start >= count or bytes_of_part + bytes_of_one > size):
            yield objects[start:end]
            start, bytes_of_part = end, 0
        bytes_of_part += bytes_of_one
    if start < len(objects):
        yield objects[start:]


def _stored_size(item: Item) -> int:
    return len(item.value)


def _begin_json(envelope: Tree, member: str) -> bytes:
    return encode_tree({**envelope, member: []})[:-2]


def _begin_pretty(envelope: Tree, member: str) -> bytes:
    # Formatted with one entry, and cut off before it: an empty list is written in one line.
    return indent(encode_tree({**envelope, member: [0]})).rpartition(b"0")[0]


def _pretty_entry(entry: Any) -> bytes:
    # A line break is always one of the format: those in strings are escaped.
    return indent(encode_tree(entry)).replace(b"\n", b"\n    ")


def _begin_yaml(envelope: Tree, member: str) -> bytes:
    return yaml(envelope) + member.encode() + b":\n"


_WRITERS: Final[dict[BodyForm, _Writer]] = {
    "json": _Writer(_begin_json, encode_tree, b",", b"]}\n"),
    "pretty": _Writer(_begin_pretty, _pretty_entry, b",\n    ", b"\n  ]\n}"),
    "yaml": _Writer(_begin_yaml, lambda entry: yaml([entry]), b"", b"", _SLICE_BYTES_OF_YAML),
}
