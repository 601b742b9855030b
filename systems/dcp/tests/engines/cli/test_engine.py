"""Docker and Podman with fake tools: real processes, streams and limits."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from levelset_dcp.engines import EngineNotFound, EngineRefused, ImageBuild, ImageBuildSecret, NewExec, RuntimeNotHealthy
from systems.dcp.tests.engines import conformance as checks
from systems.dcp.tests.engines.bench import FAILS, Lines
from systems.dcp.tests.engines.cli.fake_bench import FakeBench

BOTH = (
    checks.a_container_is_created_then_runs_then_has_exited,
    checks.every_call_on_a_missing_object_raises_not_found,
    checks.container_events_are_delivered,
    checks.a_volume_is_created_once_and_cannot_be_removed_while_used,
    checks.a_network_is_created_inspected_and_removed,
    checks.a_container_is_connected_once_under_its_aliases,
    checks.network_events_name_the_container,
)
ONCE = (
    checks.a_taken_name_raises_already_exists,
    checks.a_running_container_is_removed_only_with_force,
    checks.containers_are_listed_by_their_labels,
    checks.inspect_returns_the_settings_of_a_container,
    checks.exec_returns_output_and_exit_code,
    checks.exec_in_a_stopped_container_is_refused,
    checks.a_log_is_followed_to_its_end,
    checks.logs_can_be_filtered_by_origin_and_tail,
    checks.files_are_copied_into_a_container_that_has_not_started,
    checks.a_port_is_allocated_at_start_unless_it_is_taken,
)
"""The other checks depend on the engine, not on its tool."""


@pytest.fixture
def dialect() -> str:
    return "docker"


@pytest.fixture
def period() -> float:
    return 5.0


@pytest.fixture
def bench(dialect: str, period: float, tmp_path: Path) -> Iterator[FakeBench]:
    made = FakeBench(tmp_path, dialect, period=period)
    yield made
    made.end()


@pytest.mark.parametrize("dialect", ["docker", "podman"])
@pytest.mark.parametrize("check", BOTH, ids=lambda one: one.__name__)
async def test_docker_and_podman_conform(check: checks.Check, bench: FakeBench) -> None:
    await check(bench)


@pytest.mark.parametrize("check", ONCE, ids=lambda one: one.__name__)
async def test_it_conforms(check: checks.Check, bench: FakeBench) -> None:
    await check(bench)


@pytest.mark.parametrize("dialect", ["docker", "podman"])
async def test_a_tool_without_a_running_engine_is_not_healthy(bench: FakeBench) -> None:
    await bench.set_fault("down")
    status = await bench.engine.check_status()
    assert (status.is_installed, status.is_running, status.is_healthy) == (True, False, False)
    assert "Cannot connect to" in status.message
    with pytest.raises(RuntimeNotHealthy, match="Cannot connect to"):
        await bench.engine.inspect_container("web")


@pytest.mark.parametrize("period", [0.02])
async def test_the_status_is_polled_in_the_background(bench: FakeBench) -> None:
    async with bench.cli:
        assert (await bench.engine.check_status(cached=True)).is_healthy
        await bench.set_fault("down")
        await bench.eventually(lambda: bench.engine.check_status(cached=True), lambda one: not one.is_healthy)
        await bench.clear_fault("down")
        await bench.eventually(lambda: bench.engine.check_status(cached=True), lambda one: one.is_healthy)
    seen = len(await bench.calls())
    await asyncio.sleep(0.1)
    assert len(await bench.calls()) == seen


@pytest.mark.parametrize("dialect", ["docker", "podman"])
async def test_a_broken_event_stream_reconnects_and_reports_it(bench: FakeBench) -> None:
    async with bench.recording_events() as recorder:
        await bench.set_fault("drop")
        await bench.wait_for_events(recorder, lambda events: [one.action for one in events].count("connected") == 2)
        made = await bench.engine.create_container(bench.spec("later"))
        await bench.wait_for_events(recorder, lambda _: "create" in recorder.actions(made))
    assert [args[0] for args in await bench.calls()].count("events") == 2


async def test_a_watch_waits_while_the_engine_is_down(bench: FakeBench) -> None:
    await bench.set_fault("down")
    async with aclosing(bench.cli.watch()) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.2)
        assert not first.done()
        await bench.clear_fault("down")
        assert (await asyncio.wait_for(first, 120)).action == "connected"


async def test_values_of_variables_are_not_in_the_process_list(bench: FakeBench) -> None:
    made = await bench.started("secret", env={"PASSWORD": "hush-1", "PATH": "/bin:/usr/bin"})
    assert (await bench.engine.inspect_container(made)).env == {"PASSWORD": "hush-1", "PATH": "/bin:/usr/bin"}
    out = Lines()
    what = NewExec(command=("sh", "-c", "echo $TOKEN"), env={"TOKEN": "hush-2"})
    assert await bench.engine.exec(made, what, out=out, err=out) == 0
    assert out.data == b"hush-2\n"
    assert "hush" not in str(await bench.calls())


async def test_a_build_forwards_its_output_and_hides_its_secrets(bench: FakeBench) -> None:
    out, err = Lines(), Lines()
    secret = ImageBuildSecret(id="key", type="env", value="hush")
    what = ImageBuild(
        context=".", tags=("web:2", "web:latest"), args={"V": "hush"}, secrets=(secret,), labels={"a": "b"}
    )
    built = await bench.engine.build(what, out=out, err=err)
    assert (built.tags, built.labels) == (("web:2",), {"a": "b"})
    assert err.data == b"STEP 1/1: FROM scratch\n"
    assert "hush" not in str(await bench.calls())
    with pytest.raises(EngineRefused, match="no tag"):
        await bench.engine.build(ImageBuild(context=".", tags=()))


async def test_an_image_is_pulled_or_not_found(bench: FakeBench) -> None:
    out = Lines()
    assert (await bench.engine.pull_image("redis:7", out=out)).tags == ("redis:7",)
    assert out.data == b"Pulling from redis:7\n"
    with pytest.raises(EngineNotFound, match="no-such:1"):
        await bench.engine.pull_image("no-such:1")


async def test_a_container_that_is_removed_during_a_list_is_left_out(bench: FakeBench) -> None:
    made = await bench.engine.create_container(bench.spec("one"))
    found = await bench.cli._inspect_all("container", [made, "levelset-gone"])
    assert [one["Id"] for one in found] == [made]


async def test_removing_a_missing_container_with_force_raises_not_found(bench: FakeBench) -> None:
    with pytest.raises(EngineNotFound, match="levelset-gone"):
        await bench.engine.remove_container("levelset-gone", force=True)


async def test_a_name_that_looks_like_an_option_never_reaches_the_tool(bench: FakeBench) -> None:
    for name in ("--all", ""):
        with pytest.raises(EngineNotFound, match="dash"):
            await bench.engine.remove_container(name, force=True)
    assert await bench.calls() == []


async def test_a_command_that_prints_an_engine_error_is_not_an_engine_error(bench: FakeBench) -> None:
    made = await bench.started("host")
    err = Lines()
    what = NewExec(command=("sh", "-c", "echo 'Error: No such container: other' >&2; exit 1"))
    assert await bench.engine.exec(made, what, out=Lines(), err=err) == 1
    assert b"other" in err.data


async def test_a_cancelled_log_leaves_no_process(bench: FakeBench) -> None:
    made = await bench.started("quiet")

    async def follow() -> None:
        async for _ in bench.engine.logs(made, follow=True):
            pass

    task = asyncio.create_task(follow())
    await bench.eventually(bench.calls, lambda calls: any(args[0] == "logs" for args in calls))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bench.engine.remove_container(made, force=True)


async def test_a_container_that_exits_at_once_has_its_exit_code(bench: FakeBench) -> None:
    made = await bench.started("quick", FAILS)
    assert (await bench.reach(made, "exited")).exit_code == 9
