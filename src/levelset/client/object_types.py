"""The kinds that client verbs accept, and how their objects are decoded.

`Website` (a class) gives typed objects, `GroupVersionKind("example.dev", "v1", "Website")` gives `Unstructured` ones,
and `OnlyMetadata(Website)` gives `PartialObjectMetadata`, for which the server sends much less. `view_of` turns each of
them into a `View`. `ObjectScale` is the scale subresource, which is the same for every kind.
"""

from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from levelset.errors import ConfigError
from levelset.objects import codec
from levelset.objects.cached_object import CachedObject
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
"""What a verb accepts as a kind; only a class determines the type of the result."""


class View(msgspec.Struct, Generic[K_co], frozen=True):
    """How the objects of a kind are decoded from their bytes."""

    gvk: GroupVersionKind
    class_: type[Any]
    definition: Definition | None = None

    @property
    def is_metadata(self) -> bool:
        """Whether only metadata is requested."""
        return self.class_ is PartialObjectMetadata

    def read(self, raw: bytes) -> K_co:
        """Decodes a new object from these bytes; BadObject if they do not fit the class."""
        class_: Any = self.class_
        if class_ is Unstructured:
            tree = codec.decode_tree(raw)
            # Servers leave apiVersion and kind out of the items of a list.
            named = {"apiVersion": self.gvk.api_version, "kind": self.gvk.kind}
            return cast("K_co", Unstructured({**named, **tree} if isinstance(tree, dict) else tree))
        made: K_co = codec.reader(class_)(raw)
        return made

    def ref(self, cached: CachedObject) -> Ref[K_co]:
        """The reference to a cached object of this kind."""
        return ref_to(self.gvk, self.own_class, cached.name, cached.namespace)

    def ref_at(self, key: str) -> Ref[K_co]:
        """The reference to the object of this kind that has this key: `default/blog`, or `blog`."""
        return ref_at(self.gvk, self.own_class, key)

    @property
    def own_class(self) -> type[Any] | None:
        """The class in refs to this kind; None for the classes that read any kind."""
        class_ = self.class_
        return None if class_ is Unstructured or class_ is PartialObjectMetadata else class_


class Item(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """A cached object with its view: the metadata is available at once, the object is decoded on request."""

    cached: CachedObject
    view: View[K_co]

    @property
    def object(self) -> K_co:
        """The typed object, decoded at each access; BadObject if it does not fit the class."""
        return self.view.read(self.cached.raw)

    @property
    def ref(self) -> Ref[K_co]:
        """The reference to the object."""
        return self.view.ref(self.cached)


def view_of(kind: Kind[K]) -> View[K]:
    """The view of a kind; ConfigError for anything else."""
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
    if hasattr(class_, "ref"):
        raise ConfigError(f"an object ({class_.ref}) is not a kind: give its ref, as in client.delete(object.ref)")
    raise ConfigError(f"{class_!r} is not a kind: give a class with api=, a GroupVersionKind, or OnlyMetadata of one")


@lru_cache(maxsize=1024)
def _view_of_class(class_: Any) -> View[Any]:
    definition = definition_of(class_)
    return View(definition.gvk, class_, definition)


class ScaleSpec(Spec):
    """The desired number of replicas."""

    replicas: int = 0


class ScaleStatus(Status):
    """The current number of replicas, and the label selector of their pods."""

    replicas: int = 0
    selector: str = ""


class ObjectScale(Resource[ScaleSpec, ScaleStatus], api="autoscaling/v1", kind="Scale"):
    """The scale subresource of an object; its metadata has the name and version of that object."""

    spec: ScaleSpec = ScaleSpec()
