"""Random faults: at every quiet point the cache holds what the server holds."""

import pytest

from levelset.apiserver.package_data import load_package_data
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.fault_storm import Storm

SEEDS = range(20)
STEPS = 500


@pytest.fixture(autouse=True, scope="module")
def data() -> None:
    load_package_data()  # the loop of virtual time waits for no thread


@pytest.mark.parametrize("seed", SEEDS)
@virtual
async def test_after_random_faults_store_indexes_stream_and_subscribers_equal_the_server(seed: int) -> None:
    await Storm(seed).run(STEPS)
