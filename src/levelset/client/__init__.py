"""Talking to an API server: typed, unstructured and metadata-only access to any kind."""

from levelset.client.asking import Write
from levelset.client.calls import Answer, Call, Hook, Pieces, Send, Transport
from levelset.client.client import Client
from levelset.client.config import Config, Impersonation
from levelset.client.conflicts import retry_on_conflict
from levelset.client.credentials import Anonymous, Basic, ClientCertificate, Credentials, Token, TokenFile
from levelset.client.ensuring import Ensured
from levelset.client.execplugin import ExecPlugin
from levelset.client.execspec import ExecSpec
from levelset.client.incluster import in_cluster
from levelset.client.inside import InsideTransport
from levelset.client.items import Items
from levelset.client.kinds import Item, Kind, OnlyMetadata, View, view_of
from levelset.client.kubeconfig import Kubeconfig, merge_kubeconfigs, parse_kubeconfig, read_kubeconfig
from levelset.client.loading import load_config
from levelset.client.mapper import Mapper
from levelset.client.paging import KeptPage, Transform
from levelset.client.patches import JsonPatch, MergePatch, Patch, StrategicPatch
from levelset.client.pool import PoolLimits
from levelset.client.retrying import Retries
from levelset.client.scaling import ObjectScale
from levelset.client.served import ServedResource
from levelset.client.sockets import SocketTransport
from levelset.client.watching import WatchEvent

__all__ = [
    "Anonymous",
    "Answer",
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
    "ServedResource",
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
