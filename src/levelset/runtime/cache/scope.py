"""The scope of an informer or a read (kind, namespace, selectors), and which informer may serve which read.

An informer serves a read if it holds all of the objects that the read may return. One for all namespaces serves a read
of one namespace, one without a selector serves any selector, and one of whole objects serves reads of their metadata;
never the other way round. A read by name may also use an informer with a selector: an object it holds is right, an
object it does not hold may be excluded by the selector.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from levelset.errors import NotCached
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind

__all__ = ["Scope", "Scoped", "choose_source", "not_cached"]


class Scope(msgspec.Struct, frozen=True):
    """The objects of a kind in a namespace (or all) that match the selectors, whole or only their metadata.

    `is_changed` says that a transform may have removed fields.
    """

    gvk: GroupVersionKind
    namespace: str | None = None
    labels: LabelSelector = LabelSelector()
    fields: FieldSelector = FieldSelector()
    is_metadata: bool = False
    is_changed: bool = False

    @property
    def is_selective(self) -> bool:
        """Whether a selector may exclude objects of this kind in this namespace."""
        return not (self.labels.is_everything and self.fields.is_everything)

    def holds(self, wanted: "Scope") -> bool:
        """Whether every object of the wanted scope is in this one."""
        return (
            self.may_hold(wanted)
            and set(self.labels.requirements) <= set(wanted.labels.requirements)
            and set(self.fields.requirements) <= set(wanted.fields.requirements)
        )

    def may_hold(self, wanted: "Scope") -> bool:
        """Whether objects of the wanted scope can be in this one, selectors aside."""
        return (
            self.gvk == wanted.gvk
            and (wanted.is_metadata or not self.is_metadata)
            and self.namespace in {None, wanted.namespace}
        )

    def __str__(self) -> str:
        parts = [
            f"in {self.namespace}" if self.namespace else "",
            f"with labels {self.labels}" if not self.labels.is_everything else "",
            f"with fields {self.fields}" if not self.fields.is_everything else "",
            "(metadata only)" if self.is_metadata else "",
        ]
        return " ".join([str(self.gvk), *(part for part in parts if part)])


class Scoped(Protocol):
    """The properties that the choice between several informers depends on."""

    @property
    def scope(self) -> Scope:
        """The objects it holds."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether it has synced."""
        ...


S = TypeVar("S", bound=Scoped)


def choose_source(wanted: Scope, among: Iterable[S], *, by_name: bool = False) -> S | None:
    """The best source for a read: preferably without selector or transform, ready, and narrow; None if none fits."""
    fitting = [one for one in among if (one.scope.may_hold if by_name else one.scope.holds)(wanted)]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return min(fitting, key=_rank)


def _rank(one: Scoped) -> tuple[bool, bool, bool, bool, bool]:
    scope = one.scope
    return scope.is_selective, scope.is_changed, not one.is_ready, scope.namespace is None, not scope.is_metadata


def not_cached(wanted: Scope, declared: Sequence[Scope]) -> NotCached:
    """The error for a read that no informer can serve; it names what is declared and the possible fixes."""
    same = [scope for scope in declared if scope.gvk == wanted.gvk]
    held = f"declared scopes of this kind: {'; '.join(map(str, same))}" if same else "this kind is not declared"
    return NotCached(
        f'{wanted} is not in the cache: {held}. To fix: {_fix(wanted, same)}, or read it live (read="live")'
    )


def _fix(wanted: Scope, declared: Sequence[Scope]) -> str:
    """The change that makes this read possible, in the words of what is declared."""
    kind = wanted.gvk.kind
    if any(
        msgspec.structs.replace(scope, is_metadata=False).may_hold(wanted) for scope in declared if scope.is_metadata
    ):
        return (
            f"only the metadata is cached: leave out metadata_only=True in owns({kind}) or references({kind}, ...), "
            f"declare {kind} instead of OnlyMetadata({kind}), or read OnlyMetadata({kind})"
        )
    if declared:
        return "declare a scope that holds all objects of this read (a wider namespace= or labels=), or read less"
    relations = f"owns({kind}) or watches({kind}, to=...)"
    ways = 'create the cluster with undeclared="live" or undeclared="watch"'
    return f"give the Controller a relation such as {relations}, declare it (cluster.declare({kind})), {ways}"
