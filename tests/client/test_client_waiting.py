import asyncio
import random
from typing import Any

import pytest

from levelset.client.patches import MergePatch
from levelset.client.transport.interface import Answer, Call, Send
from levelset.errors import Deadline, Forbidden, Unreachable
from levelset.objects import Ref
from tests.apiserver.clock import virtual
from tests.client.world import WEBSITE, Namespace, Website, answering, failing, open_client, recording, website

BLOG = Ref(Website, "blog", "default")
COMPACT = Call(method="POST", path="/levelset/compact", words="compact")


def is_big(site: Website) -> bool:
    return site.spec.replicas >= 3


@virtual
async def test_waiting_gives_the_object_as_soon_as_the_condition_holds() -> None:
    async with open_client() as client:
        waiting = asyncio.create_task(client.wait(BLOG, is_big, within=60))
        await asyncio.sleep(1)
        await client.create(website("blog"))
        await client.create(website("other", replicas=9))
        await asyncio.sleep(1)
        await client.patch(BLOG, MergePatch({"spec": {"replicas": 3}}))
        site = await waiting
        assert (site.name, site.spec.replicas) == ("blog", 3)
        assert asyncio.get_running_loop().time() < 3


async def test_waiting_for_what_holds_already_needs_no_watch() -> None:
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        await client.create(website("blog", replicas=5))
        assert (await client.wait(BLOG, is_big)) == await client.get(BLOG)
        ref: Ref[Any] = Ref(WEBSITE, "blog", "default")
        assert (await client.wait(ref, lambda site: site.tree["spec"]["replicas"] == 5)).name == "blog"
        assert "watch" not in [call.verb for call in calls]


@virtual
async def test_a_deadline_says_what_was_waited_for_and_seen_last() -> None:
    async with open_client() as client:
        with pytest.raises(
            Deadline, match=r"Website/default/blog: is_big did not happen within 5 seconds; there is no"
        ):
            await client.wait(BLOG, is_big, within=5)
        await client.create(website("blog"))
        with pytest.raises(Deadline, match="it is at version"):
            await client.wait(BLOG, is_big, within=5)


@virtual
async def test_waiting_for_the_end_of_an_object_returns_when_it_is_gone() -> None:
    async with open_client() as client:
        site = await client.create(website("blog").with_metadata(finalizers=("example.dev/a",)))
        await client.delete(site.ref)
        waiting = asyncio.create_task(client.wait_gone(site.ref, within=60))
        await asyncio.sleep(1)
        assert not waiting.done()
        await client.patch(site.ref, MergePatch({"metadata": {"finalizers": None}}))
        await waiting
        await client.wait_gone(site.ref)


@virtual
async def test_an_object_whose_name_was_taken_by_another_is_gone() -> None:
    async with open_client() as client:
        old = await client.create(website("blog"))
        waiting = asyncio.create_task(client.wait_gone(BLOG, uid=old.metadata.uid, within=60))
        await asyncio.sleep(1)
        await client.delete(BLOG)
        await client.create(website("blog"))
        await waiting
        await client.wait_gone(BLOG, uid=old.metadata.uid)
        with pytest.raises(Deadline):
            await client.wait_gone(BLOG, within=1)


@virtual
async def test_waiting_survives_broken_watches_busy_servers_and_forgotten_versions() -> None:
    troubles: list[Any] = [
        Unreachable("reset"),
        answering(503),
        answering(410),
        None,
        Unreachable("reset", is_sent=False),
    ]
    async with open_client(wire_hooks=[failing(*troubles, when=_is_read)]) as client:
        waiting = asyncio.create_task(client.wait(BLOG, is_big, within=600))
        await asyncio.sleep(30)
        await client.create(website("x"))
        await client.send(COMPACT)
        await client.create(website("blog", replicas=3))
        assert (await waiting).spec.replicas == 3


def _is_read(call: Call) -> bool:
    return call.verb in {"list", "watch"}


@virtual
async def test_a_server_that_ends_watches_at_once_is_not_stormed() -> None:
    calls: list[Call] = []
    random.seed(1)  # the delays have jitter: how many calls there are is not left to chance

    async def closing(call: Call, send: Send) -> Answer:
        calls.append(call)
        return Answer(status=200) if call.verb == "watch" else await send(call)

    async with open_client(hooks=[closing]) as client:
        with pytest.raises(Deadline):
            await client.wait(BLOG, is_big, within=300)
        assert len(calls) < 150


@virtual
async def test_waiting_does_not_wait_for_what_cannot_get_better() -> None:
    async with open_client(hooks=[failing(answering(403), when=_is_read)]) as client:
        with pytest.raises(Forbidden):
            await client.wait(BLOG, is_big, within=600)
        await client.create(website("blog"))
        with pytest.raises(ZeroDivisionError):
            await client.wait(BLOG, lambda site: 1 // 0 == 0)


async def test_a_cluster_scoped_object_can_be_waited_for() -> None:
    async with open_client() as client:
        assert (await client.wait(Ref(Namespace, "default"), lambda one: True)).name == "default"


@virtual
async def test_a_wait_without_a_deadline_ends_when_its_client_is_closed() -> None:
    async with open_client() as client:
        waiting = asyncio.create_task(client.wait(BLOG, is_big, within=None))
        await asyncio.sleep(1)
        await client.aclose()
        with pytest.raises(Unreachable, match="closed"):
            await waiting
        assert asyncio.get_running_loop().time() < 2
