"""What a cache that is behind must not lead to: things made for an owner that is gone, and news that never come."""

from datetime import datetime
from typing import Final

from levelset import Action, Context, Object, requeue

__all__ = ["PATIENCE", "is_as_shown", "next_look"]

PATIENCE: Final = 5.0
"""For how many seconds a cache may be behind before it is asked again."""


async def is_as_shown(ctx: Context, owner: Object) -> bool:
    """Whether the owner is there, wants what the cache says it wants, and is not being deleted.

    Without that question a slow cache would have Pods made for an owner that is gone: the server would take them away
    again, but programs would have run that nobody wanted.
    """
    found: Object | None = await ctx.live(owner.ref)
    return (
        found is not None
        and found.metadata.uid == owner.metadata.uid
        and found.metadata.generation == owner.metadata.generation
        and found.metadata.deletion_timestamp is None
    )


def next_look(ctx: Context, at: datetime | None, *, has_deleted: bool) -> Action | None:
    """When to look again: at a time, and soon if something was deleted; else when something changes.

    Whoever deletes what the cache has not shown yet may never hear of its end.
    """
    after = [] if at is None else [max(0.0, (at - ctx.now()).total_seconds())]
    if has_deleted:
        after.append(PATIENCE)
    return requeue(min(after)) if after else None
