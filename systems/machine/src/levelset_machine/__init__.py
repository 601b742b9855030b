"""Processes, logs, probes and proxies on one machine; knows nothing of Kubernetes.

`Machine` runs processes and leaves none behind; `LogStore` keeps what they write; `SocketProber` asks them how they
are; `TcpProxy` and `UdpProxy` lead to them; `claim_block` and `free_port` find them addresses. `PretendMachine` stands
for the machine in tests.
"""

from levelset_machine.command import CannotStart, Command
from levelset_machine.identity import Identity, identity_of, is_alive
from levelset_machine.logoptions import LogOptions
from levelset_machine.logs import LogSink, LogStore
from levelset_machine.loopback import Addresses, Block, NoAddress, claim_block
from levelset_machine.names import Lookup, ServiceName, parse_service_name, resolve_host, resolve_url
from levelset_machine.ports import NoPort, free_port
from levelset_machine.pretend import PretendMachine
from levelset_machine.pretend_programs import PretendProgram, PretendRun
from levelset_machine.probes import Check, ExecCheck, HttpCheck, Outcome, Prober, SocketProber, TcpCheck, Verdict
from levelset_machine.probing import Pace, Standing, Tally, keep_probing
from levelset_machine.processes import Machine
from levelset_machine.proxy import TcpProxy
from levelset_machine.proxy_choosing import CannotListen, Choose, Endpoint, ProxyStats
from levelset_machine.proxy_udp import UdpProxy
from levelset_machine.runner import Ended, Run, Runner, StopFailed
from levelset_machine.scratch import scratch_folder
from levelset_machine.terminal import Terminal

__all__ = [
    "Addresses",
    "Block",
    "CannotListen",
    "CannotStart",
    "Check",
    "Choose",
    "Command",
    "Ended",
    "Endpoint",
    "ExecCheck",
    "HttpCheck",
    "Identity",
    "LogOptions",
    "LogSink",
    "LogStore",
    "Lookup",
    "Machine",
    "NoAddress",
    "NoPort",
    "Outcome",
    "Pace",
    "PretendMachine",
    "PretendProgram",
    "PretendRun",
    "Prober",
    "ProxyStats",
    "Run",
    "Runner",
    "ServiceName",
    "SocketProber",
    "Standing",
    "StopFailed",
    "Tally",
    "TcpCheck",
    "TcpProxy",
    "Terminal",
    "UdpProxy",
    "Verdict",
    "claim_block",
    "free_port",
    "identity_of",
    "is_alive",
    "keep_probing",
    "parse_service_name",
    "resolve_host",
    "resolve_url",
    "scratch_folder",
]
