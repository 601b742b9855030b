"""Retries of engine calls, in virtual time."""

from collections.abc import Awaitable, Callable

import pytest

from levelset.aio import timing
from levelset.testing import virtual
from levelset_dcp.engines import (
    ContainerInfo,
    EngineAlreadyExists,
    EngineRefused,
    Incomplete,
    InMemoryEngine,
    NewContainer,
    act_and_verify,
)


def verify(engine: InMemoryEngine, status: str) -> Callable[[], Awaitable[ContainerInfo]]:
    async def check() -> ContainerInfo:
        found = await engine.inspect_container("web")
        if found.status != status:
            raise Incomplete(f"web is {found.status}")
        return found

    return check


@virtual
async def test_the_effect_of_a_call_is_verified_after_a_pause() -> None:
    engine = InMemoryEngine()
    await engine.create_container(NewContainer(image="x", name="web"))
    seen = await act_and_verify(lambda: engine.start_container("web"), verify(engine, "running"))
    assert (seen.status, timing.now()) == ("running", 0.2)


@virtual
async def test_a_transient_failure_is_retried_with_backoff() -> None:
    engine = InMemoryEngine()
    await engine.create_container(NewContainer(image="x", name="web"))
    engine.fail_matching("start_container", 3, "by chance")
    await act_and_verify(lambda: engine.start_container("web"), verify(engine, "running"), random=lambda: 0.0)
    assert engine.calls.count("start_container web") == 4
    assert timing.now() == pytest.approx(0.2 + 0.4 + 0.8 + 0.2)


@virtual
async def test_a_call_without_visible_effect_is_retried_until_the_budget_is_spent() -> None:
    engine = InMemoryEngine()
    await engine.create_container(NewContainer(image="x", name="web"))
    with pytest.raises(Incomplete, match="web is running"):
        await act_and_verify(lambda: engine.start_container("web"), verify(engine, "paused"))
    assert 30 <= timing.now() < 45


@virtual
async def test_a_final_error_is_not_retried() -> None:
    engine = InMemoryEngine()
    spec = NewContainer(image="x", name="web")
    await engine.create_container(spec)
    with pytest.raises(EngineAlreadyExists):
        await act_and_verify(lambda: engine.create_container(spec), verify(engine, "created"))
    engine.fail_matching("start_container", 9, "broken")
    with pytest.raises(EngineRefused, match="broken"):
        await act_and_verify(lambda: engine.start_container("web"), verify(engine, "running"), attempts=3)
    assert engine.calls.count("create_container web") == 2
    assert engine.calls.count("start_container web") == 3
