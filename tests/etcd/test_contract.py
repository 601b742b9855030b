from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from levelset.storage import EtcdStorage, NowaitReader, Storage
from levelset.testing.contracts.storage import STORAGE_CONTRACT, Check
from levelset.testing.contracts.transactions import TRANSACTION_CONTRACT
from tests.etcd.etcd_cluster import EtcdCluster, run_cluster


@pytest.fixture(scope="module")
def three_members(binary: Path) -> Iterator[EtcdCluster]:
    with run_cluster(binary, 3) as cluster:
        yield cluster


@pytest.mark.parametrize("check", [*STORAGE_CONTRACT, *TRANSACTION_CONTRACT], ids=lambda check: check.__name__)
async def test_one_member_satisfies_the_contract(open_storage: Callable[..., EtcdStorage], check: Check):
    async with open_storage() as storage:
        await check(storage)


@pytest.mark.parametrize("check", [*STORAGE_CONTRACT, *TRANSACTION_CONTRACT], ids=lambda check: check.__name__)
async def test_three_members_satisfy_the_contract(three_members: EtcdCluster, check: Check):
    async with EtcdStorage(three_members.endpoints, prefix=f"/{check.__name__}", compaction=None) as storage:
        await check(storage)


def test_it_is_a_storage_that_reads_without_waiting():
    storage: Storage = EtcdStorage("http://127.0.0.1:2379")
    assert isinstance(storage, NowaitReader)
