"""Omnia comes to the same end in whatever order its objects are made, at once, and is silent then."""

from itertools import permutations
from typing import Any

import pytest

from levelset import ObjectMeta, Ref
from levelset.kinds.core_v1 import Namespace
from levelset.kinds.events_v1 import Event
from levelset.testing import Cluster
from levelset_omnia import AgentRuntime, ToolRegistry
from systems.omnia.tests.world import (
    Plane,
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


def made() -> dict[str, Any]:
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
    for place in orders:
        await cluster.create(Namespace(metadata=ObjectMeta(name=place)))
    async with cluster.running(*controllers(), Plane().controller()):
        for step in range(len(NAMES)):
            for place, order in orders.items():
                await cluster.create(made()[order[step]].with_metadata(namespace=place))
            await cluster.settled()
        for place in orders:
            await cluster.create(endpoints().with_metadata(namespace=place))
        await cluster.settled()
        for place, order in orders.items():
            found = await cluster.get(Ref(AgentRuntime, "helper", place))
            tools = await cluster.get(Ref(ToolRegistry, "tools", place))
            assert found.status is not None, order
            assert tools.status is not None, order
            assert (found.status.phase, tools.status.phase) == ("Running", "Ready"), order
            assert condition(found, "ToolRegistryReady") == ("True", "ToolRegistryFound"), order
    assert cluster.now() == began


async def test_all_at_once_converges_without_waiting(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), Plane().controller()):
        for one in (*made().values(), secret(), endpoints()):
            await cluster.create(one)
        began = cluster.now()
        await cluster.until(agent().ref, lambda it: it.status is not None and it.status.phase == "Running")
        await cluster.until(registry().ref, lambda it: it.status is not None and it.status.phase == "Ready")
        assert cluster.now() == began


async def test_what_has_converged_writes_nothing_and_looks_at_nothing_for_an_hour(cluster: Cluster) -> None:
    for one in (*made().values(), secret(), endpoints()):
        await cluster.create(one)
    async with cluster.running(*controllers(), Plane().controller()):
        await cluster.settled()
        await cluster.advance(3700)  # events are kept for an hour
        revision, looks = cluster.storage.revision, len(cluster.looks())
        await cluster.advance(3600)
        assert (cluster.storage.revision, len(cluster.looks())) == (revision, looks)


async def test_a_restart_of_the_operator_writes_nothing(cluster: Cluster) -> None:
    for one in (*made().values(), secret(), endpoints()):
        await cluster.create(one)
    async with cluster.running(*controllers(), Plane().controller()):
        await cluster.advance(60)
    revision = cluster.storage.revision
    async with cluster.running(*controllers(), Plane().controller()):
        await cluster.settled()
        await cluster.advance(60)
    assert cluster.storage.revision == revision


async def test_what_happens_is_told_as_events(cluster: Cluster) -> None:
    async with cluster.running(*controllers(), Plane().controller()):
        await cluster.create(agent(tool_registry_ref="tools"))
        await cluster.settled()
        for one in (prompts(), pack(), secret(), service(), endpoints(), registry()):
            await cluster.create(one)
        await cluster.advance(60)
        told = {(one.regarding.kind, one.reason, one.type) for one in await cluster.list(Event)}
    assert told >= {
        ("AgentRuntime", "PromptPackNotFound", "Warning"),
        ("AgentRuntime", "Running", "Normal"),
        ("PromptPack", "VersionActive", "Normal"),
        ("ToolRegistry", "Ready", "Normal"),
    }
