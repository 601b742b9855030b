"""The engine is chosen by what is wanted, what runs and what is there; and asked until what it does can be seen."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from levelset.aio import timing
from levelset.errors import ConfigError
from levelset.testing import virtual
from levelset_dcp.engines import (
    ContainerInfo,
    EngineAlreadyExists,
    EngineRefused,
    EngineStatus,
    Incomplete,
    InMemoryEngine,
    NewContainer,
    act_and_verify,
    choose_engine,
    known_engines,
    open_engine,
)
from levelset_dcp.engines.health import Health
from systems.dcp.tests.engine_fakebench import FakeBench


class Named(InMemoryEngine):
    def __init__(self, name: str, status: str) -> None:
        super().__init__()
        self._called = name
        self._status = status

    @property
    def name(self) -> str:
        return self._called

    async def check_status(self, *, cached: bool = False) -> EngineStatus:
        return EngineStatus(is_installed=self._status != "missing", is_running=self._status == "running")


@pytest.mark.parametrize(
    ("docker", "podman", "chosen"),
    [
        ("running", "running", "docker"),
        ("installed", "running", "podman"),
        ("missing", "installed", "podman"),
        ("installed", "installed", "docker"),
        ("missing", "missing", "docker"),
    ],
)
async def test_one_that_runs_is_chosen_before_one_that_is_installed(docker: str, podman: str, chosen: str) -> None:
    engines = (Named("docker", docker), Named("podman", podman))
    assert (await choose_engine(engines)).name == chosen


async def test_what_is_wanted_is_chosen_whatever_it_is() -> None:
    engines = (Named("docker", "running"), Named("podman", "missing"))
    assert (await choose_engine(engines, wanted="podman")).name == "podman"
    with pytest.raises(ConfigError, match="'lxc'; choose one of: docker, podman"):
        await choose_engine(engines, wanted="lxc")


async def test_the_tools_on_the_path_are_asked(tmp_path: Path) -> None:
    bench = await asyncio.to_thread(FakeBench, tmp_path, "podman")
    env = {"PATH": str(Path(bench.tool).parent) + ":/nowhere"}
    statuses = {one.name: (await one.check_status()).is_installed for one in known_engines(env=env)}
    assert statuses == {"docker": False, "podman": True}
    async with open_engine(env=env) as engine:
        assert engine.name == "podman"


@virtual
async def test_health_is_asked_once_for_all_who_want_to_know_and_again_when_it_is_old() -> None:
    looks = 0

    async def look() -> EngineStatus:
        nonlocal looks
        looks += 1
        await timing.sleep(1)
        return EngineStatus(is_installed=True, is_running=looks > 1)

    async with Health(look) as health:
        assert not (await health.cached()).is_running
        assert (looks, timing.now()) == (1, 1.0)
        assert not (await health.cached()).is_running
        await timing.sleep(6.5)
        assert (looks, (await health.cached()).is_running) == (2, True)
    await timing.sleep(60)
    assert looks == 2
    assert (await health.cached()).is_running
    assert looks == 3


def verify(engine: InMemoryEngine, status: str) -> Callable[[], Awaitable[ContainerInfo]]:
    async def look() -> ContainerInfo:
        found = await engine.inspect_container("web")
        if found.status != status:
            raise Incomplete(f"web is {found.status}")
        return found

    return look


@virtual
async def test_an_act_is_verified_a_moment_later() -> None:
    engine = InMemoryEngine()
    await engine.create_container(NewContainer(image="x", name="web"))
    seen = await act_and_verify(lambda: engine.start_container("web"), verify(engine, "running"))
    assert (seen.status, timing.now()) == ("running", 0.2)


@virtual
async def test_what_fails_by_chance_is_tried_again_with_growing_pauses() -> None:
    engine = InMemoryEngine()
    await engine.create_container(NewContainer(image="x", name="web"))
    engine.fail_matching("start_container", 3, "by chance")
    await act_and_verify(lambda: engine.start_container("web"), verify(engine, "running"), random=lambda: 0.0)
    assert engine.calls.count("start_container web") == 4
    assert timing.now() == pytest.approx(0.2 + 0.4 + 0.8 + 0.2)


@virtual
async def test_what_is_not_seen_is_done_again_until_the_budget_is_spent() -> None:
    engine = InMemoryEngine()
    await engine.create_container(NewContainer(image="x", name="web"))
    with pytest.raises(Incomplete, match="web is running"):
        await act_and_verify(lambda: engine.start_container("web"), verify(engine, "paused"))
    assert 30 <= timing.now() < 45


@virtual
async def test_what_cannot_get_better_is_not_tried_again() -> None:
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
