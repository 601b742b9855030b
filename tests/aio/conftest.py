"""Every test here runs in virtual time, and must leave no task behind."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.aio.virtual_time import VirtualPolicy

__all__ = ["event_loop_policy", "no_task_is_left"]


@pytest.fixture(scope="package")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return VirtualPolicy()


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"still running after the test: {[task.get_name() for task in left]}"
