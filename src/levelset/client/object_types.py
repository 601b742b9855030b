"""What a client can be asked for: a class, a bare kind, or only the metadata of either; and how its bytes are read.

`Website` gives typed objects, `GroupVersionKind("example.dev", "v1", "Website")` gives `Unstructured` ones, and
`OnlyMetadata(Website)` gives `PartialObjectMetadata`, of which a server sends much less.

The `scale` of an object: how many replicas are wanted and how many there are, whatever its kind.
"""

from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from levelset.errors import ConfigError
from levelset.objects import codec
from levelset.objects.cached_object import Kept
from levelset.objects.kind_definition import Definition, definition_of
from levelset.objects.model import Spec, Status
from levelset.objects.ref import GroupVersionKind, Ref, ref_at, ref_to
from levelset.objects.resource import Object, PartialObjectMetadata, Resource
from levelset.objects.unstructured import Unstructured

__all__ = ["Item", "Kind", "ObjectScale", "OnlyMetadata", "ScaleSpec", "ScaleStatus", "View", "view_of"]

K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)


class OnlyMetadata:
    """The metadata of a kind's objects, without the rest: `client.list(OnlyMetadata(Pod))`."""

    __slots__ = ("of",)

    def __init__(self, of: type[Object] | GroupVersionKind) -> None:
        self.of: type[Object] | GroupVersionKind = of
        view_of(of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnlyMetadata) and view_of(self).gvk == view_of(other).gvk

    def __hash__(self) -> int:
        return hash((OnlyMetadata, view_of(self).gvk))

    def __repr__(self) -> str:
        return f"OnlyMetadata({view_of(self).gvk})"


Kind = type[K] | GroupVersionKind | OnlyMetadata
"""What can be asked for; only a class says what comes back."""


class View(msgspec.Struct, Generic[K_co], frozen=True):
    """How the objects of a kind are read from their bytes."""

    gvk: GroupVersionKind
    class_: type[Any]
    definition: Definition | None = None

    @property
    def is_metadata(self) -> bool:
        """Whether only the metadata are asked for."""
        return self.class_ is PartialObjectMetadata

    def read(self, raw: bytes) -> K_co:
        """The object in these bytes, decoded for this caller; BadObject if the class cannot hold it."""
        class_: Any = self.class_
        if class_ is Unstructured:
            tree = codec.decode_tree(raw)
            # The items of a list do not repeat what the list says.
            named = {"apiVersion": self.gvk.api_version, "kind": self.gvk.kind}
            return cast("K_co", Unstructured({**named, **tree} if isinstance(tree, dict) else tree))
        made: K_co = codec.reader(class_)(raw)
        return made

    def ref(self, kept: Kept) -> Ref[K_co]:
        """The reference to a kept object of this kind."""
        return ref_to(self.gvk, self.own_class, kept.name, kept.namespace)

    def ref_at(self, key: str) -> Ref[K_co]:
        """The reference to the object of this kind that has this key: `default/blog`, or `blog`."""
        return ref_at(self.gvk, self.own_class, key)

    @property
    def own_class(self) -> type[Any] | None:
        """The class that refs name: None if it is one with which any kind is read."""
        class_ = self.class_
        return None if class_ is Unstructured or class_ is PartialObjectMetadata else class_


class Item(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """A kept object with the way to read it: the head is there at once, the object when somebody asks."""

    kept: Kept
    view: View[K_co]

    @property
    def object(self) -> K_co:
        """The typed object, decoded at each call; BadObject if the class cannot hold it."""
        return self.view.read(self.kept.raw)

    @property
    def ref(self) -> Ref[K_co]:
        """The reference that finds it again."""
        return self.view.ref(self.kept)


def view_of(kind: Kind[K]) -> View[K]:
    """The view for a kind; ConfigError for what is none."""
    class_: Any = kind
    if isinstance(class_, type):
        return _view_of_class(class_)
    if isinstance(kind, GroupVersionKind):
        return View(kind, Unstructured)
    if isinstance(kind, OnlyMetadata):
        if isinstance(kind.of, OnlyMetadata):
            raise ConfigError("OnlyMetadata of OnlyMetadata: write it once")
        inner: View[Any] = view_of(kind.of)
        return View(inner.gvk, PartialObjectMetadata, inner.definition)
    return _view_of_class(class_)


@lru_cache(maxsize=1024)
def _view_of_class(class_: Any) -> View[Any]:
    definition = definition_of(class_)
    return View(definition.gvk, class_, definition)


class ScaleSpec(Spec):
    """What is wanted."""

    replicas: int = 0


class ScaleStatus(Status):
    """What there is, and how to find it."""

    replicas: int = 0
    selector: str = ""


class ObjectScale(Resource[ScaleSpec, ScaleStatus], api="autoscaling/v1", kind="Scale"):
    """The scale of some object, with that object's name and version."""

    spec: ScaleSpec = ScaleSpec()
