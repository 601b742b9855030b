"""The effects of faults on single calls."""

import pytest

from levelset import Object, ObjectMeta
from levelset.aio import timing
from levelset.client import Client, Hook, Retries
from levelset.errors import AlreadyExists, Conflict, ServerFailed, TimedOut, TooManyRequests, Unauthorized, Unreachable
from levelset.runtime.watch.watcher import Watcher
from levelset.testing import Cluster, faults
from levelset.testing.cluster import open_cluster
from levelset.testing.virtual_time import virtual


class Settings(Object, api="v1", kind="ConfigMap"):
    """A ConfigMap."""

    data: dict[str, str] = {}


def settings(name: str = "a", **data: str) -> Settings:
    return Settings(metadata=ObjectMeta(name=name, namespace="test"), data=data)


async def client(cluster: Cluster, *hooks: Hook) -> Client:
    """A client without retries."""
    return await Client.connect(cluster.environment.target, wire_hooks=hooks, retries=Retries(attempts=1))


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        (faults.respond_conflict, Conflict),
        (faults.respond_expired_token, Unauthorized),
        (faults.respond_status(500), ServerFailed),
        (faults.respond_status(429, retry_after=3), TooManyRequests),
        (faults.drop_request, Unreachable),
        (faults.time_out(took_effect=False), TimedOut),
    ],
)
@virtual
async def test_a_rejected_call_has_no_effect(hook: Hook, error: type[Exception]) -> None:
    async with open_cluster() as cluster, await client(cluster, hook) as faulty:
        with pytest.raises(error):
            await faulty.create(settings())
        assert await cluster.find(settings().ref) is None


@pytest.mark.parametrize("hook", [faults.lose_response, faults.time_out(took_effect=True)])
@virtual
async def test_a_call_with_a_lost_response_has_taken_effect(hook: Hook) -> None:
    async with open_cluster() as cluster, await client(cluster, hook) as faulty:
        with pytest.raises(Unreachable) as caught:
            await faulty.create(settings())
        assert caught.value.is_sent
        with pytest.raises(AlreadyExists):
            await cluster.create(settings())


@virtual
async def test_a_status_carries_retry_after() -> None:
    async with open_cluster() as cluster, await client(cluster, faults.respond_status(429, retry_after=3)) as faulty:
        with pytest.raises(TooManyRequests) as caught:
            await faulty.get(settings().ref)
        assert caught.value.retry_after == 3


@virtual
async def test_a_delayed_call_takes_effect_late_and_responds_later() -> None:
    async with open_cluster() as cluster, await client(cluster, faults.delay_call(before=2, after=3)) as faulty:
        began = timing.now()
        await faulty.create(settings())
        assert timing.now() - began == 5
        [version] = cluster.history(settings().ref)
        assert version.at is not None


@virtual
async def test_an_older_list_is_of_its_revision_and_a_watch_continues_there() -> None:
    async with open_cluster() as cluster:
        await cluster.create(settings("a"))
        revision = cluster.storage.revision
        await cluster.create(settings("b"))
        async with await client(cluster, faults.list_older_revision(revision)) as behind:
            assert [one.name for one in await behind.list(Settings, namespace="test")] == ["a"]
            async with Watcher(behind, Settings, namespace="test") as batches:
                first, later = await anext(batches), await anext(batches)
                assert [type(event).__name__ for event in first] == ["Init", "InitApply", "InitDone"]
                assert [type(event).__name__ for event in later] == ["Apply"]


@virtual
async def test_a_watch_from_an_older_revision_repeats_events() -> None:
    async with open_cluster() as cluster:
        revision = cluster.storage.revision
        made = await cluster.create(settings("a"))
        async with await client(cluster, faults.watch_from_older_revision(revision)) as again:
            watching = again.watch(Settings, namespace="test", resource_version=made.metadata.resource_version)
            async with watching as batches:
                [event] = await anext(batches)
                assert event.type == "ADDED"
