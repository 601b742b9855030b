"""One resource as a server serves it: the word in its URL, the kind of its objects, its scope and its verbs."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from levelset.objects.definition import Definition
from levelset.objects.identity import GroupVersionKind, GroupVersionResource

__all__ = ["ServedResource", "served_by"]

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedResource:
    """Where the objects of a kind are found, and what can be done with them.

    `subresources` are their names only, such as `status`; `short_names` and `categories` are what people type.
    """

    gvr: GroupVersionResource
    gvk: GroupVersionKind
    namespaced: bool
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""

    @classmethod
    def of(cls, definition: Definition) -> Self:
        """What a server will serve for a class, without asking it."""
        has = {"scale": definition.scale is not None, "status": definition.status}
        return cls(
            gvr=definition.gvr,
            gvk=definition.gvk,
            namespaced=definition.namespaced,
            verbs=_VERBS,
            subresources=tuple(name for name, is_there in has.items() if is_there),
            short_names=definition.short_names,
            categories=definition.categories,
            singular=definition.singular,
        )

    def __str__(self) -> str:
        group = f".{self.gvr.group}" if self.gvr.group else ""
        return f"{self.gvr.resource}.{self.gvr.version}{group}"


@lru_cache(maxsize=1024)
def served_by(definition: Definition) -> ServedResource:
    """`ServedResource.of` a definition, made once: who writes a status asks for it each time."""
    return ServedResource.of(definition)
