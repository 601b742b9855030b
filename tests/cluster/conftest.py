"""A cluster to test against: the one that LEVELSET_TEST_KUBECONFIG names, or else ours, over TLS with a kubeconfig.

Nothing here knows which of the two it is: the tests of this folder use a kubeconfig and nothing else.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver import ApiServer, Contact, write_kubeconfig
from levelset.client import Client
from levelset.objects import ObjectMeta, Resource, Unstructured
from tests.cluster.kinds import Namespace, WidgetSpec, WidgetStatus, definition, new_group, widget_class

__all__ = ["Widget", "client", "kubeconfig", "namespace", "pytest_collection_modifyitems"]

GIVEN = os.environ.get("LEVELSET_TEST_KUBECONFIG")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Somebody's cluster may be far away."""
    if GIVEN:
        for item in items:
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """The kubeconfig of the cluster."""
    if GIVEN:
        yield Path(GIVEN)
        return
    path = tmp_path / "kubeconfig"
    async with ApiServer() as server:
        await asyncio.to_thread(write_kubeconfig, path, Contact(server.url, server.token, server.ca))
        yield path


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    """A client of the cluster."""
    async with await Client.connect(kubeconfig) as made:
        yield made


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    name = f"levelset-{uuid.uuid4().hex[:12]}"
    await client.create(Namespace(metadata=ObjectMeta(name=name)))
    yield name
    await client.delete(Namespace, name)


@pytest.fixture
async def Widget(client: Client) -> AsyncIterator[type[Resource[WidgetSpec, WidgetStatus]]]:  # a class
    """A kind that the cluster learns for this test."""
    group = new_group()
    made = await client.create(definition(group))
    await client.wait(made.ref, is_established, within=60)
    yield widget_class(group)
    await client.delete(made.ref)


def is_established(found: Any) -> bool:
    """Whether a definition is served."""
    if not isinstance(found, Unstructured):
        return False
    conditions = found.tree.get("status", {}).get("conditions", [])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
