"""A manager works the same on asyncio's event loop and on uvloop, in real time."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from levelset import Client, Config, Context, Controller, GroupVersionKind, Manager, ObjectMeta, Ref, Retry, requeue
from levelset.apiserver import ApiServer
from levelset.client import Token
from levelset.kinds.core_v1 import ConfigMap
from levelset.objects import Unstructured
from levelset.runtime.controller import Action
from tests.client.fixtures import open_client

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


@LOOPS
def test_reconciles_that_fail_and_requeue_within_a_millisecond_are_all_repeated(new_loop: NewLoop) -> None:
    attempts: list[int] = []
    done = asyncio.Event()

    async def reconcile(_: ConfigMap, ctx: Context) -> Action | None:
        attempts.append(ctx.attempt)
        if len(attempts) < 20:
            raise Retry("not yet", seconds=0.0001)
        if len(attempts) < 40:
            return requeue(0.0002)
        done.set()
        return None

    async def main() -> None:
        async with open_client(crd=False) as client, Manager(client, health=None) as manager:
            manager.add(Controller(ConfigMap, reconcile, namespace="default"))
            await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            async with asyncio.timeout(120):
                await done.wait()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    assert len(attempts) == 40


@LOOPS
def test_a_controller_sees_changes_and_writes_over_a_socket(new_loop: NewLoop) -> None:
    async def reconcile(one: ConfigMap, ctx: Context) -> None:
        if "seen" not in one.data:
            await ctx.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"seen": "yes"}}
            )

    async def main() -> str:
        async with ApiServer() as server:
            config = Config(server=server.url, ca=server.ca, credentials=Token(server.token))
            return await follow(config)

    async def follow(config: Config) -> str:
        found: list[Unstructured] = []
        async with await Client.connect(config) as client, Manager(client, health=None) as manager:
            manager.add(Controller(ConfigMap, reconcile, namespace="default"))
            await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
            ref = Ref(GroupVersionKind("", "v1", "ConfigMap"), "b", "default")
            found.append(await client.wait(ref, lambda _: True))
        return str(found[0].tree["data"]["seen"])

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == "yes"
