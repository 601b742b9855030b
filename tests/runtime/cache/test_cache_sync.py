"""Waiting for readiness."""

import asyncio

import pytest

from levelset.errors import NotReady
from levelset.runtime.cache.cache_sync import Readiness
from levelset.testing.virtual_time import virtual


@virtual
async def test_all_waiters_are_woken_and_later_waits_return_at_once() -> None:
    readiness = Readiness("it")
    waits = [asyncio.create_task(readiness.wait()) for _ in range(5)]
    waits[2].cancel()
    await asyncio.sleep(0)
    readiness.set_ready()
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert [outcome is None for outcome in outcomes] == [True, True, False, True, True]
    await readiness.wait(within=0)


@virtual
async def test_a_wait_that_times_out_raises_with_the_last_error() -> None:
    readiness = Readiness("the cache of websites")
    cause = OSError("refused")
    readiness.record_error("watching websites: refused", cause)
    with pytest.raises(NotReady, match="the cache of websites has not synced within 2 s: watching websites") as caught:
        await readiness.wait(within=2)
    assert caught.value.cause is cause
    readiness.clear_error()
    with pytest.raises(NotReady, match="check that the API server answers") as caught:
        await readiness.wait(within=2)
    assert caught.value.cause is None


@virtual
async def test_a_ready_cache_stays_ready_when_it_is_closed() -> None:
    readiness = Readiness("it")
    readiness.set_ready()
    readiness.close()
    await readiness.wait()


@virtual
async def test_a_suspended_cache_is_not_ready_until_the_error_is_cleared() -> None:
    readiness = Readiness("the cache of websites")
    readiness.set_ready()
    cause = LookupError("gone")
    readiness.suspend("watching websites: gone", cause)
    assert (readiness.is_ready, readiness.is_filled) == (False, True)
    with pytest.raises(NotReady, match="could not be kept current and did not recover within 2 s: watching") as caught:
        await readiness.wait(within=2)
    assert caught.value.cause is cause
    waiting = asyncio.create_task(readiness.wait())
    await asyncio.sleep(0)
    readiness.clear_error()
    await waiting
    assert readiness.is_ready


@virtual
async def test_clearing_the_error_before_the_first_sync_does_not_make_it_ready() -> None:
    readiness = Readiness("it")
    readiness.suspend("it is not there", None)
    readiness.clear_error()
    with pytest.raises(NotReady, match="has not synced"):
        await readiness.wait(within=2)
    readiness.suspend("it is not there", None)
    readiness.set_ready()
    await readiness.wait(within=0)


@virtual
async def test_a_waiter_that_is_woken_while_it_is_suspended_again_keeps_waiting() -> None:
    readiness = Readiness("it")
    waiting = asyncio.create_task(readiness.wait(within=5))
    await asyncio.sleep(0)
    readiness.set_ready()
    readiness.suspend("gone", None)
    with pytest.raises(NotReady, match="did not recover within 5 s"):
        await waiting


@virtual
async def test_closing_ends_waits_on_a_suspended_cache() -> None:
    readiness = Readiness("it")
    readiness.set_ready()
    readiness.suspend("gone", None)
    waiting = asyncio.create_task(readiness.wait())
    await asyncio.sleep(0)
    readiness.close()
    readiness.suspend("gone", None)
    with pytest.raises(NotReady, match="was closed while it could not be kept current: gone"):
        await waiting
