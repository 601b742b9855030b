"""The in-memory engine: the conformance checks, scripts of programs and injected faults, in virtual time."""

import random
from datetime import timedelta

import pytest

from levelset.aio import timing
from levelset.testing import virtual
from levelset_dcp.engines import (
    CouldNotAllocate,
    EngineNotFound,
    EngineRefused,
    EngineTimedOut,
    ImageBuild,
    InMemoryEngine,
    NewContainer,
    PortBinding,
    RuntimeNotHealthy,
)
from systems.dcp.tests.engines.bench import Lines, MemoryBench
from systems.dcp.tests.engines.conformance import CHECKS, NETWORK_CHECKS, Check


@pytest.mark.parametrize("check", [*CHECKS, *NETWORK_CHECKS], ids=lambda one: one.__name__)
@virtual
async def test_it_conforms(check: Check) -> None:
    bench = MemoryBench()
    await bench.prepare()
    await check(bench)
    await bench.clean()


async def running(engine: InMemoryEngine, name: str = "web", **more) -> str:
    made = await engine.create_container(NewContainer(image="web:1", name=name, **more))
    await engine.start_container(made)
    return made


@virtual
async def test_a_program_follows_its_script() -> None:
    engine = InMemoryEngine()
    engine.program("web:1", exits=(3, 0), after=5.0, prints=[(1.0, "hello")])
    made = await running(engine)
    await timing.sleep(4.9)
    assert (await engine.inspect_container(made)).is_running
    await timing.sleep(0.2)
    over = await engine.inspect_container(made)
    assert (over.status, over.exit_code) == ("exited", 3)
    assert over.started_at is not None
    assert over.finished_at == over.started_at + timedelta(seconds=5)
    await engine.start_container(made)
    await timing.sleep(6)
    assert (await engine.inspect_container(made)).exit_code == 0


@virtual
async def test_external_changes_cause_events() -> None:
    bench = MemoryBench()
    made = await running(bench.memory)
    async with bench.recording_events() as recorder:
        bench.memory.exit("web", 4)
        bench.memory.restart("web")
        bench.memory.set_native_health("web", "unhealthy", "it hurts")
        bench.memory.pause("web")
        assert (await bench.memory.inspect_container(made)).status == "paused"
        bench.memory.remove("web")
        await bench.wait_for_events(recorder, lambda _: "destroy" in recorder.actions(made))
    assert recorder.actions(made) == ["die", "start", "restart", "health_status", "pause", "die", "destroy"]
    with pytest.raises(EngineNotFound):
        await bench.memory.inspect_container(made)


@virtual
async def test_a_recovered_engine_sends_a_connected_event() -> None:
    bench = MemoryBench()
    engine = bench.memory
    made = await running(engine)
    async with bench.recording_events() as recorder:
        engine.set_health(False, "gone fishing")
        status = await engine.check_status()
        assert (status.is_healthy, status.message) == (False, "gone fishing")
        with pytest.raises(RuntimeNotHealthy, match="gone fishing"):
            await engine.inspect_container(made)
        engine.exit(made, 1)
        engine.set_health(True)
        await bench.wait_for_events(recorder, lambda events: len(events) == 2)
    assert [one.action for one in recorder.events] == ["connected", "connected"]
    assert (await engine.inspect_container(made)).exit_code == 1


@virtual
async def test_injected_failures_happen_before_or_after_the_effect() -> None:
    engine = InMemoryEngine()
    engine.fail_matching("create_container web*", 1, "no space left")
    engine.fail_matching("start_container", 1, RuntimeNotHealthy("flicker"), after_effect=True)
    with pytest.raises(EngineRefused, match="no space left"):
        await engine.create_container(NewContainer(image="web:1", name="web"))
    with pytest.raises(EngineNotFound):
        await engine.inspect_container("web")
    await engine.create_container(NewContainer(image="web:1", name="web"))
    with pytest.raises(RuntimeNotHealthy, match="flicker"):
        await engine.start_container("web")
    assert (await engine.inspect_container("web")).is_running
    assert engine.calls[-2:] == ["start_container web", "inspect_container web"]


@virtual
async def test_a_delayed_call_succeeds_or_times_out() -> None:
    engine = InMemoryEngine()
    engine.slow("create_container", 45.0)
    engine.slow("start_container", 45.0)
    made = await engine.create_container(NewContainer(image="web:1"))
    assert timing.now() == 45.0
    with pytest.raises(EngineTimedOut, match="within 30 s"):
        await engine.start_container(made)
    assert (await engine.inspect_container(made)).status == "created"


@virtual
async def test_the_restart_policy_is_applied() -> None:
    engine = InMemoryEngine()
    engine.program("web:1", exits=1, after=1.0)
    made = await running(engine, restart_policy="on-failure")
    await timing.sleep(1.05)
    assert (await engine.inspect_container(made)).status == "restarting"
    await timing.sleep(0.2)
    assert (await engine.inspect_container(made)).status == "running"
    await engine.stop_container(made)
    await timing.sleep(100)
    assert (await engine.inspect_container(made)).exit_code == 143


@virtual
async def test_ports_change_at_a_restart_and_depend_on_the_seed() -> None:
    seen = []
    for _ in range(2):
        engine = InMemoryEngine(random=random.Random(7))
        made = await running(engine, ports=(PortBinding(container_port=80),))
        first = (await engine.inspect_container(made)).ports[0].host_port
        engine.restart(made)
        second = (await engine.inspect_container(made)).ports[0].host_port
        assert first != second
        assert {first, second} <= set(range(40001, 50001))
        seen.append((made, first, second))
    assert seen[0] == seen[1]


@virtual
async def test_a_taken_port_cannot_be_published() -> None:
    engine = InMemoryEngine()
    engine.take_port(8080)
    with pytest.raises(CouldNotAllocate, match="8080"):
        await running(engine, ports=(PortBinding(container_port=80, host_port=8080),))
    assert (await engine.inspect_container("web")).status == "created"


@virtual
async def test_pulls_and_builds_write_their_output() -> None:
    engine, out = InMemoryEngine(), Lines()
    await engine.create_container(NewContainer(image="web:1"), out=out)
    built = await engine.build(ImageBuild(context=".", tags=("mine:1",), labels={"a": "b"}), out=out)
    assert out.data == b"pulling web:1\nbuilding mine:1 from .\n"
    assert (await engine.inspect_image("mine:1")) == built
    with pytest.raises(EngineNotFound, match="mine:2"):
        await engine.inspect_image("mine:2")
    engine.without_image("web:9")
    with pytest.raises(EngineNotFound, match="web:9"):
        await engine.create_container(NewContainer(image="web:9"))


@virtual
async def test_an_invalid_archive_is_rejected() -> None:
    engine = InMemoryEngine()
    await engine.create_container(NewContainer(image="web:1", name="web"))
    with pytest.raises(EngineRefused, match="not a tar archive"):
        await engine.copy_in("web", "/", b"nonsense" * 100)
    assert engine.files("web") == {}
