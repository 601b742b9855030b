import asyncio

import pytest

from levelset.apiserver.instant import run_at_once
from levelset.errors import NotFound


async def add(one: int, two: int) -> int:
    return one + two


async def add_all(*numbers: int) -> int:
    total = 0
    for number in numbers:
        total = await add(total, number)
    return total


async def fail() -> None:
    raise NotFound("gone")


def test_what_never_waits_is_done_at_once() -> None:
    assert run_at_once(add_all(1, 2, 3)) == 6


def test_its_errors_come_out() -> None:
    with pytest.raises(NotFound, match="gone"):
        run_at_once(fail())


def test_what_waits_after_all_is_ended_and_told() -> None:
    with pytest.raises(RuntimeError, match="sleep.* waited"):
        run_at_once(asyncio.sleep(0))
