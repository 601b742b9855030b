"""The embedded API server: the Kubernetes API on top of a storage, over HTTPS or in the same process."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.apiserver.admission.chain import AdmissionPlugin
    from levelset.apiserver.audit_log import AuditLog
    from levelset.apiserver.authn.authenticator import Authenticator, User
    from levelset.apiserver.authn.secret_box import SecretBox
    from levelset.apiserver.kubeconfig_file import ConnectionInfo, read_kubeconfig, write_kubeconfig
    from levelset.apiserver.request_limits import UserLimits
    from levelset.apiserver.resources.served_resource import Column, Rules, ScalePaths, ServedResource
    from levelset.apiserver.resources.server_state import ServerState
    from levelset.apiserver.server import ApiServer
    from levelset.apiserver.verbs.computed_kinds import ComputedSource
    from levelset.apiserver.verbs.subresources.pod_logs import LogRequest, LogSource
    from levelset.apiserver.verbs.subresources.stream_sources import (
        STDERR,
        STDOUT,
        ConnectPort,
        PortConnection,
        RemoteStreams,
        RunCommand,
        StreamRequest,
        StreamSources,
        TerminalSize,
    )
    from levelset.apiserver.wire.webhook_client import WebhookClient

__all__ = [
    "STDERR",
    "STDOUT",
    "AdmissionPlugin",
    "ApiServer",
    "AuditLog",
    "Authenticator",
    "Column",
    "ComputedSource",
    "ConnectPort",
    "ConnectionInfo",
    "LogRequest",
    "LogSource",
    "PortConnection",
    "RemoteStreams",
    "Rules",
    "RunCommand",
    "ScalePaths",
    "SecretBox",
    "ServedResource",
    "ServerState",
    "StreamRequest",
    "StreamSources",
    "TerminalSize",
    "User",
    "UserLimits",
    "WebhookClient",
    "read_kubeconfig",
    "write_kubeconfig",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.apiserver.admission.chain": "AdmissionPlugin",
        "levelset.apiserver.audit_log": "AuditLog",
        "levelset.apiserver.authn.authenticator": "Authenticator User",
        "levelset.apiserver.authn.secret_box": "SecretBox",
        "levelset.apiserver.kubeconfig_file": "ConnectionInfo read_kubeconfig write_kubeconfig",
        "levelset.apiserver.request_limits": "UserLimits",
        "levelset.apiserver.resources.served_resource": "Column Rules ScalePaths ServedResource",
        "levelset.apiserver.resources.server_state": "ServerState",
        "levelset.apiserver.server": "ApiServer",
        "levelset.apiserver.verbs.computed_kinds": "ComputedSource",
        "levelset.apiserver.verbs.subresources.pod_logs": "LogRequest LogSource",
        "levelset.apiserver.verbs.subresources.stream_sources": (
            "STDERR STDOUT ConnectPort PortConnection RemoteStreams RunCommand StreamRequest StreamSources TerminalSize"
        ),
        "levelset.apiserver.wire.webhook_client": "WebhookClient",
    },
)
