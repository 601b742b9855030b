"""Waiting for readiness."""

import asyncio

import pytest

from levelset.errors import NotReady
from levelset.runtime.cache.cache_sync import Readiness
from tests.apiserver.clock import virtual


@virtual
async def test_everybody_who_waits_is_woken_in_any_task_and_later_waits_return_at_once() -> None:
    readiness = Readiness("it")
    waits = [asyncio.create_task(readiness.wait()) for _ in range(5)]
    waits[2].cancel()
    await asyncio.sleep(0)
    readiness.settle()
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert [outcome is None for outcome in outcomes] == [True, True, False, True, True]
    await readiness.wait(within=0)


@virtual
async def test_whoever_waits_in_vain_is_told_what_stood_in_the_way() -> None:
    readiness = Readiness("the cache of websites")
    cause = OSError("refused")
    readiness.blame("watching websites: refused", cause)
    with pytest.raises(NotReady, match="the cache of websites has not synced within 2 s: watching websites") as caught:
        await readiness.wait(within=2)
    assert caught.value.cause is cause
    readiness.praise()
    with pytest.raises(NotReady, match="see whether the server answers") as caught:
        await readiness.wait(within=2)
    assert caught.value.cause is None


@virtual
async def test_what_was_ready_stays_ready_when_it_is_closed() -> None:
    readiness = Readiness("it")
    readiness.settle()
    readiness.close()
    await readiness.wait()


@virtual
async def test_what_is_suspended_is_not_ready_until_the_trouble_is_over() -> None:
    readiness = Readiness("the cache of websites")
    readiness.settle()
    cause = LookupError("gone")
    readiness.suspend("watching websites: gone", cause)
    assert (readiness.is_ready, readiness.is_filled) == (False, True)
    with pytest.raises(NotReady, match="could not be kept current, and was not again within 2 s: watching") as caught:
        await readiness.wait(within=2)
    assert caught.value.cause is cause
    waiting = asyncio.create_task(readiness.wait())
    await asyncio.sleep(0)
    readiness.praise()
    await waiting
    assert readiness.is_ready


@virtual
async def test_what_is_praised_before_it_was_filled_is_not_ready() -> None:
    readiness = Readiness("it")
    readiness.suspend("it is not there", None)
    readiness.praise()
    with pytest.raises(NotReady, match="has not synced"):
        await readiness.wait(within=2)
    readiness.suspend("it is not there", None)
    readiness.settle()
    await readiness.wait(within=0)


@virtual
async def test_one_who_is_woken_and_finds_it_suspended_again_waits_on() -> None:
    readiness = Readiness("it")
    waiting = asyncio.create_task(readiness.wait(within=5))
    await asyncio.sleep(0)
    readiness.settle()
    readiness.suspend("gone", None)
    with pytest.raises(NotReady, match="not again within 5 s"):
        await waiting


@virtual
async def test_closing_ends_the_waiting_of_those_who_wait_for_what_is_suspended() -> None:
    readiness = Readiness("it")
    readiness.settle()
    readiness.suspend("gone", None)
    waiting = asyncio.create_task(readiness.wait())
    await asyncio.sleep(0)
    readiness.close()
    readiness.suspend("gone", None)
    with pytest.raises(NotReady, match="was closed when it could not be kept current: gone"):
        await waiting
