"""Waiting for readiness."""

import asyncio

import pytest

from levelset.cache.readiness import Readiness
from levelset.errors import NotReady
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
