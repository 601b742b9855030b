"""Kubeconfigs for tests, as trees and as files."""

import base64
import json
from pathlib import Path
from typing import Any

from levelset.client.config.config import Config
from levelset.client.config.kubeconfig import config_of, read_kubeconfig

__all__ = ["PEM", "encoded", "kubeconfig", "load", "write"]

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def kubeconfig(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: Any
) -> dict[str, Any]:
    """A whole kubeconfig with one entry of each kind."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "clusters": [{"name": "box", "cluster": {"server": "https://box:6443"} if cluster is None else cluster}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": "dev", "context": {"cluster": "box", "user": "me", **context}}],
    }


def write(folder: Path, tree: Any, name: str = "config") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    # JSON is YAML, too.
    file.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    return file


def load(folder: Path, tree: Any, context: str | None = None) -> Config:
    return config_of(read_kubeconfig(write(folder, tree)), context)
