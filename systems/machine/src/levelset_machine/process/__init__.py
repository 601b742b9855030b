"""Processes of the machine: starting, watching, terminating and adopting them; their guard, streams and terminals."""

from levelset_machine.process.command import CannotStart, Command
from levelset_machine.process.machine import Machine
from levelset_machine.process.resource_usage import (
    MachineUsage,
    SessionUsage,
    read_machine_usage,
    read_session_usage,
)
from levelset_machine.process.runner import Ended, Identity, Run, Runner, StopFailed, identity_of, is_alive
from levelset_machine.process.session import ERR, OUT, Session
from levelset_machine.process.terminal import Terminal
from levelset_machine.process.termination import ends_within

__all__ = [
    "ERR",
    "OUT",
    "CannotStart",
    "Command",
    "Ended",
    "Identity",
    "Machine",
    "MachineUsage",
    "Run",
    "Runner",
    "Session",
    "SessionUsage",
    "StopFailed",
    "Terminal",
    "ends_within",
    "identity_of",
    "is_alive",
    "read_machine_usage",
    "read_session_usage",
]
