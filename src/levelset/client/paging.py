"""Lists as pages of kept objects: cut out of the answer's bytes, each with its head, and nothing else decoded."""

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from levelset.client.keeping import Keeper, Transform
from levelset.errors import BadObject
from levelset.objects.identity import GroupVersionKind
from levelset.objects.kept import Kept

__all__ = ["KeptPage", "Transform", "read_page"]


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
