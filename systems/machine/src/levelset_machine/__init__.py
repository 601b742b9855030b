"""Processes, logs, probes and proxies on one machine; independent of Kubernetes.

- `process`: `Machine` runs processes and ends them with their descendants.
- `logs`: `LogStore` stores their output.
- `probes`: `SocketProber` checks their health, `probe_periodically` on a schedule.
- `proxy`: `TcpProxy` and `UdpProxy` forward connections to endpoints that change.
- `network`: `claim_block` and `free_port` allocate addresses and ports; Service names are resolved without DNS.
- `fake`: `FakeMachine` replaces the machine in tests.
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset_machine.fake import FakeMachine, FakeProgram, FakeRun
    from levelset_machine.logs import ForeignLogFile, LogOptions, LogRotation, LogSink, LogStore
    from levelset_machine.network import (
        AddressPool,
        Block,
        Lookup,
        NoAddress,
        NoPort,
        ServiceName,
        claim_block,
        free_port,
        parse_service_name,
        resolve_host,
        resolve_url,
    )
    from levelset_machine.probes import (
        Check,
        ExecCheck,
        Health,
        HttpCheck,
        Outcome,
        Prober,
        ProbeResult,
        ProbeSchedule,
        ProbeStatus,
        SocketProber,
        TcpCheck,
        probe_periodically,
    )
    from levelset_machine.process import (
        ERR,
        OUT,
        CannotStart,
        Command,
        Ended,
        Identity,
        Machine,
        MachineUsage,
        Run,
        Runner,
        Session,
        SessionUsage,
        StopFailed,
        Terminal,
        identity_of,
        is_alive,
        read_machine_usage,
        read_session_usage,
    )
    from levelset_machine.proxy import CannotListen, Choose, Endpoint, ProxyStats, TcpProxy, UdpProxy
    from levelset_machine.scratch import scratch_folder

__all__ = [
    "ERR",
    "OUT",
    "AddressPool",
    "Block",
    "CannotListen",
    "CannotStart",
    "Check",
    "Choose",
    "Command",
    "Ended",
    "Endpoint",
    "ExecCheck",
    "FakeMachine",
    "FakeProgram",
    "FakeRun",
    "ForeignLogFile",
    "Health",
    "HttpCheck",
    "Identity",
    "LogOptions",
    "LogRotation",
    "LogSink",
    "LogStore",
    "Lookup",
    "Machine",
    "MachineUsage",
    "NoAddress",
    "NoPort",
    "Outcome",
    "ProbeResult",
    "ProbeSchedule",
    "ProbeStatus",
    "Prober",
    "ProxyStats",
    "Run",
    "Runner",
    "ServiceName",
    "Session",
    "SessionUsage",
    "SocketProber",
    "StopFailed",
    "TcpCheck",
    "TcpProxy",
    "Terminal",
    "UdpProxy",
    "claim_block",
    "free_port",
    "identity_of",
    "is_alive",
    "parse_service_name",
    "probe_periodically",
    "read_machine_usage",
    "read_session_usage",
    "resolve_host",
    "resolve_url",
    "scratch_folder",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset_machine.fake": "FakeMachine FakeProgram FakeRun",
        "levelset_machine.logs": "ForeignLogFile LogOptions LogRotation LogSink LogStore",
        "levelset_machine.network": (
            "AddressPool Block Lookup NoAddress NoPort ServiceName claim_block free_port parse_service_name "
            "resolve_host resolve_url"
        ),
        "levelset_machine.probes": (
            "Check ExecCheck Health HttpCheck Outcome Prober ProbeResult ProbeSchedule ProbeStatus SocketProber "
            "TcpCheck probe_periodically"
        ),
        "levelset_machine.process": (
            "ERR OUT CannotStart Command Ended Identity Machine Run Runner Session StopFailed Terminal "
            "MachineUsage SessionUsage identity_of is_alive read_machine_usage read_session_usage"
        ),
        "levelset_machine.proxy": "CannotListen Choose Endpoint ProxyStats TcpProxy UdpProxy",
        "levelset_machine.scratch": "scratch_folder",
    },
)
