"""The Kubernetes client: typed, unstructured and metadata-only access to any kind of an API server."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.client.client import Client, Ensured, retry_on_conflict
    from levelset.client.config.config import Config, Impersonation
    from levelset.client.config.credentials import Anonymous, Basic, ClientCertificate, Credentials, Token, TokenFile
    from levelset.client.config.exec_plugin import ExecPlugin, ExecSpec
    from levelset.client.config.in_cluster import in_cluster
    from levelset.client.config.kubeconfig import Kubeconfig, merge_kubeconfigs, parse_kubeconfig, read_kubeconfig
    from levelset.client.config.loader import load_config
    from levelset.client.discovery import ApiResource
    from levelset.client.lists import Items, ObjectPage, Transform
    from levelset.client.object_types import Item, Kind, ObjectScale, OnlyMetadata, View, view_of
    from levelset.client.patches import JsonPatch, MergePatch, Patch, StrategicPatch
    from levelset.client.request_body import Write
    from levelset.client.request_pipeline import WarningLog
    from levelset.client.rest_mapper import RestMapper
    from levelset.client.transport.in_process import InProcessTransport
    from levelset.client.transport.interface import BodyStream, Call, Hook, Response, Send, Transport
    from levelset.client.transport.pool import PoolLimits
    from levelset.client.transport.retry import Retries
    from levelset.client.transport.sockets import SocketTransport
    from levelset.client.watch_events import WatchEvent

__all__ = [
    "Anonymous",
    "ApiResource",
    "Basic",
    "BodyStream",
    "Call",
    "Client",
    "ClientCertificate",
    "Config",
    "Credentials",
    "Ensured",
    "ExecPlugin",
    "ExecSpec",
    "Hook",
    "Impersonation",
    "InProcessTransport",
    "Item",
    "Items",
    "JsonPatch",
    "Kind",
    "Kubeconfig",
    "MergePatch",
    "ObjectPage",
    "ObjectScale",
    "OnlyMetadata",
    "Patch",
    "PoolLimits",
    "Response",
    "RestMapper",
    "Retries",
    "Send",
    "SocketTransport",
    "StrategicPatch",
    "Token",
    "TokenFile",
    "Transform",
    "Transport",
    "View",
    "WarningLog",
    "WatchEvent",
    "Write",
    "in_cluster",
    "load_config",
    "merge_kubeconfigs",
    "parse_kubeconfig",
    "read_kubeconfig",
    "retry_on_conflict",
    "view_of",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.client.client": "Client Ensured retry_on_conflict",
        "levelset.client.config.config": "Config Impersonation",
        "levelset.client.config.credentials": "Anonymous Basic ClientCertificate Credentials Token TokenFile",
        "levelset.client.config.exec_plugin": "ExecPlugin ExecSpec",
        "levelset.client.config.in_cluster": "in_cluster",
        "levelset.client.config.kubeconfig": "Kubeconfig merge_kubeconfigs parse_kubeconfig read_kubeconfig",
        "levelset.client.config.loader": "load_config",
        "levelset.client.discovery": "ApiResource",
        "levelset.client.lists": "Items ObjectPage Transform",
        "levelset.client.object_types": "Item Kind ObjectScale OnlyMetadata View view_of",
        "levelset.client.patches": "JsonPatch MergePatch Patch StrategicPatch",
        "levelset.client.request_body": "Write",
        "levelset.client.request_pipeline": "WarningLog",
        "levelset.client.rest_mapper": "RestMapper",
        "levelset.client.transport.in_process": "InProcessTransport",
        "levelset.client.transport.interface": "BodyStream Call Hook Response Send Transport",
        "levelset.client.transport.pool": "PoolLimits",
        "levelset.client.transport.retry": "Retries",
        "levelset.client.transport.sockets": "SocketTransport",
        "levelset.client.watch_events": "WatchEvent",
    },
)
