"""The cluster under test: that of LEVELSET_TEST_KUBECONFIG, in `make test-kube` a real kube-apiserver, otherwise an
embedded server over TLS with a kubeconfig.

The tests of this folder use only the kubeconfig, so they do not depend on which of the two it is.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset.apiserver import ApiServer, ConnectionInfo, write_kubeconfig
from levelset.client import Client
from levelset.objects import ObjectMeta, Resource
from tests.cluster.kinds import (
    Namespace,
    WidgetSpec,
    WidgetStatus,
    definition,
    is_established,
    new_group,
    widget_class,
)

__all__ = ["Widget", "client", "given_kubeconfig", "kubeconfig", "namespace", "pytest_collection_modifyitems"]

GIVEN = os.environ.get("LEVELSET_TEST_KUBECONFIG")
IS_KUBE = "LEVELSET_TEST_KUBE" in os.environ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder as those of `make test-kube`, where they run, too."""
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        if IS_KUBE:
            item.add_marker(pytest.mark.kube)


@pytest.fixture(scope="session")
def given_kubeconfig() -> Path | None:
    """The kubeconfig of a cluster that is not ours; None for an embedded server."""
    if GIVEN:
        return Path(GIVEN)
    if not IS_KUBE:
        return None
    from tests.kube.kube_cluster import shared_kube  # noqa: PLC0415 -- only `make test-kube` needs it

    return shared_kube().kubeconfig


@pytest.fixture
async def kubeconfig(tmp_path: Path, given_kubeconfig: Path | None) -> AsyncIterator[Path]:
    """The kubeconfig of the cluster."""
    if given_kubeconfig is not None:
        yield given_kubeconfig
        return
    path = tmp_path / "kubeconfig"
    async with ApiServer() as server:
        await asyncio.to_thread(write_kubeconfig, path, ConnectionInfo(server.url, server.token, server.ca))
        yield path


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    """A client of the cluster."""
    async with await Client.connect(kubeconfig) as made:
        yield made


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace for this test only."""
    name = f"levelset-{uuid.uuid4().hex[:12]}"
    await client.create(Namespace(metadata=ObjectMeta(name=name)))
    yield name
    await client.delete(Namespace, name)


@pytest.fixture
async def Widget(client: Client) -> AsyncIterator[type[Resource[WidgetSpec, WidgetStatus]]]:  # a class
    """A custom kind whose CRD is installed for this test."""
    group = new_group()
    made = await client.create(definition(group))
    await client.wait(made.ref, is_established, within=60)
    yield widget_class(group)
    await client.delete(made.ref)
