"""The metrics of Pods and the node, by the processor time and memory of processes; `kubectl top` reads them."""

from levelset_local.metrics.kinds import ContainerMetrics, NodeMetrics, PodMetrics
from levelset_local.metrics.process_meter import ContainerUsage, CpuUsage, Measurement, ProcessMeter
from levelset_local.metrics.sources import MetricsSources, node_metrics, pod_metrics

__all__ = [
    "ContainerMetrics",
    "ContainerUsage",
    "CpuUsage",
    "Measurement",
    "MetricsSources",
    "NodeMetrics",
    "PodMetrics",
    "ProcessMeter",
    "node_metrics",
    "pod_metrics",
]
