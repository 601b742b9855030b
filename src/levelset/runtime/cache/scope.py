"""What a cache holds and what a read asks for, compared: which informer may answer.

One flat rule: an informer answers what it holds all of. One for all namespaces serves a read of one namespace, one
without a selector serves any selector, and one of whole objects serves reads of their metadata; never the other way
round. A read by name may also go to an informer with a selector: what it shows is right, what it does not show may be
outside of the selector.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from levelset.errors import NotCached
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind

__all__ = ["Scope", "Scoped", "choose", "refuse"]


class Scope(msgspec.Struct, frozen=True):
    """The objects of a kind in a namespace (or all) that meet the selectors, whole or only their metadata.

    `is_changed` says that a transform may have taken something away.
    """

    gvk: GroupVersionKind
    namespace: str | None = None
    labels: LabelSelector = LabelSelector()
    fields: FieldSelector = FieldSelector()
    is_metadata: bool = False
    is_changed: bool = False

    @property
    def is_selective(self) -> bool:
        """Whether there are objects of this kind in this namespace that are left out."""
        return not (self.labels.is_everything and self.fields.is_everything)

    def holds(self, asked: "Scope") -> bool:
        """Whether all that is asked for is in here."""
        return (
            self.may_hold(asked)
            and set(self.labels.requirements) <= set(asked.labels.requirements)
            and set(self.fields.requirements) <= set(asked.fields.requirements)
        )

    def may_hold(self, asked: "Scope") -> bool:
        """Whether what is asked for can be in here, selectors aside."""
        return (
            self.gvk == asked.gvk
            and (asked.is_metadata or not self.is_metadata)
            and self.namespace in {None, asked.namespace}
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
    """What the choice between several informers depends on."""

    @property
    def scope(self) -> Scope:
        """What it holds."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether it holds that already."""
        ...


S = TypeVar("S", bound=Scoped)


def choose(asked: Scope, among: Iterable[S], *, by_name: bool = False) -> S | None:
    """The one to ask: best without a selector and unchanged, ready, and no wider than needed; None if none will do."""
    fitting = [one for one in among if (one.scope.may_hold if by_name else one.scope.holds)(asked)]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    return min(fitting, key=_rank)


def _rank(one: Scoped) -> tuple[bool, bool, bool, bool, bool]:
    scope = one.scope
    return scope.is_selective, scope.is_changed, not one.is_ready, scope.namespace is None, not scope.is_metadata


def refuse(asked: Scope, declared: Sequence[Scope]) -> NotCached:
    """The error for a read that no informer can answer; it names what is declared, and the ways on."""
    near = [str(scope) for scope in declared if scope.gvk == asked.gvk]
    held = f"declared are: {'; '.join(near)}" if near else "nobody declared this kind"
    ways = 'declare it (cluster.declare), read it live (read="live"), or make the cluster with undeclared="live"'
    return NotCached(f'{asked} is not in the cache: {held}. Ways on: {ways} or undeclared="watch"')
