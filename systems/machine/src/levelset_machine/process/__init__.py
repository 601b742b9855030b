"""Processes of the machine: starting, watching, terminating and adopting them; their guard, streams and terminals."""

from levelset_machine.process.command import CannotStart, Command
from levelset_machine.process.cpu_time import read_cpu_seconds
from levelset_machine.process.machine import Machine
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
    "Run",
    "Runner",
    "Session",
    "StopFailed",
    "Terminal",
    "ends_within",
    "identity_of",
    "is_alive",
    "read_cpu_seconds",
]
