"""The manager: many controllers in one process, started and stopped in order; leader election, health, metrics."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports
from levelset.runtime.manager.run import run

if TYPE_CHECKING:
    from levelset.runtime.controller.context_dependencies import fence_hook
    from levelset.runtime.manager.command_hints import install_command
    from levelset.runtime.manager.custom_metrics import DEFAULT_BUCKETS, REGISTRY, Counter, Gauge, Histogram
    from levelset.runtime.manager.health import Check, CheckResult, Checks, Health
    from levelset.runtime.manager.leader_election import LeaderElection, LeaderElector, Lease
    from levelset.runtime.manager.local_server import LocalSystem, open_local
    from levelset.runtime.manager.logs import JsonFormatter, PlainFormatter, set_up_logs
    from levelset.runtime.manager.manager import Manager
    from levelset.runtime.manager.metrics import Metrics
    from levelset.runtime.manager.object_panel import ObjectPanel, Panel, PanelSection
    from levelset.runtime.manager.prometheus_text import Family, Registry, Sample
    from levelset.runtime.manager.sharding import MemberReport, Sharding, ShardMember
    from levelset.runtime.manager.system import System
    from levelset.runtime.manager.tracing import Tracing

__all__ = [
    "DEFAULT_BUCKETS",
    "REGISTRY",
    "Check",
    "CheckResult",
    "Checks",
    "Counter",
    "Family",
    "Gauge",
    "Health",
    "Histogram",
    "JsonFormatter",
    "LeaderElection",
    "LeaderElector",
    "Lease",
    "LocalSystem",
    "Manager",
    "MemberReport",
    "Metrics",
    "ObjectPanel",
    "Panel",
    "PanelSection",
    "PlainFormatter",
    "Registry",
    "Sample",
    "ShardMember",
    "Sharding",
    "System",
    "Tracing",
    "fence_hook",
    "install_command",
    "open_local",
    "run",
    "set_up_logs",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.controller.context_dependencies": "fence_hook",
        "levelset.runtime.manager.command_hints": "install_command",
        "levelset.runtime.manager.custom_metrics": "DEFAULT_BUCKETS REGISTRY Counter Gauge Histogram",
        "levelset.runtime.manager.health": "Check CheckResult Checks Health",
        "levelset.runtime.manager.leader_election": "LeaderElection LeaderElector Lease",
        "levelset.runtime.manager.local_server": "LocalSystem open_local",
        "levelset.runtime.manager.logs": "JsonFormatter PlainFormatter set_up_logs",
        "levelset.runtime.manager.manager": "Manager",
        "levelset.runtime.manager.metrics": "Metrics",
        "levelset.runtime.manager.object_panel": "ObjectPanel Panel PanelSection",
        "levelset.runtime.manager.prometheus_text": "Family Registry Sample",
        "levelset.runtime.manager.sharding": "MemberReport Sharding ShardMember",
        "levelset.runtime.manager.system": "System",
        "levelset.runtime.manager.tracing": "Tracing",
    },
)
