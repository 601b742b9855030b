"""What a list gives: a sequence of objects that are decoded when somebody looks at them, and then shared.

Makes kept objects of bytes, leaving out what nobody will read: the one thing that lists and watches both do.

Lists as pages of kept objects: cut out of the answer's bytes, each with its head, and nothing else decoded.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast, overload

import msgspec
from msgspec import Raw, Struct

from levelset.client.object_types import Item, View
from levelset.errors import BadObject
from levelset.objects.cached_object import (
    Kept,
    beginning_of,
    cut_managed_fields,
    keep,
    keep_all,
    without_managed_fields,
)
from levelset.objects.ref import GroupVersionKind, Ref

__all__ = ["Items", "Keeper", "KeptPage", "Transform", "read_page"]

Transform = Callable[[bytes], bytes]
"""Changes the JSON of an object before it is kept, such as by leaving out what nobody reads."""

_MANAGED: Final = b"managedFields"  # found sooner without the quotes, which are everywhere
_UNKNOWN: Final = b"nothing begins so"


class Keeper:
    """Keeps objects in one way: with managed fields or without, and then transformed."""

    __slots__ = ("_beginning", "_managed_fields", "_transform", "is_cutting")

    def __init__(self, *, managed_fields: bool = True, transform: Transform | None = None) -> None:
        self._managed_fields = managed_fields
        self._transform = transform
        self._beginning = _UNKNOWN
        self.is_cutting = False
        """Whether the last object had managed fields that were cut out: most likely the next has some too."""

    def keep(self, raw: bytes) -> Kept:
        """The object to keep for these bytes, which it holds on to; BadObject if they are no object with metadata."""
        if self._transform is not None:
            has_them = not self._managed_fields and _MANAGED in raw
            return keep(self._transform(without_managed_fields(raw) if has_them else raw))
        kept = keep(raw, managed_fields=self._managed_fields)
        if kept.raw is not raw:
            self.is_cutting = True
            self._beginning = beginning_of(raw) or _UNKNOWN
        return kept

    def keep_all(self, raws: Sequence[bytes]) -> list[Kept] | None:
        """What `keep` gives for each of them, in less time; None if it has to be asked about each."""
        return None if self._transform is not None else keep_all(raws, managed_fields=self._managed_fields)

    def cut(self, text: bytes, start: int, stop: int) -> bytes:
        """The bytes of the object in this part of a text, already without what would not be kept, if that is easy.

        To be used while it `is_cutting`.
        """
        found = cut_managed_fields(text, start, stop, self._beginning)
        self.is_cutting = found is not None
        return text[start:stop] if found is None else found


class KeptPage(Struct, frozen=True):
    """A page of a list: `continue_` asks for the next one, and is None at the end."""

    items: list[Kept]
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
) -> KeptPage:
    """The page in the body of an answer; BadObject names the kind.

    Items do not always repeat the kind that the list is of: it is added where it is missing, so that each item is an
    object that can be written back as it is.
    """
    try:
        page = _pages.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"the list of {gvk} cannot be read ({len(body)} bytes): {error}") from error
    if page.items is None and not (page.kind or "").endswith("List"):
        raise BadObject(f"the answer to a list of {gvk} is no list but a {page.kind or 'nameless thing'}")
    named = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata") if is_metadata else gvk
    reader = _Reader(named, Keeper(managed_fields=managed_fields, transform=transform))
    meta = page.metadata or _ListMeta()
    try:
        items = reader.read_all(page.items or [])
    except BadObject as error:
        raise BadObject(f"the list of {gvk} has an item that cannot be kept: {error}") from error
    return KeptPage(items, meta.resource_version or "", meta.continue_ or None, meta.remaining_item_count)


class _Reader:
    """Keeps the items of one list."""

    __slots__ = ("_is_bare", "_keeper", "_prefix")

    def __init__(self, gvk: GroupVersionKind, keeper: Keeper) -> None:
        names: dict[str, Any] = {"apiVersion": gvk.api_version, "kind": gvk.kind}
        self._prefix = msgspec.json.encode(names)[:-1] + b","
        self._keeper = keeper
        self._is_bare: bool | None = None  # whether items that begin with their metadata name no kind; None: not known

    def read_all(self, items: list[Raw]) -> list[Kept]:
        keeper = self._keeper
        # Copies: a Raw would hold on to the whole answer. The first is kept by itself, to see how the others are.
        first = [keeper.keep(self._named(bytes(item))) for item in items[:1]]
        raws = [self._named(bytes(item)) for item in items[1:]]
        if keeper.is_cutting:
            raws = [keeper.cut(raw, 0, len(raw)) for raw in raws]
        found = keeper.keep_all(raws)
        return first + ([keeper.keep(raw) for raw in raws] if found is None else found)

    def _named(self, raw: bytes) -> bytes:
        return raw if raw.startswith((b'{"apiVersion":', b'{"kind":')) else self._with_names(raw)

    def _with_names(self, raw: bytes) -> bytes:
        if raw.startswith(b'{"metadata":'):
            # All items of a list are written by the same hand: what holds for the first holds for all.
            if self._is_bare is None:
                self._is_bare = _is_bare(raw)
            return self._prefix + raw[1:] if self._is_bare else raw
        if not _is_bare(raw):
            return raw
        rest = raw.lstrip()[1:].lstrip()
        return self._prefix[:-1] + rest if rest.startswith(b"}") else self._prefix + rest


def _is_bare(raw: bytes) -> bool:
    """Whether an object does not say what kind it is of."""
    try:
        found = _named.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"this is no object: {error}") from error
    return not (found.kind and found.api_version)


K_co = TypeVar("K_co", covariant=True)


class Items(Sequence[K_co]):
    """The objects of one page of a list, in the server's order, with the version that the list is of.

    An object is decoded at the first look, so that one which its class cannot hold (BadObject) spoils no other; the
    heads and references of all are there without decoding any.
    """

    __slots__ = ("_objects", "continue_", "kept", "remaining", "resource_version", "view")

    def __init__(self, page: KeptPage, view: View[K_co]) -> None:
        self.kept: list[Kept] = page.items
        self.resource_version = page.resource_version
        self.continue_ = page.continue_
        """Asks for the next page; None at the end."""
        self.remaining = page.remaining
        """How many objects are left for later pages; None if the server does not say."""
        self.view = view
        self._objects: dict[int, K_co] = {}

    def __len__(self) -> int:
        return len(self.kept)

    @overload
    def __getitem__(self, index: int) -> K_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[K_co]: ...
    def __getitem__(self, index: int | slice) -> K_co | list[K_co]:
        if isinstance(index, slice):
            return [self._object(place) for place in range(*index.indices(len(self.kept)))]
        place = index + len(self.kept) if index < 0 else index
        if not 0 <= place < len(self.kept):
            raise IndexError(f"there are {len(self.kept)} objects, and none with the number {index}")
        return self._object(place)

    def __iter__(self) -> Iterator[K_co]:
        return map(self._object, range(len(self.kept)))

    def items(self) -> list[Item[K_co]]:
        """The objects with their heads, not decoded yet."""
        return [Item(kept, self.view) for kept in self.kept]

    def refs(self) -> list[Ref[K_co]]:
        """The references to the objects, also where only their metadata were asked for."""
        return [self.view.ref(kept) for kept in self.kept]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Items | list):
            return NotImplemented
        return list[Any](self) == list[Any](cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]  # it compares as a list does

    def __repr__(self) -> str:
        more = "" if self.continue_ is None else ", and more to come"
        return f"Items({len(self.kept)} {self.view.gvk.kind}, resource_version={self.resource_version!r}{more})"

    def _object(self, place: int) -> K_co:
        found = self._objects.get(place)
        if found is None:
            found = self._objects[place] = self.view.read(self.kept[place].raw)
        return found
