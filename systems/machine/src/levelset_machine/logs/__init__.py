"""Logs of processes: written line by line, read in whole or in part, followed while they grow, and rotated."""

from levelset_machine.logs.content import LogRotation
from levelset_machine.logs.foreign_file import ForeignLogFile
from levelset_machine.logs.options import LogOptions
from levelset_machine.logs.store import LogSink, LogStore

__all__ = ["ForeignLogFile", "LogOptions", "LogRotation", "LogSink", "LogStore"]
