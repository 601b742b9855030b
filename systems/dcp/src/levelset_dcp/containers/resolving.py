"""What is there already: the container of this name at the engine, and whether it is taken over or made anew."""

from typing import Literal

from levelset_dcp.containers.labels import KEY, uid_of
from levelset_dcp.containers.plan import habits_of
from levelset_dcp.engines.models import ContainerInfo
from levelset_dcp.kinds import Container

__all__ = ["Verdict", "judge"]

Verdict = Literal["take", "replace", "make", "wait", "foreign"]
"""Take it over; remove it and make another; make one; wait for one; it belongs to somebody else."""


def judge(container: Container, found: ContainerInfo | None, key: str | None) -> Verdict:
    """What becomes of a container that was found, or was not; `key` None: it does not matter; pure."""
    habits = habits_of(container.spec)
    if found is None:
        return "make" if habits.makes else "wait"
    if not habits.finds:
        return "take" if uid_of(found.labels) == container.metadata.uid else "foreign"
    is_ours, is_same = bool(uid_of(found.labels)), key is None or found.labels.get(KEY) == key
    if uid_of(found.labels) == container.metadata.uid:
        return "take"
    if habits.makes and container.spec.start and is_ours and not (is_same and found.is_running):
        return "replace" if not container.spec.stop else "take"
    return "take"
