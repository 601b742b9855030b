"""Sessions of DCP: opened, governed, watched, and ended in order."""

from levelset_dcp.session.cleanup import CleanupReport, clean_up
from levelset_dcp.session.contact import ask_session, default_kubeconfig, find_session
from levelset_dcp.session.monitor import monitored
from levelset_dcp.session.session import Session, SessionOptions, open_session

__all__ = [
    "CleanupReport",
    "Session",
    "SessionOptions",
    "ask_session",
    "clean_up",
    "default_kubeconfig",
    "find_session",
    "monitored",
    "open_session",
]
