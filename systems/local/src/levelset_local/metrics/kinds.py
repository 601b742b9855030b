"""PodMetrics and NodeMetrics of metrics.k8s.io, as metrics-server serves them; they are computed, and not stored."""

from datetime import datetime

from levelset import Column, Object, Quantity
from levelset.objects import Model

__all__ = ["ContainerMetrics", "NodeMetrics", "PodMetrics"]

_API = "metrics.k8s.io/v1beta1"
_TIME, _WINDOW = Column("Timestamp", ".timestamp", type="date", priority=1), Column("Window", ".window")


class ContainerMetrics(Model):
    """What a container uses."""

    name: str
    usage: dict[str, Quantity] = {}
    """`cpu` in cores, `memory` in bytes."""


class PodMetrics(
    Object,
    api=_API,
    plural="pods",
    columns=[
        Column("CPU", ".containers[*].usage.cpu"),
        Column("Memory", ".containers[*].usage.memory"),
        _WINDOW,
        _TIME,
    ],
):
    """What the containers of a Pod use."""

    timestamp: datetime
    window: str
    """The time over which the processor time was measured, up to the timestamp."""
    containers: tuple[ContainerMetrics, ...] = ()


class NodeMetrics(
    Object,
    api=_API,
    scope="Cluster",
    plural="nodes",
    columns=[Column("CPU", ".usage.cpu"), Column("Memory", ".usage.memory"), _WINDOW, _TIME],
):
    """What everything on a node uses."""

    timestamp: datetime
    window: str
    usage: dict[str, Quantity] = {}
