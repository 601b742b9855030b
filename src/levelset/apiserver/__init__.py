"""The embedded API server: the Kubernetes API on top of a storage, over HTTPS or in the same process."""

from levelset.apiserver.admission.chain import AdmissionPlugin
from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.authn.authenticator import Authenticator, User
from levelset.apiserver.authn.secret_box import SecretBox
from levelset.apiserver.kubeconfig_file import ConnectionInfo, read_kubeconfig, write_kubeconfig
from levelset.apiserver.request_limits import UserLimits
from levelset.apiserver.resources.served_resource import Column, Rules, ScalePaths, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.server import ApiServer
from levelset.apiserver.verbs.subresources.pod_logs import LogRequest, LogSource
from levelset.apiserver.wire.webhook_client import WebhookClient

__all__ = [
    "AdmissionPlugin",
    "ApiServer",
    "AuditLog",
    "Authenticator",
    "Column",
    "ConnectionInfo",
    "LogRequest",
    "LogSource",
    "Rules",
    "ScalePaths",
    "SecretBox",
    "ServedResource",
    "ServerState",
    "User",
    "UserLimits",
    "WebhookClient",
    "read_kubeconfig",
    "write_kubeconfig",
]
