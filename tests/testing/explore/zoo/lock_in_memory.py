"""Marks in memory that a restore runs, and does not take the mark back when the restore fails.

Modelled on percona/percona-server-mongodb-operator#2154 (after an error in a restore the operator ignores all others
until it is restarted). The fix takes the mark back in a `finally` block.
"""

from functools import partial
from typing import Any

from levelset import Context, Controller, Resource, Retry, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected

__all__ = ["Restore", "broken", "expected", "fixed"]


class Storage:
    """Where the backups are."""

    def __init__(self) -> None:
        self.restored: set[str] = set()

    async def restore(self, name: str) -> None:
        self.restored.add(name)


class RestoreStatus(Status):
    state: str = ""


class Restore(Resource[Spec, RestoreStatus], api="zoo.example.dev/v1"):
    """A backup to restore; only one at a time."""


def controllers(storage: Storage, *, is_released: bool) -> list[Controller[Any]]:
    busy: set[str] = set()

    async def reconcile(restore: Restore, ctx: Context) -> None:
        if restore.status is not None:
            return
        if busy:
            raise Retry(f"{', '.join(sorted(busy))} is being restored", seconds=5)
        busy.add(restore.name)
        try:
            await storage.restore(restore.name)
            busy.discard(restore.name)
        finally:
            if is_released:
                busy.discard(restore.name)
        await ctx.set_status(restore, RestoreStatus(state="done"))

    return [Controller(Restore, reconcile)]


async def scenario(user: Cluster) -> None:
    for name in ("monday", "tuesday"):
        await user.create(Restore.new(name, Spec()))
        await user.settled()


broken = Exploration(scenario, partial(controllers, is_released=False), outside=Storage)
fixed = Exploration(scenario, partial(controllers, is_released=True), outside=Storage)
expected = Expected("end state", "outside", "Storage.restore")
