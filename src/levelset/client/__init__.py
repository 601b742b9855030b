"""Talking to an API server: typed, unstructured and metadata-only access to any kind."""

from levelset.client.client import Client, Ensured, retry_on_conflict
from levelset.client.config.config import Config, Impersonation
from levelset.client.config.credentials import Anonymous, Basic, ClientCertificate, Credentials, Token, TokenFile
from levelset.client.config.exec_plugin import ExecPlugin, ExecSpec
from levelset.client.config.in_cluster import in_cluster
from levelset.client.config.kubeconfig import Kubeconfig, merge_kubeconfigs, parse_kubeconfig, read_kubeconfig
from levelset.client.config.loader import load_config
from levelset.client.discovery import ApiResource
from levelset.client.lists import Items, KeptPage, Transform
from levelset.client.object_types import Item, Kind, ObjectScale, OnlyMetadata, View, view_of
from levelset.client.patches import JsonPatch, MergePatch, Patch, StrategicPatch
from levelset.client.request_body import Write
from levelset.client.rest_mapper import Mapper
from levelset.client.transport.in_process import InsideTransport
from levelset.client.transport.interface import Answer, Call, Hook, Pieces, Send, Transport
from levelset.client.transport.pool import PoolLimits
from levelset.client.transport.retry import Retries
from levelset.client.transport.sockets import SocketTransport
from levelset.client.watch_request import WatchEvent

__all__ = [
    "Anonymous",
    "Answer",
    "ApiResource",
    "Basic",
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
    "InsideTransport",
    "Item",
    "Items",
    "JsonPatch",
    "KeptPage",
    "Kind",
    "Kubeconfig",
    "Mapper",
    "MergePatch",
    "ObjectScale",
    "OnlyMetadata",
    "Patch",
    "Pieces",
    "PoolLimits",
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
