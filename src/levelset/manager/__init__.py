"""Many controllers, one process: ordered start and stop, leader election, health, metrics, logs, and `run`."""

from levelset.manager.election import LeaderElection
from levelset.manager.exposition import Family, Registry, Sample
from levelset.manager.health import Check, Checks, Finding, Health
from levelset.manager.leader import Elector, fencing
from levelset.manager.leases import Lease
from levelset.manager.logs import JsonFormatter, PlainFormatter, set_up_logs
from levelset.manager.manager import Manager
from levelset.manager.metrics import Metrics
from levelset.manager.opening import Local, open_local
from levelset.manager.running import run
from levelset.manager.system import System

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
