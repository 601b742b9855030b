"""Running etcd clusters for the tests that `make test-etcd` runs; it says in LEVELSET_TEST_ETCD where etcd is."""

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from levelset.storage import EtcdStorage
from tests.etcd.etcd_cluster import EtcdCluster, run_cluster

__all__ = ["binary", "newest", "open_storage", "pytest_collection_modifyitems", "shared_cluster"]

BINARIES = dict(line.split("=", 1) for line in os.environ.get("LEVELSET_TEST_ETCD", "").split())
_prefixes = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that only `make test-etcd` runs it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.etcd)


@pytest.fixture(scope="session", params=sorted(BINARIES) or ["none"])
def binary(request: pytest.FixtureRequest) -> Path:
    """Each etcd that could be had."""
    if request.param == "none":
        pytest.skip("LEVELSET_TEST_ETCD is not set: run make test-etcd")
    return Path(BINARIES[request.param])


@pytest.fixture(scope="session")
def newest() -> Path:
    """The newest etcd that could be had."""
    if not BINARIES:
        pytest.skip("LEVELSET_TEST_ETCD is not set: run make test-etcd")
    return Path(BINARIES[max(BINARIES)])


@pytest.fixture(scope="session")
def shared_cluster(binary: Path) -> Iterator[EtcdCluster]:
    """One member for all tests that do not disturb it."""
    with run_cluster(binary) as cluster:
        yield cluster


@pytest.fixture
def open_storage(shared_cluster: EtcdCluster) -> Callable[..., EtcdStorage]:
    """Makes storages on the shared cluster, under a prefix that no other test uses; the same one within a test."""
    options: dict[str, Any] = {"prefix": f"/test-{next(_prefixes)}", "compaction": None}
    return partial(EtcdStorage, shared_cluster.endpoints, **options)
