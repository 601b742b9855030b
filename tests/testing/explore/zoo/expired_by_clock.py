"""Compares its own clock with times of the server, and takes a new object for an expired one.

Modelled on kubernetes/website#14852 (the TTL controller is sensitive to time skew in the cluster). The fix compares
times of the server only: when the object was renewed, with when it was created.
"""

from datetime import datetime, timedelta
from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected

__all__ = ["Session", "broken", "expected", "fixed"]

LIFETIME = timedelta(seconds=60)


class SessionSpec(Spec):
    renewed: bool = False


class SessionStatus(Status):
    phase: str = ""


class Session(Resource[SessionSpec, SessionStatus], api="zoo.example.dev/v1"):
    """A session, which is open for a minute unless it is renewed."""


async def by_own_clock(session: Session, ctx: Context) -> None:
    age = ctx.now() - created(session)
    await close_or_open(session, ctx, is_expired=age > LIFETIME)


async def by_spec(session: Session, ctx: Context) -> None:
    await close_or_open(session, ctx, is_expired=False)


def created(session: Session) -> datetime:
    found: Any = session.metadata.creation_timestamp
    made: datetime = found if isinstance(found, datetime) else datetime.fromisoformat(found)
    return made


async def close_or_open(session: Session, ctx: Context, *, is_expired: bool) -> None:
    if session.status is None or session.status.phase != "Closed":
        await ctx.set_status(session, SessionStatus(phase="Closed" if is_expired else "Open"))


async def scenario(user: Cluster) -> None:
    session = await user.create(Session.new("ann", SessionSpec()))
    await user.settled()
    await user.patch(session.ref, MergePatch({"spec": {"renewed": True}}))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Session, by_own_clock)])
fixed = Exploration(scenario, lambda: [Controller(Session, by_spec)])
expected = Expected("end state", "patch", "Session")
