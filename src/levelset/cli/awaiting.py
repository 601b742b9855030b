"""Waits until what was applied runs, and says what it waits for, or why that does not come."""

import asyncio
from dataclasses import dataclass

from levelset.cli.refusing import Failed
from levelset.cli.rollouts import Rollout, rollout_of
from levelset.client.client import Client
from levelset.errors import Deadline
from levelset.objects import Ref, Unstructured

__all__ = ["Doing", "seconds_left", "wait_rollout"]


@dataclass
class Doing:
    """What is waited for just now, and how many steps there are, for whoever shows that."""

    steps: int = 0
    what: str = "waits for the server"


async def wait_rollout(client: Client, ref: Ref[Unstructured], *, doing: Doing, until: float, within: float) -> str:
    """Returns when an object runs what was applied, with the words for that; Failed if it does not by then, or never.

    `until` is a time of the loop; `within` is how long that was when all began.
    """
    last: Rollout | None = None

    def has_ended(obj: Unstructured) -> bool:
        nonlocal last
        last = rollout_of(obj.tree)
        doing.what = f"waits for {ref}: {last.said}"
        return last.state != "waiting"

    doing.what = f"waits for {ref}"
    try:
        found = rollout_of((await client.wait(ref, has_ended, within=seconds_left(until))).tree)
    except Deadline as error:
        raise Failed(_late(ref, last, within)) from error
    if found.state == "failed":
        raise Failed(f"{ref}: {found.said}; what was applied stays, see: {_look(ref)}")
    return f"ready ({found.said})"


def seconds_left(until: float) -> float:
    """How long it is until a time of the loop."""
    return max(until - asyncio.get_running_loop().time(), 0.0)


def _late(ref: Ref[Unstructured], last: Rollout | None, within: float) -> str:
    after = f"after {within:g} seconds"
    if last is None:
        return f"{ref} could not be looked at {after}; what was applied stays, see: {_look(ref)}"
    if not last.is_seen:
        return (
            f"{ref} is applied, but {last.said} {after}: this server runs no {ref.gvk.kind}s, as `levelset serve` does "
            "not, or its controllers are away; --no-wait does not wait for it"
        )
    return f"{ref} is not ready {after}: {last.said}; what was applied stays, see: {_look(ref)}; --timeout waits longer"


def _look(ref: Ref[Unstructured]) -> str:
    where = f" -n {ref.namespace}" if ref.namespace else ""
    return f"kubectl describe {ref.gvk.kind.lower()} {ref.name}{where}"
