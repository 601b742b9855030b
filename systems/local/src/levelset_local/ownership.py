"""The children of workload controllers: adopts and releases them, and guards against decisions from a stale cache.

An object is never taken from another controller. An owner that is being deleted neither adopts nor releases: its
children are deleted with it, or orphaned on purpose.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from levelset import Action, Context, Index, LabelSelector, Object, Ref, requeue
from levelset.objects import Head, controller_of, remove_owner, set_controller
from levelset.runtime.cache import by_owner

__all__ = [
    "CACHE_LAG_SECONDS",
    "CLAIM_INDEXES",
    "ClaimPlan",
    "SelectorRegistry",
    "claim",
    "matches_server",
    "plan_claims",
    "requeue_action",
]

O = TypeVar("O", bound=Object)  # noqa: E741  # the letter the type checker shows
Change = Callable[[O], O]

CACHE_LAG_SECONDS: Final = 5.0
"""The seconds after which a decision that needs a newer cache is tried again."""


def _is_orphan(head: Head) -> bool | None:
    """True for an object without a controller; None, which is not indexed, for all others."""
    return None if head.deletion_timestamp is not None or any(one.controller for one in head.owners) else True


_ORPHANS: Final = Index.of_head(_is_orphan, name="orphans")
CLAIM_INDEXES: Final = (by_owner(), _ORPHANS)
"""The indexes that `claim` reads, for `owns(Pod, indexes=CLAIM_INDEXES)`: objects of other owners are not scanned."""


class ClaimPlan(Struct, Generic[O], frozen=True):
    """The children of an owner, the orphans that it should adopt, and the children that it should release."""

    owned: tuple[O, ...] = ()
    to_adopt: tuple[O, ...] = ()
    to_release: tuple[O, ...] = ()


def _accept_all(_: Object) -> bool:
    return True


def plan_claims(
    owner: Object, selector: LabelSelector, candidates: Iterable[O], *, accepts: Callable[[O], bool] = _accept_all
) -> ClaimPlan[O]:
    """Which candidates the owner has, should adopt and should release, by uid, by labels and by what it accepts."""
    owned: list[O] = []
    to_adopt: list[O] = []
    to_release: list[O] = []
    is_deleting = owner.metadata.deletion_timestamp is not None
    for one in candidates:
        controller = controller_of(one)
        is_selected = selector.matches(one.metadata.labels) and accepts(one)
        if controller is None:
            if is_selected and not is_deleting and one.metadata.deletion_timestamp is None:
                to_adopt.append(one)
        elif controller.uid == owner.metadata.uid:
            (owned if is_selected or is_deleting else to_release).append(one)
    return ClaimPlan(tuple(owned), tuple(to_adopt), tuple(to_release))


async def claim(
    ctx: Context,
    owner: Object,
    kind: type[O],
    selector: LabelSelector,
    *,
    accepts: Callable[[O], bool] = _accept_all,
    on_adopt: Change[O] = lambda one: one,
    on_release: Change[O] = lambda one: one,
) -> list[O]:
    """The children of an owner, after it has adopted matching orphans and released children that no longer match.

    An object that it does not accept is never adopted, whatever its labels are. `on_adopt` and `on_release` make
    further changes to an object in the same write. Raises Conflict if another controller has written the object first.
    """
    claims = plan_claims(owner, selector, await _candidates(ctx, owner, kind, selector), accepts=accepts)
    for one in claims.to_release:
        await ctx.save(on_release(remove_owner(one, owner)))
    found = list(claims.owned)
    if claims.to_adopt and await matches_server(ctx, owner):
        found += [await ctx.save(set_controller(on_adopt(one), owner)) for one in claims.to_adopt]
    return found


class SelectorRegistry:
    """The selectors of all owners, to find those that may adopt an orphan: `watches(Pod, to=registry.owners_of)`.

    A controller registers each owner when it reconciles it, before it lists the candidates, and unregisters it when it
    is gone. As every owner is reconciled when a controller starts, none is missing.
    """

    def __init__(self) -> None:
        self._selectors: dict[str | None, dict[Ref[Any], LabelSelector]] = {}

    def register(self, ref: Ref[Any], selector: LabelSelector) -> None:
        """Sets the selector of an owner."""
        self._selectors.setdefault(ref.namespace, {})[ref] = selector

    def unregister(self, ref: Ref[Any]) -> None:
        """Removes an owner that is gone."""
        selectors = self._selectors.get(ref.namespace, {})
        selectors.pop(ref, None)
        if not selectors:
            self._selectors.pop(ref.namespace, None)

    def all_owners(self, _: Object) -> Iterator[Ref[Any]]:
        """All owners, for objects that concern every one of them."""
        for selectors in list(self._selectors.values()):
            yield from list(selectors)

    def owners_near(self, obj: Object) -> Iterator[Ref[Any]]:
        """The owners in the namespace of an object."""
        yield from list(self._selectors.get(obj.namespace, {}))

    def owners_selecting(self, obj: Object) -> Iterator[Ref[Any]]:
        """The owners whose selectors match an object, also if another object controls it."""
        for ref, selector in list(self._selectors.get(obj.namespace, {}).items()):
            if selector.matches(obj.metadata.labels):
                yield ref

    def owners_of(self, orphan: Object) -> Iterator[Ref[Any]]:
        """The owners whose selectors match an object; none if it has a controller."""
        if controller_of(orphan) is None:
            for ref, selector in self._selectors.get(orphan.namespace, {}).items():
                if selector.matches(orphan.metadata.labels):
                    yield ref


async def _candidates(ctx: Context, owner: Object, kind: type[O], selector: LabelSelector) -> Sequence[O]:
    # Children first: they are read from the server if the response to a create was lost.
    found: dict[Hashable, O] = {one.metadata.uid: one for one in await ctx.children(kind, owner=owner)}
    for one in await ctx.list(kind, namespace=owner.namespace, index=(_ORPHANS, True)):
        if selector.matches(one.metadata.labels):
            found.setdefault(one.metadata.uid, one)
    return tuple(found.values())


async def matches_server(ctx: Context, owner: Object) -> bool:
    """Whether the owner exists on the server with the same generation as in the cache, and is not being deleted.

    Without this check a stale cache would have Pods created for an owner that is gone: the garbage collector would
    delete them, but only after their programs have run.
    """
    found: Object | None = await ctx.live(owner.ref)
    return (
        found is not None
        and found.metadata.uid == owner.metadata.uid
        and found.metadata.generation == owner.metadata.generation
        and found.metadata.deletion_timestamp is None
    )


def requeue_action(ctx: Context, at: datetime | None, *, has_deleted: bool) -> Action | None:
    """Requeues for a time, and soon after a deletion; None if the next event suffices.

    A child that is deleted before the cache has shown it may never cause an event, so deletions are followed up.
    """
    after = [] if at is None else [max(0.0, (at - ctx.now()).total_seconds())]
    if has_deleted:
        after.append(CACHE_LAG_SECONDS)
    return requeue(min(after)) if after else None
