"""List responses: `Items`, the lazily decoded result of `Client.list`, and the pages it is read from.

A page is cut out of the bytes of the response: each object becomes a `CachedObject` (decoded metadata and raw bytes),
and nothing else is decoded. `object_decoder` makes those objects for lists and for watches (`watch_events.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast, overload

import msgspec
from msgspec import Raw, Struct

from levelset.client.object_types import Item, View
from levelset.errors import BadObject
from levelset.objects.cached_object import CachedObject, CachedObjectDecoder, decode_cached, without_managed_fields
from levelset.objects.ref import GroupVersionKind, Ref

__all__ = ["Decode", "Items", "ObjectPage", "Transform", "object_decoder", "read_page"]

Transform = Callable[[bytes], bytes]
"""Changes the JSON of an object before it is cached, for example to drop fields that the program never reads."""

Decode = Callable[[bytes], CachedObject]
"""Makes the cached object of these bytes, which it references; BadObject if they are not an object with metadata."""


def object_decoder(*, managed_fields: bool = True, transform: Transform | None = None) -> Decode:
    """The function that decodes objects for a cache: with or without managed fields, then transformed."""
    if transform is None:
        return CachedObjectDecoder(managed_fields=managed_fields).decode
    change: Transform = transform
    return lambda raw: decode_cached(change(raw if managed_fields else without_managed_fields(raw)))


class ObjectPage(Struct, frozen=True):
    """A page of a list; `continue_` is the token of the next page, None on the last one."""

    items: list[CachedObject]
    resource_version: str
    continue_: str | None = None
    remaining: int | None = None


class _ListMeta(Struct, rename="camel", gc=False):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class _Page(Struct, gc=False):
    metadata: _ListMeta | None = None
    items: list[Raw] | None = None
    kind: str | None = None


class _Named(Struct, rename="camel", gc=False):
    kind: str | None = None
    api_version: str | None = None


_pages: Final = msgspec.json.Decoder(_Page)
_named: Final = msgspec.json.Decoder(_Named)


def read_page(
    body: bytes,
    gvk: GroupVersionKind,
    *,
    managed_fields: bool = True,
    transform: Transform | None = None,
    is_metadata: bool = False,
) -> ObjectPage:
    """Reads the page in the body of a list response; BadObject names the kind.

    Servers leave apiVersion and kind out of the items of a list. They are added where they are missing, so that each
    item is an object that can be written back as it is.
    """
    try:
        page = _pages.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"the list of {gvk} is not readable ({len(body)} bytes): {error}") from error
    if page.items is None and not (page.kind or "").endswith("List"):
        raise BadObject(f"the response to a list of {gvk} has kind {page.kind or '(none)'}, which is not a list")
    named = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata") if is_metadata else gvk
    reader = _Reader(named, object_decoder(managed_fields=managed_fields, transform=transform))
    meta = page.metadata or _ListMeta()
    try:
        items = reader.read_all(page.items or [])
    except BadObject as error:
        raise BadObject(f"the list of {gvk} has an invalid item: {error}") from error
    return ObjectPage(items, meta.resource_version or "", meta.continue_ or None, meta.remaining_item_count)


class _Reader:
    """Decodes the items of one list."""

    __slots__ = ("_decode", "_is_bare", "_prefix")

    def __init__(self, gvk: GroupVersionKind, decode: Decode) -> None:
        names: dict[str, Any] = {"apiVersion": gvk.api_version, "kind": gvk.kind}
        self._prefix = msgspec.json.encode(names)[:-1] + b","
        self._decode = decode
        self._is_bare: bool | None = None  # whether items that begin with metadata lack their kind; None: not known yet

    def read_all(self, items: list[Raw]) -> list[CachedObject]:
        # Copied: a Raw would keep the whole response alive.
        return [self._decode(self._named(bytes(item))) for item in items]

    def _named(self, raw: bytes) -> bytes:
        return raw if raw.startswith((b'{"apiVersion":', b'{"kind":')) else self._with_names(raw)

    def _with_names(self, raw: bytes) -> bytes:
        if raw.startswith(b'{"metadata":'):
            # One encoder wrote all items of the list: what holds for the first holds for all.
            if self._is_bare is None:
                self._is_bare = _is_bare(raw)
            return self._prefix + raw[1:] if self._is_bare else raw
        if not _is_bare(raw):
            return raw
        rest = raw.lstrip()[1:].lstrip()
        return self._prefix[:-1] + rest if rest.startswith(b"}") else self._prefix + rest


def _is_bare(raw: bytes) -> bool:
    """Whether an object lacks apiVersion or kind."""
    try:
        found = _named.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"not an object: {error}") from error
    return not (found.kind and found.api_version)


K_co = TypeVar("K_co", covariant=True)


class Items(Sequence[K_co]):
    """The objects of one page of a list, in the server's order, with the resource version of the list.

    An object is decoded on first access and then shared, so that one that does not fit its class (BadObject) does not
    affect the others. Metadata and references are available without decoding.
    """

    __slots__ = ("_objects", "cached", "continue_", "remaining", "resource_version", "view")

    def __init__(self, page: ObjectPage, view: View[K_co]) -> None:
        self.cached: list[CachedObject] = page.items
        self.resource_version = page.resource_version
        self.continue_ = page.continue_
        """The token of the next page; None on the last one."""
        self.remaining = page.remaining
        """How many objects are on later pages; None if the server does not report it."""
        self.view = view
        self._objects: dict[int, K_co] = {}

    def __len__(self) -> int:
        return len(self.cached)

    @overload
    def __getitem__(self, index: int) -> K_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[K_co]: ...
    def __getitem__(self, index: int | slice) -> K_co | list[K_co]:
        if isinstance(index, slice):
            return [self._object(place) for place in range(*index.indices(len(self.cached)))]
        place = index + len(self.cached) if index < 0 else index
        if not 0 <= place < len(self.cached):
            raise IndexError(f"index {index} is out of range: there are {len(self.cached)} objects")
        return self._object(place)

    def __iter__(self) -> Iterator[K_co]:
        return map(self._object, range(len(self.cached)))

    def items(self) -> list[Item[K_co]]:
        """The objects with their metadata, not decoded yet."""
        return [Item(cached, self.view) for cached in self.cached]

    def refs(self) -> list[Ref[K_co]]:
        """The references to the objects; also for OnlyMetadata they are those of the kind itself."""
        return [self.view.ref(cached) for cached in self.cached]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Items | list):
            return NotImplemented
        return list[Any](self) == list[Any](cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]  # it compares as a list does

    def __repr__(self) -> str:
        more = "" if self.continue_ is None else ", more pages"
        return f"Items({len(self.cached)} {self.view.gvk.kind}, resource_version={self.resource_version!r}{more})"

    def _object(self, place: int) -> K_co:
        found = self._objects.get(place)
        if found is None:
            found = self._objects[place] = self.view.read(self.cached[place].raw)
        return found
