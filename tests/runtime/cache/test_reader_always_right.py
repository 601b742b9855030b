"""A cache that is always right: whatever happens to it, at the next quiet point it holds what the server holds."""

import pytest

from levelset.apiserver.package_data import read_data
from tests.apiserver.clock import virtual
from tests.runtime.cache.storm import Storm

SEEDS = range(20)
STEPS = 500


@pytest.fixture(autouse=True, scope="module")
def data() -> None:
    read_data()  # the loop of virtual time waits for no thread


@pytest.mark.parametrize("seed", SEEDS)
@virtual
async def test_after_any_storm_store_indexes_stream_and_subscribers_equal_the_server(seed: int) -> None:
    await Storm(seed).run(STEPS)
