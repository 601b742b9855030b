"""Families of objects on a server in another process: as much of the graph as a few reused lists give."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.client import Client
from levelset.client.config.config import Config
from levelset.client.config.credentials import Token
from levelset.dashboard import DashboardSource
from levelset.dashboard.queries import Queries
from levelset.objects.ref import GroupVersionKind
from tests.client.fixtures import website_crd
from tests.dashboard.fixtures import tree
from tests.dashboard.test_queries import owned

WEBSITE = GroupVersionKind("example.dev", "v1", "Website")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
PODS = GroupVersionKind("", "v1", "Pod")


def names(children: list[dict[str, Any]]) -> list[Any]:
    return [(one["name"], names(one["children"])) for one in children]


@asynccontextmanager
async def remote() -> AsyncGenerator[Client, None]:
    """A client through a socket, as of a program beside a cluster."""
    async with (
        ApiServer(tls=False) as server,
        await Client.connect(Config(server=server.url, credentials=Token(server.token))) as client,
    ):
        yield client


def pod(name: str, owner: Any) -> Any:
    made = owned("Pod", name, owner)
    made.tree["spec"] = {"containers": [{"name": "main", "image": "main"}]}
    return made


async def test_beside_a_cluster_an_object_has_its_owners_and_children_although_no_controller_is_known() -> None:
    async with remote() as client:
        await client.create(website_crd())
        site = await client.create(tree("example.dev/v1", "Website", "blog"))
        config = await client.create(owned("ConfigMap", "settings", site))
        await client.create(pod("web", config))
        queries = Queries(DashboardSource.of_client(client))
        found = await queries.object(WEBSITE, "blog", "default")
        below = await queries.object(PODS, "web", "default")
    assert names(found["children"]) == [("settings", [("web", [])])]
    # A Website is of no kind that is listed for every object: it was read as an owner.
    assert [(one["name"], one["exists"]) for one in below["owners"]] == [("blog", True), ("settings", True)]


async def test_the_lists_of_a_remote_server_are_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with remote() as client:
        made = await client.create(tree("v1", "ConfigMap", "one"))
        queries = Queries(DashboardSource.of_client(client))
        await queries.object(CONFIG_MAP, "one", "default")
        await client.create(pod("late", made))
        found = await queries.object(CONFIG_MAP, "one", "default")
        monkeypatch.setattr("levelset.dashboard.family.REUSED_FOR", 0.0)
        later = await queries.object(CONFIG_MAP, "one", "default")
    assert found["children"] == []
    assert names(later["children"]) == [("late", [])]
