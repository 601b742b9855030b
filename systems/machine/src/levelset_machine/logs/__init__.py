"""Logs of processes: written line by line, read in whole or in part, and followed while they grow."""

from levelset_machine.logs.options import LogOptions
from levelset_machine.logs.store import LogSink, LogStore

__all__ = ["LogOptions", "LogSink", "LogStore"]
