"""Which objects belong to an owner: those it controls and selects, and the orphans that it selects and may adopt.

Nothing is ever taken from another controller. An owner that is being deleted neither adopts nor releases: its children
are about to go with it, or to be orphaned on purpose.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from levelset import Context, Index, LabelSelector, Object, Ref, by_owner
from levelset.objects import Head, controller_of, remove_owner, set_controller
from levelset_local.presence import is_as_shown

__all__ = ["CLAIMS", "Claims", "Selectors", "claim", "sort_claims"]

O = TypeVar("O", bound=Object)  # noqa: E741  # the letter the type checker shows
Change = Callable[[O], O]


def _is_orphan(head: Head) -> bool | None:
    """True, or no value at all."""
    return None if head.deletion_timestamp is not None or any(one.controller for one in head.owners) else True


_ORPHANS: Final = Index.of_head(_is_orphan, name="orphans")
CLAIMS: Final = (by_owner(), _ORPHANS)
"""The indexes of what is claimed, for `owns(Pod, indexes=CLAIMS)`: nobody looks at what belongs to others."""


@dataclass(frozen=True, slots=True)
class Claims(Generic[O]):
    """What an owner has: what stays, what it should adopt, and what it should let go."""

    kept: tuple[O, ...] = ()
    adopted: tuple[O, ...] = ()
    released: tuple[O, ...] = ()


def sort_claims(owner: Object, selector: LabelSelector, candidates: Iterable[O]) -> Claims[O]:
    """Who of these belongs to the owner, by uid and by labels."""
    kept: list[O] = []
    adopted: list[O] = []
    released: list[O] = []
    is_leaving = owner.metadata.deletion_timestamp is not None
    for one in candidates:
        controller = controller_of(one)
        is_selected = selector.matches(one.metadata.labels)
        if controller is None:
            if is_selected and not is_leaving and one.metadata.deletion_timestamp is None:
                adopted.append(one)
        elif controller.uid == owner.metadata.uid:
            (kept if is_selected or is_leaving else released).append(one)
    return Claims(tuple(kept), tuple(adopted), tuple(released))


async def claim(
    ctx: Context,
    owner: Object,
    kind: type[O],
    selector: LabelSelector,
    *,
    adopting: Change[O] = lambda one: one,
    releasing: Change[O] = lambda one: one,
) -> list[O]:
    """The objects of a kind that belong to the owner, after orphans were adopted and strangers let go.

    `adopting` and `releasing` say what else changes about an object then. Conflict if somebody else was first.
    """
    claims = sort_claims(owner, selector, await _candidates(ctx, owner, kind, selector))
    for one in claims.released:
        await ctx.save(releasing(remove_owner(one, owner)))
    found = list(claims.kept)
    if claims.adopted and await is_as_shown(ctx, owner):
        found += [await ctx.save(set_controller(adopting(one), owner)) for one in claims.adopted]
    return found


class Selectors:
    """Who selects what: finds the owners that may want an orphan, for `watches(Pod, to=selectors.of)`.

    A controller notes each of its objects when it looks at it, before it reads what is there, and forgets it when it is
    gone. All objects are looked at when a controller starts, so nobody is missed.
    """

    def __init__(self) -> None:
        self._known: dict[str | None, dict[Ref[Any], LabelSelector]] = {}

    def note(self, ref: Ref[Any], selector: LabelSelector) -> None:
        """The object selects by this."""
        self._known.setdefault(ref.namespace, {})[ref] = selector

    def forget(self, ref: Ref[Any]) -> None:
        """The object is gone."""
        known = self._known.get(ref.namespace, {})
        known.pop(ref, None)
        if not known:
            self._known.pop(ref.namespace, None)

    def of(self, orphan: Object) -> Iterator[Ref[Any]]:
        """Those that select an object which nobody controls; none if somebody does."""
        if controller_of(orphan) is None:
            for ref, selector in self._known.get(orphan.namespace, {}).items():
                if selector.matches(orphan.metadata.labels):
                    yield ref


async def _candidates(ctx: Context, owner: Object, kind: type[O], selector: LabelSelector) -> Sequence[O]:
    # Children first: these are read from the server itself if the answer to a create was lost.
    found: dict[Hashable, O] = {one.metadata.uid: one for one in await ctx.children(kind, owner=owner)}
    for one in await ctx.list(kind, namespace=owner.namespace, index=(_ORPHANS, True)):
        if selector.matches(one.metadata.labels):
            found.setdefault(one.metadata.uid, one)
    return tuple(found.values())
