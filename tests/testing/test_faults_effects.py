"""What goes wrong with one call goes wrong exactly as it says, and nothing else does."""

import pytest

from levelset import Object, ObjectMeta
from levelset.aio import timing
from levelset.client import Client, Hook, Retries
from levelset.errors import AlreadyExists, Conflict, ServerFailed, TimedOut, TooManyRequests, Unauthorized, Unreachable
from levelset.runtime.watch.watcher import Watcher
from levelset.testing import Cluster, faults
from levelset.testing.cluster import open_cluster
from levelset.testing.virtual_time import virtual


class Box(Object, api="v1", kind="ConfigMap"):
    """Something to write."""

    data: dict[str, str] = {}


def box(name: str = "a", **data: str) -> Box:
    return Box(metadata=ObjectMeta(name=name, namespace="test"), data=data)


async def client(cluster: Cluster, *hooks: Hook) -> Client:
    """Somebody who asks once."""
    return await Client.connect(cluster.stage.where, wire_hooks=hooks, retries=Retries(attempts=1))


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        (faults.answer_conflict, Conflict),
        (faults.expire_token, Unauthorized),
        (faults.answer_status(500), ServerFailed),
        (faults.answer_status(429, retry_after=3), TooManyRequests),
        (faults.never_sent, Unreachable),
        (faults.timed_out(took_effect=False), TimedOut),
    ],
)
@virtual
async def test_what_is_refused_does_not_happen(hook: Hook, error: type[Exception]) -> None:
    async with open_cluster() as cluster, await client(cluster, hook) as hurt:
        with pytest.raises(error):
            await hurt.create(box())
        assert await cluster.find(box().ref) is None


@pytest.mark.parametrize("hook", [faults.lose_answer, faults.timed_out(took_effect=True)])
@virtual
async def test_what_is_lost_on_the_way_back_has_happened(hook: Hook) -> None:
    async with open_cluster() as cluster, await client(cluster, hook) as hurt:
        with pytest.raises(Unreachable) as caught:
            await hurt.create(box())
        assert caught.value.is_sent
        with pytest.raises(AlreadyExists):
            await cluster.create(box())


@virtual
async def test_a_status_says_when_to_come_back() -> None:
    async with open_cluster() as cluster, await client(cluster, faults.answer_status(429, retry_after=3)) as hurt:
        with pytest.raises(TooManyRequests) as caught:
            await hurt.get(box().ref)
        assert caught.value.retry_after == 3


@virtual
async def test_a_slow_call_takes_effect_late_and_answers_later() -> None:
    async with open_cluster() as cluster, await client(cluster, faults.delay_call(before=2, after=3)) as hurt:
        began = timing.now()
        await hurt.create(box())
        assert timing.now() - began == 5
        [version] = cluster.history(box().ref)
        assert version.at is not None


@virtual
async def test_an_older_list_is_of_its_revision_and_a_watch_goes_on_from_there() -> None:
    async with open_cluster() as cluster:
        await cluster.create(box("a"))
        revision = cluster.storage.revision
        await cluster.create(box("b"))
        async with await client(cluster, faults.older_list(revision)) as behind:
            assert [one.name for one in await behind.list(Box, namespace="test")] == ["a"]
            async with Watcher(behind, Box, namespace="test") as batches:
                first, later = await anext(batches), await anext(batches)
                assert [type(event).__name__ for event in first] == ["Init", "InitApply", "InitDone"]
                assert [type(event).__name__ for event in later] == ["Apply"]


@virtual
async def test_a_watch_that_is_restarted_tells_again_what_it_has_told() -> None:
    async with open_cluster() as cluster:
        revision = cluster.storage.revision
        made = await cluster.create(box("a"))
        async with await client(cluster, faults.restarted_watch(revision)) as again:
            watching = again.watch(Box, namespace="test", resource_version=made.metadata.resource_version)
            async with watching as batches:
                [event] = await anext(batches)
                assert event.type == "ADDED"
