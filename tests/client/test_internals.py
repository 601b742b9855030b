"""The internal seam: write observers, hooks and derived clients."""

import asyncio
from typing import Any

import pytest

from levelset.client.client import Client
from levelset.client.internals import observe_writes, with_hook, with_settings
from levelset.client.patches import MergePatch
from levelset.client.request_body import Write, is_gone, write_of
from levelset.client.transport.interface import Call
from levelset.errors import Conflict, NotFound
from levelset.objects import encode_tree
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import WEBSITE, ConfigMap, Website, WebsiteStatus, open_client, recording, website

GROW = MergePatch({"spec": {"replicas": 2}})


def watched(client: Client) -> list[Write]:
    writes: list[Write] = []
    observe_writes(client, writes.append)
    return writes


async def test_every_write_is_observed_with_its_resource_version() -> None:  # K21
    async with open_client() as client:
        writes = watched(client)
        site: Any = await client.create(website("blog"))
        made = [site]
        made.append(await client.update(made[-1].with_spec(replicas=3)))
        made.append(await client.update_status(made[-1].with_status(WebsiteStatus(phase="up"))))
        made.append(await client.patch(site.ref, GROW))
        made.append(await client.apply(website("blog", image="caddy"), force=True))
        made.append(await client.scale(site.ref, replicas=8))
        assert [write.resource_version for write in writes] == [one.metadata.resource_version for one in made]
        assert {(write.gvk, write.name, write.namespace, write.uid) for write in writes} == {
            (WEBSITE, "blog", "default", site.metadata.uid)
        }
        assert not any(write.is_gone for write in writes)


async def test_a_generated_name_is_observed_as_the_server_made_it() -> None:
    async with open_client() as client:
        writes = watched(client)
        made = await client.create(website("x").with_metadata(name="", generate_name="blog-"))
        assert [write.name for write in writes] == [made.name]


async def test_a_deleted_object_is_gone_and_one_with_finalizers_is_not() -> None:  # K21
    async with open_client() as client:
        writes = watched(client)
        site = await client.create(website("blog").with_metadata(finalizers=("example.dev/a",)))
        held = await client.delete(site.ref)
        assert held is not None
        assert (writes[-1].is_gone, writes[-1].resource_version) == (False, held.metadata.resource_version)
        await client.patch(site.ref, MergePatch({"metadata": {"finalizers": None}}))
        other = await client.create(website("other"))
        await client.delete(other.ref)
        assert (writes[-1].is_gone, writes[-1].uid, writes[-1].name) == (True, other.metadata.uid, "other")


async def test_a_delete_collection_is_observed_for_the_kind() -> None:
    async with open_client() as client:
        await client.create(website("a"))
        writes = watched(client)
        await client.delete_collection(Website, namespace="default")
        assert [(write.gvk, write.name, write.namespace) for write in writes] == [(WEBSITE, None, "default")]


async def test_dry_runs_and_failed_writes_are_not_observed() -> None:  # K12, K21
    async with open_client() as client:
        site = await client.create(website("blog"))
        await client.update(site.with_spec(replicas=2))
        writes = watched(client)
        dry = with_settings(client, dry_run=True)
        await dry.create(website("x"))
        await dry.delete(site.ref)
        await client.patch(site.ref, GROW, dry_run=True)
        await client.delete_collection(Website, namespace="default", dry_run=True)
        with pytest.raises(Conflict):
            await client.update(site)
        with pytest.raises(NotFound):
            await client.delete(Website, "none")
        await client.get(site.ref)
        assert writes == []


async def test_observers_are_shared_by_derived_clients_and_can_be_detached() -> None:
    async with open_client() as client:
        writes: list[Write] = []
        leave = observe_writes(client, writes.append)
        await client.in_namespace("default").create(ConfigMap(metadata=website("a").metadata))
        assert [write.name for write in writes] == ["a"]
        leave()
        leave()
        await client.create(website("b"))
        assert len(writes) == 1


async def test_an_observer_is_called_before_the_verb_returns() -> None:
    async with open_client() as client:
        writes = watched(client)
        await asyncio.gather(*(client.create(website(name)) for name in "abc"))
        assert sorted(write.name or "" for write in writes) == ["a", "b", "c"]


def test_a_response_without_a_version_is_not_observed() -> None:
    status = encode_tree({"kind": "Status", "status": "Success"})
    assert write_of(WEBSITE, "a", "default", status) is None
    assert write_of(WEBSITE, "a", None, encode_tree({"kind": "Eviction", "metadata": {"name": "a"}})) is None


def test_an_object_in_a_delete_response_is_gone_unless_a_finalizer_or_grace_period_holds_it() -> None:
    def make_response(**metadata: Any) -> bytes:
        return encode_tree({"kind": "Pod", "metadata": {"name": "a", **metadata}})

    at = "2026-01-01T00:00:00Z"
    assert is_gone(make_response())
    assert is_gone(make_response(deletionTimestamp=at, deletionGracePeriodSeconds=0))
    assert not is_gone(make_response(deletionTimestamp=at, deletionGracePeriodSeconds=30))
    assert not is_gone(make_response(deletionTimestamp=at, deletionGracePeriodSeconds=0, finalizers=["a"]))
    assert not is_gone(make_response(deletionTimestamp=at))


async def test_a_failing_observer_affects_neither_the_write_nor_other_observers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(write: Write) -> None:
        raise ValueError(f"no {write.name}")

    async with open_client() as client:
        seen: list[Write] = []
        observe_writes(client, fail)
        observe_writes(client, seen.append)
        made = await client.create(website("blog"))
        assert [one.resource_version for one in seen] == [made.metadata.resource_version]
    assert "no blog" in caplog.text


@virtual
async def test_an_added_hook_sees_the_calls_of_the_derived_client_before_all_others():
    first: list[Call] = []
    later: list[Call] = []
    async with open_client(hooks=[recording(first)]) as client:
        hooked = with_hook(client, recording(later))
        await client.list(ConfigMap)
        assert (len(first), len(later)) == (1, 0)
        await hooked.list(ConfigMap)
        assert (len(first), len(later)) == (2, 1)


@virtual
async def test_closing_a_derived_client_leaves_the_connections_open():
    async with open_client() as client:
        await with_hook(client, recording([])).aclose()
        await client.list(ConfigMap)
