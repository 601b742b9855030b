"""The embedded API server: it answers as a Kubernetes API server does, in what it carries."""

from levelset.apiserver.admission.chain import Admitter
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.authn.authenticator import Access, Caller
from levelset.apiserver.kubeconfig_file import Contact, read_kubeconfig, write_kubeconfig
from levelset.apiserver.priority_and_fairness import Shares
from levelset.apiserver.resources.served_resource import Column, Rules, ScalePaths, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.server import ApiServer
from levelset.apiserver.verbs.subresources.pod_logs import Asked, LogSource
from levelset.apiserver.wire.webhook_targets import Targets

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
    "ServedResource",
    "Shares",
    "Targets",
    "World",
    "read_kubeconfig",
    "write_kubeconfig",
]
