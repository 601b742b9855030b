"""Whether and when a container that has ended runs again: its restart policy, and an exponential back-off.

As with a kubelet the first restart is immediate; the next ones follow after 10, 20, 40 seconds and so on, up to five
minutes. A run of ten minutes resets the back-off.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from levelset.kinds.core_v1 import Container, Pod
from levelset_local.node.pod_record import ContainerRecord

__all__ = ["RestartBackoff", "is_sidecar", "should_restart"]


class RestartBackoff(Struct, frozen=True, kw_only=True):
    """The back-off between restarts of a container, in seconds."""

    initial: float = 10.0
    maximum: float = 300.0
    reset_after: float = 600.0
    """A run of at least this length resets the back-off."""

    def streak(self, record: ContainerRecord) -> int:
        """The number of consecutive restarts that count for the delay."""
        end = record.ended
        if end is None or end.started_at is None or end.finished_at is None:
            return record.streak
        return 0 if end.finished_at - end.started_at >= timedelta(seconds=self.reset_after) else record.streak

    def delay(self, record: ContainerRecord) -> float:
        """The seconds between the end of a container and its restart."""
        streak = self.streak(record)
        return 0.0 if streak == 0 else min(self.initial * 2.0 ** min(streak - 1, 32), self.maximum)

    def due(self, record: ContainerRecord) -> datetime | None:
        """When a container that has ended may be restarted; None for at once."""
        delay = self.delay(record)
        finished = None if record.ended is None else record.ended.finished_at
        return None if delay == 0.0 or finished is None else finished + timedelta(seconds=delay)


def is_sidecar(container: Container) -> bool:
    """Whether an init container is a sidecar, which runs beside the main containers."""
    return container.restart_policy == "Always"


def should_restart(pod: Pod, container: Container, record: ContainerRecord) -> bool:
    """Whether a container that has ended is to be restarted by its policy."""
    if record.ended is None:
        return False
    policy = container.restart_policy or pod.spec.restart_policy or "Always"
    is_init = any(one.name == container.name for one in pod.spec.init_containers)
    if is_init and not is_sidecar(container):
        return record.ended.code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and record.ended.code != 0)
