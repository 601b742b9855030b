"""Many controllers, one process: ordered start and stop, leader election, health, metrics, logs, and `run`."""

from levelset.runtime.manager.health import Check, Checks, Finding, Health
from levelset.runtime.manager.leader_election import Elector, LeaderElection, Lease, fencing
from levelset.runtime.manager.local_server import Local, open_local
from levelset.runtime.manager.logs import JsonFormatter, PlainFormatter, set_up_logs
from levelset.runtime.manager.manager import Manager
from levelset.runtime.manager.metrics import Metrics
from levelset.runtime.manager.prometheus_text import Family, Registry, Sample
from levelset.runtime.manager.run import run
from levelset.runtime.manager.system import System

__all__ = [
    "Check",
    "Checks",
    "Elector",
    "Family",
    "Finding",
    "Health",
    "JsonFormatter",
    "LeaderElection",
    "Lease",
    "Local",
    "Manager",
    "Metrics",
    "PlainFormatter",
    "Registry",
    "Sample",
    "System",
    "fencing",
    "open_local",
    "run",
    "set_up_logs",
]
