import asyncio
from typing import Any

import pytest

from levelset.client.client import Client
from levelset.client.patches import MergePatch
from levelset.client.request_body import Write, is_gone, write_of
from levelset.errors import Conflict, NotFound
from levelset.objects import encode_tree
from tests.client.world import WEBSITE, ConfigMap, Website, WebsiteStatus, open_client, website

GROW = MergePatch({"spec": {"replicas": 2}})


def watched(client: Client) -> list[Write]:
    writes: list[Write] = []
    client.observe_writes(writes.append)
    return writes


async def test_every_write_is_told_with_the_version_it_made() -> None:  # K21
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


async def test_a_generated_name_is_told_as_the_server_made_it() -> None:
    async with open_client() as client:
        writes = watched(client)
        made = await client.create(website("x").with_metadata(name="", generate_name="blog-"))
        assert [write.name for write in writes] == [made.name]


async def test_a_deleted_object_is_gone_and_a_held_one_is_not() -> None:  # K21
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


async def test_deleting_many_is_told_for_the_kind() -> None:
    async with open_client() as client:
        await client.create(website("a"))
        writes = watched(client)
        await client.delete_collection(Website, namespace="default")
        assert [(write.gvk, write.name, write.namespace) for write in writes] == [(WEBSITE, None, "default")]


async def test_what_changes_nothing_is_not_told() -> None:  # K12, K21
    async with open_client() as client:
        site = await client.create(website("blog"))
        await client.update(site.with_spec(replicas=2))
        writes = watched(client)
        dry = client.using(dry_run=True)
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


async def test_observers_are_shared_by_copies_of_a_client_and_can_leave() -> None:
    async with open_client() as client:
        writes: list[Write] = []
        leave = client.observe_writes(writes.append)
        await client.in_namespace("default").create(ConfigMap(metadata=website("a").metadata))
        assert [write.name for write in writes] == ["a"]
        leave()
        leave()
        await client.create(website("b"))
        assert len(writes) == 1


async def test_an_observer_is_told_before_the_verb_returns() -> None:
    async with open_client() as client:
        writes = watched(client)
        await asyncio.gather(*(client.create(website(name)) for name in "abc"))
        assert sorted(write.name or "" for write in writes) == ["a", "b", "c"]


def test_an_answer_without_a_version_tells_of_no_write() -> None:
    status = encode_tree({"kind": "Status", "status": "Success"})
    assert write_of(WEBSITE, "a", "default", status) is None
    assert write_of(WEBSITE, "a", None, encode_tree({"kind": "Eviction", "metadata": {"name": "a"}})) is None


def test_an_object_in_the_answer_to_a_delete_is_gone_unless_something_holds_it() -> None:
    def answer(**metadata: Any) -> bytes:
        return encode_tree({"kind": "Pod", "metadata": {"name": "a", **metadata}})

    at = "2026-01-01T00:00:00Z"
    assert is_gone(answer())
    assert is_gone(answer(deletionTimestamp=at, deletionGracePeriodSeconds=0))
    assert not is_gone(answer(deletionTimestamp=at, deletionGracePeriodSeconds=30))
    assert not is_gone(answer(deletionTimestamp=at, deletionGracePeriodSeconds=0, finalizers=["a"]))
    assert not is_gone(answer(deletionTimestamp=at))


async def test_an_observer_that_fails_neither_undoes_the_write_nor_keeps_it_from_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(write: Write) -> None:
        raise ValueError(f"no {write.name}")

    async with open_client() as client:
        seen: list[Write] = []
        client.observe_writes(fail)
        client.observe_writes(seen.append)
        made = await client.create(website("blog"))
        assert [one.resource_version for one in seen] == [made.metadata.resource_version]
    assert "no blog" in caplog.text
