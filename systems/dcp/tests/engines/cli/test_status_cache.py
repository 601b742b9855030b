"""The cached status of an engine, in virtual time."""

from levelset.aio import timing
from levelset.testing import virtual
from levelset_dcp.engines import EngineStatus
from levelset_dcp.engines.cli.status_cache import StatusCache


@virtual
async def test_concurrent_callers_share_a_check_and_an_old_status_is_refreshed() -> None:
    checks = 0

    async def check() -> EngineStatus:
        nonlocal checks
        checks += 1
        await timing.sleep(1)
        return EngineStatus(is_installed=True, is_running=checks > 1)

    async with StatusCache(check) as cache:
        assert not (await cache.cached()).is_running
        assert (checks, timing.now()) == (1, 1.0)
        assert not (await cache.cached()).is_running
        await timing.sleep(6.5)
        assert (checks, (await cache.cached()).is_running) == (2, True)
    await timing.sleep(60)
    assert checks == 2
    assert (await cache.cached()).is_running
    assert checks == 3


@virtual
async def test_a_status_that_was_checked_just_before_is_not_checked_again_at_once() -> None:
    checks: list[float] = []

    async def check() -> EngineStatus:
        checks.append(timing.now())
        return EngineStatus(is_installed=True, is_running=True)

    cache = StatusCache(check)
    await cache.now()
    async with cache:
        await cache.cached()
        await timing.sleep(11)
    assert checks == [0.0, 5.0, 10.0]
