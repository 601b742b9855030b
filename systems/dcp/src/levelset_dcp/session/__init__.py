"""Sessions of DCP: a server with all controllers, its admin endpoint, and the cleanup at its end."""

from levelset_dcp.session.admin import call_session, default_kubeconfig, find_session
from levelset_dcp.session.cleanup import CleanupReport, clean_up
from levelset_dcp.session.session import Session, SessionOptions, monitored_process, open_session

__all__ = [
    "CleanupReport",
    "Session",
    "SessionOptions",
    "call_session",
    "clean_up",
    "default_kubeconfig",
    "find_session",
    "monitored_process",
    "open_session",
]
