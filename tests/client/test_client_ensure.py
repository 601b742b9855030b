import asyncio
from typing import Any

import pytest

from levelset.client.client import Client, retry_on_conflict
from levelset.client.patches import MergePatch
from levelset.client.transport.interface import Call, Response, Send
from levelset.errors import AlreadyExists, ApplyConflict, ConfigError, Conflict
from levelset.objects import Unstructured
from tests.client.fixtures import Website, open_client, recording, website

TREE: dict[str, Any] = {"apiVersion": "example.dev/v1", "kind": "Website", "metadata": {"name": "blog"}}


def three(site: Website) -> Website:
    return site.with_spec(replicas=3)


async def test_ensure_creates_updates_or_leaves_an_object_unchanged() -> None:  # K23, kube-rs 73
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        made = await client.ensure(website("blog"), three)
        assert (made.done, made.object.spec.replicas) == ("created", 3)
        again = await client.ensure(website("blog", replicas=1), three)
        assert (again.done, again.object) == ("unchanged", made.object)
        changed = await client.ensure(website("blog"), lambda site: site.with_spec(replicas=4))
        assert (changed.done, changed.object.spec.replicas) == ("updated", 4)
        assert [call.verb for call in calls] == ["get", "create", "get", "get", "update"]


async def test_a_change_can_be_sent_as_a_patch() -> None:  # K23
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        await client.ensure(website("blog"), three, by="patch")
        changed = await client.ensure(website("blog"), lambda site: site.with_spec(replicas=5), by="patch")
        assert (changed.done, changed.object.spec.replicas) == ("updated", 5)
        assert calls[-1].body == b'{"spec":{"replicas":5}}'


async def test_an_unstructured_object_may_be_changed_in_place() -> None:  # K23
    def grow(site: Unstructured) -> Unstructured:
        site.tree["spec"] = {"replicas": 7}
        return site

    async with open_client() as client:
        assert (await client.ensure(Unstructured(TREE), grow)).done == "created"
        assert (await client.ensure(Unstructured(TREE), grow)).done == "unchanged"
        await client.patch(website("blog").ref, MergePatch({"spec": {"replicas": 1}}))
        ensured = await client.ensure(Unstructured(TREE), grow)
        assert (ensured.done, ensured.object.tree["spec"]) == ("updated", {"replicas": 7})


async def test_a_change_must_return_the_same_object() -> None:  # K23
    async with open_client() as client:
        changes: list[Any] = [
            lambda site: site.with_metadata(name="other"),
            lambda site: site.with_metadata(namespace="other"),
            lambda site: None,
        ]
        for change in changes:
            with pytest.raises(ConfigError, match="`change` (must return|returned another)"):
                await client.ensure(website("blog"), change)
        with pytest.raises(ConfigError, match="the object needs a name"):
            await client.ensure(website("x").with_metadata(name="", generate_name="a-"), three)


async def test_after_a_lost_race_ensure_reads_and_decides_again() -> None:
    async with open_client() as client:
        site = await client.create(website("blog"))

        def label(name: str) -> Any:
            return lambda one: one.with_metadata(labels={**one.metadata.labels, name: "x"})

        done = await asyncio.gather(*(client.ensure(website("blog"), label(f"l{i}"), attempts=20) for i in range(5)))
        assert {one.done for one in done} == {"updated"}
        assert len((await client.get(site.ref)).metadata.labels) == 5


async def test_a_single_attempt_raises_the_conflict() -> None:  # kube-rs 73, 74
    async with open_client() as client:
        racing = _racing(client)
        with pytest.raises(AlreadyExists):
            await racing.ensure(website("new"), three, attempts=1)
        with pytest.raises(Conflict):
            await racing.ensure(website("new"), lambda site: site.with_spec(replicas=9), attempts=1)
        assert (await racing.ensure(website("new"), lambda site: site.with_spec(replicas=9))).done == "updated"


def _racing(client: Client) -> Client:
    """A server where another writer changes a Website right after its first read."""
    seen: list[str] = []

    async def hook(call: Call, send: Send) -> Response:
        response = await send(call)
        if call.verb == "get" and len(seen) < 2:
            seen.append(call.path)
            await (client.create(website("new")) if len(seen) == 1 else _relabel(client))
        return response

    transport: Any = client._pipeline._transport
    return Client(transport, hooks=[hook])


async def _relabel(client: Client) -> None:
    await client.patch(website("new").ref, MergePatch({"metadata": {"labels": {"a": "b"}}}))


async def test_a_dry_run_creates_nothing_and_the_real_run_still_works() -> None:  # kube-rs 75
    async with open_client() as client:
        assert (await client.ensure(website("blog"), three, dry_run=True)).done == "created"
        assert await client.find(Website, "blog") is None
        assert (await client.ensure(website("blog"), three)).done == "created"


async def test_a_conflict_is_retried_until_it_is_resolved() -> None:
    async with open_client() as client:
        site = await client.create(website("blog"))
        tries = 0

        async def grow() -> Website:
            nonlocal tries
            tries += 1
            found = await client.get(site.ref)
            if tries < 3:
                await client.update(found.with_metadata(labels={"try": str(tries)}))
            return await client.update(found.with_spec(replicas=found.spec.replicas + 1))

        assert (await retry_on_conflict(grow)).spec.replicas == 2
        assert tries == 3


@pytest.mark.parametrize(
    ("error", "tries"), [(Conflict("no"), 5), (AlreadyExists("no"), 1), (ApplyConflict("no", []), 1), (KeyError(), 1)]
)
async def test_only_conflicts_are_retried_and_not_for_ever(error: Exception, tries: int) -> None:
    count = 0

    async def lose() -> None:
        nonlocal count
        count += 1
        raise error

    with pytest.raises(type(error)):
        await retry_on_conflict(lose)
    assert count == tries
