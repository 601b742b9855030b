"""Health checks of programs: one check by HTTP, TCP or a command, and periodic probing with thresholds."""

from levelset_machine.probes.prober import (
    Check,
    ExecCheck,
    HttpCheck,
    Outcome,
    Prober,
    ProbeResult,
    SocketProber,
    TcpCheck,
    exit_code_result,
    http_status_result,
)
from levelset_machine.probes.schedule import Health, ProbeSchedule, ProbeStatus, probe_periodically

__all__ = [
    "Check",
    "ExecCheck",
    "Health",
    "HttpCheck",
    "Outcome",
    "ProbeResult",
    "ProbeSchedule",
    "ProbeStatus",
    "Prober",
    "SocketProber",
    "TcpCheck",
    "exit_code_result",
    "http_status_result",
    "probe_periodically",
]
