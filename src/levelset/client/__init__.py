"""The Kubernetes client: typed, unstructured and metadata-only access to any kind of an API server."""

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
