"""Counts how often its work on an object was interrupted, and never touches it again after the third time.

Modelled on eclipse-theia/theia-cloud#221 (an object whose handling was interrupted is not handled again, so that it
cannot crash the operator) and kubermatic/kubermatic#1851 (no controller may stop after some attempts). It takes three
separate crashes, each in the recovery from the one before. The fix continues however often it was interrupted.
"""

from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Session", "broken", "expected", "fixed"]

MOST = 3


class SessionStatus(Status):
    phase: str = ""
    interrupted: int = 0


class Session(Resource[Spec, SessionStatus], api="zoo.example.dev/v1"):
    """A session of a developer, with its workspace."""


def controllers(most: int | None) -> list[Controller[Any]]:
    async def reconcile(session: Session, ctx: Context) -> None:
        status = session.status or SessionStatus()
        if status.phase == "Handled" or (most is not None and status.interrupted >= most):
            return
        # It is marked as being handled only while a reconcile runs: who finds the mark has been interrupted.
        interrupted = status.interrupted + 1 if status.phase == "Handling" else status.interrupted
        recorded = 0 if most is None else interrupted
        await ctx.set_status(session, SessionStatus(phase="Handling", interrupted=recorded))
        if most is not None and interrupted >= most:
            return
        await ctx.apply(config_map(session, f"{session.name}-workspace", size=1), owner=session)
        await ctx.set_status(session, SessionStatus(phase="Handled"))

    return [Controller(Session, reconcile)]


async def scenario(user: Cluster) -> None:
    await user.create(Session.new("anna", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: controllers(MOST), kinds=[ConfigMap], allowed=["not watched"])
fixed = Exploration(scenario, lambda: controllers(None), kinds=[ConfigMap], allowed=["not watched"])
expected = Expected("end state", "patch", "Session")
