"""The embedded API server: it answers as a Kubernetes API server does, in what it carries."""

from levelset.apiserver.access import Access, Caller
from levelset.apiserver.admission import Admitter
from levelset.apiserver.audit import AuditLog
from levelset.apiserver.flow import Shares
from levelset.apiserver.kubeconfig import Contact, read_kubeconfig, write_kubeconfig
from levelset.apiserver.log_sources import Asked, LogSource
from levelset.apiserver.remote_targets import Targets
from levelset.apiserver.served import Column, Rules, ScalePaths, Served
from levelset.apiserver.server import ApiServer
from levelset.apiserver.world import World

__all__ = [
    "Access",
    "Admitter",
    "ApiServer",
    "Asked",
    "AuditLog",
    "Caller",
    "Column",
    "Contact",
    "LogSource",
    "Rules",
    "ScalePaths",
    "Served",
    "Shares",
    "Targets",
    "World",
    "read_kubeconfig",
    "write_kubeconfig",
]
