"""The owner graph: owners and descendants of an object, each once and bounded, also beside a cluster."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from levelset.apiserver import ApiServer
from levelset.client import Client
from levelset.client.config.config import Config
from levelset.client.config.credentials import Token
from levelset.dashboard import DashboardSource
from levelset.dashboard.owner_graph import MAX_DEPTH, MAX_MEMBERS, Member, children_of, owners_of
from levelset.dashboard.queries import Queries
from levelset.objects import GroupVersionKind
from levelset.objects.cached_object import Head, decode_head
from tests.client.fixtures import website_crd
from tests.dashboard.fixtures import tree
from tests.dashboard.test_queries import owned

KIND = GroupVersionKind("example.dev", "v1", "Thing")
WEBSITE = GroupVersionKind("example.dev", "v1", "Website")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
PODS = GroupVersionKind("", "v1", "Pod")


def thing(name: str, *owners: str) -> Head:
    refs = [{"apiVersion": "example.dev/v1", "kind": "Thing", "name": one, "uid": one} for one in owners]
    meta = {"name": name, "namespace": "a", "uid": name, "ownerReferences": refs}
    return decode_head(msgspec.json.encode({"metadata": meta}))


def members(*heads: Head) -> list[Member]:
    return [(KIND, one) for one in heads]


def test_owners_are_listed_from_the_root() -> None:
    site, deployment, pod = thing("site"), thing("deployment", "site"), thing("pod", "deployment")
    chain = owners_of(pod, members(site, deployment, pod))
    assert [(one["name"], one["exists"]) for one in chain] == [("site", True), ("deployment", True)]


def test_a_missing_owner_does_not_exist() -> None:
    assert [(one["name"], one["exists"]) for one in owners_of(thing("pod", "gone"), [])] == [("gone", False)]


def test_owned_objects_are_a_tree() -> None:
    all_ = members(thing("site"), thing("b", "site"), thing("a", "site"), thing("c", "b"), thing("stranger"))
    (first, second) = children_of(thing("site"), all_)
    assert (first["name"], first["children"]) == ("a", [])
    assert [one["name"] for one in second["children"]] == ["c"]


def test_ownership_cycles_end_the_tree() -> None:
    one, two = thing("one", "two", "one"), thing("two", "one")
    assert [child["name"] for child in children_of(one, members(one, two))] == ["two"]
    assert [owner["name"] for owner in owners_of(one, members(one, two))] == ["two"]


def test_the_tree_is_bounded_in_size_and_depth() -> None:
    wide = children_of(thing("site"), members(*(thing(f"child-{n}", "site") for n in range(2 * MAX_MEMBERS))))
    assert len(wide) == MAX_MEMBERS
    line = members(*(thing(str(n), str(n - 1)) for n in range(1, 100)))
    depth, level = 0, children_of(thing("0"), line)
    while level:
        depth, level = depth + 1, level[0]["children"]
    assert depth == MAX_DEPTH
    assert len(owners_of(thing("100", "99"), line)) == MAX_DEPTH


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
        monkeypatch.setattr("levelset.dashboard.owner_graph.REUSED_FOR", 0.0)
        later = await queries.object(CONFIG_MAP, "one", "default")
    assert found["children"] == []
    assert names(later["children"]) == [("late", [])]
