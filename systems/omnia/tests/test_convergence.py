"""Omnia converges to the same state in every order of creation, without waiting, and is idle then."""

from itertools import permutations
from typing import Any

import pytest

from levelset import ObjectMeta, Ref
from levelset.kinds.core_v1 import Namespace
from levelset.kinds.events_v1 import Event
from levelset.testing import Cluster
from levelset_omnia import AgentRuntime, ToolRegistry
from systems.omnia.tests.support import (
    FakeDataPlane,
    agent,
    condition,
    controllers,
    endpoints,
    pack,
    prompts,
    registry,
    secret,
    service,
    tool,
)

__all__: list[str] = []

NAMES = ("agent", "pack", "prompts", "registry", "service")


def objects() -> dict[str, Any]:
    return {
        "agent": agent(tool_registry_ref="tools"),
        "pack": pack(),
        "prompts": prompts(),
        "registry": registry(tool(), tool("far", url="http://far.example.dev")),
        "service": service(),
    }


@pytest.mark.parametrize("first", NAMES)
async def test_every_order_of_creation_converges_without_waiting(cluster: Cluster, first: str) -> None:
    chosen = (one for one in permutations(NAMES) if one[0] == first)
    began, orders = cluster.now(), {f"order-{number}": one for number, one in enumerate(chosen)}
    for namespace in orders:
        await cluster.create(Namespace(metadata=ObjectMeta(name=namespace)))
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        for step in range(len(NAMES)):
            for namespace, order in orders.items():
                await cluster.create(objects()[order[step]].with_metadata(namespace=namespace))
            await cluster.settled()
        for namespace in orders:
            await cluster.create(endpoints().with_metadata(namespace=namespace))
        await cluster.settled()
        for namespace, order in orders.items():
            found = await cluster.get(Ref(AgentRuntime, "helper", namespace))
            tools = await cluster.get(Ref(ToolRegistry, "tools", namespace))
            assert found.status is not None, order
            assert tools.status is not None, order
            assert (found.status.phase, tools.status.phase) == ("Running", "Ready"), order
            assert condition(found, "ToolRegistryReady") == ("True", "ToolRegistryFound"), order
    assert cluster.now() == began


async def test_concurrent_creation_converges_without_waiting(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        for one in (*objects().values(), secret(), endpoints()):
            await cluster.create(one)
        began = cluster.now()
        await cluster.until(agent().ref, lambda it: it.status is not None and it.status.phase == "Running")
        await cluster.until(registry().ref, lambda it: it.status is not None and it.status.phase == "Ready")
        assert cluster.now() == began


async def test_a_converged_system_neither_writes_nor_reconciles_for_an_hour(cluster: Cluster) -> None:
    for one in (*objects().values(), secret(), endpoints()):
        await cluster.create(one)
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        await cluster.advance(3700)  # events expire after an hour
        revision, reconciles = cluster.storage.revision, len(cluster.reconciles())
        await cluster.advance(3600)
        assert (cluster.storage.revision, len(cluster.reconciles())) == (revision, reconciles)


async def test_a_restart_of_the_operator_writes_nothing(cluster: Cluster) -> None:
    for one in (*objects().values(), secret(), endpoints()):
        await cluster.create(one)
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.advance(60)
    revision = cluster.storage.revision
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.settled()
        await cluster.advance(60)
    assert cluster.storage.revision == revision


async def test_changes_are_recorded_as_events(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), FakeDataPlane().controller()):
        await cluster.create(agent(tool_registry_ref="tools"))
        await cluster.settled()
        for one in (prompts(), pack(), secret(), service(), endpoints(), registry()):
            await cluster.create(one)
        await cluster.advance(60)
        recorded = {(one.regarding.kind, one.reason, one.type) for one in await cluster.list(Event)}
    assert recorded >= {
        ("AgentRuntime", "PromptPackNotFound", "Warning"),
        ("AgentRuntime", "Running", "Normal"),
        ("PromptPack", "VersionActive", "Normal"),
        ("ToolRegistry", "Ready", "Normal"),
    }
