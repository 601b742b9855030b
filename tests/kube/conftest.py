"""The tests of this folder need a real kube-apiserver (the fixture `kube`); only `make test-kube` runs them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from levelset.client import Client
from tests.kube.kube_cluster import PROGRAMS, KubeCluster, shared_kube

__all__ = ["kube", "kube_client", "kubeconfig", "pytest_collection_modifyitems", "pytest_report_header"]


def pytest_report_header() -> str:
    """The programs that the tests run on."""
    return "control plane: " + ", ".join(path.name for path in PROGRAMS.values())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that only `make test-kube` runs it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kube)


@pytest.fixture(scope="session")
def kube() -> KubeCluster:
    """A real kube-apiserver on etcd, one for all tests; each makes namespaces and groups of its own."""
    return shared_kube()


@pytest.fixture(scope="session")
def kubeconfig(kube: KubeCluster) -> Path:
    """The kubeconfig of an administrator."""
    return kube.kubeconfig


@pytest.fixture
async def kube_client(kubeconfig: Path) -> AsyncIterator[Client]:
    """A client with all permissions."""
    async with await Client.connect(kubeconfig) as client:
        yield client
