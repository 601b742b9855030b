"""Asks a cluster for the OpenAPI document of a group and version, and makes classes of it."""

import json
from collections.abc import Mapping
from typing import Any

from levelset.client import Call, Client
from levelset.codegen.models_openapi import models_from_openapi
from levelset.errors import ConfigError, NotFound, ServerFailed
from levelset.objects.trees import is_map

__all__ = ["fetch_models"]


async def fetch_models(client: Client, api: str, *, descriptions: bool = True) -> Mapping[str, str]:
    """The module for a group and version, by file name; ConfigError if the cluster does not serve it."""
    group, _, version = api.rpartition("/")
    path = f"apis/{api}" if group else f"api/{version}"
    if not version:
        raise ConfigError(f"{api!r} is no group and version; write for example apps/v1, or v1 for the core group")
    try:
        document = await _get(client, f"/openapi/v3/{path}")
        told: dict[str, Any] = await _get(client, f"/{path}")
        resources: list[Any] = told.get("resources") or []
    except NotFound as error:
        raise ConfigError(f"this cluster does not serve {api}; kubectl api-versions lists what it serves") from error
    return models_from_openapi(document, group=group, version=version, resources=resources, descriptions=descriptions)


async def _get(client: Client, path: str) -> Any:
    headers = {"accept": "application/json"}
    answer = await client.send(Call(method="GET", path=path, headers=headers, words=f"ask {path}"))
    try:
        document: Any = json.loads(answer.body)
    except ValueError:
        document = None
    if not is_map(document):
        raise ServerFailed(f"ask {path}: the answer is no document ({len(answer.body)} bytes); is this an API server?")
    return document
