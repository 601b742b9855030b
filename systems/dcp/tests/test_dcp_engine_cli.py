"""Docker and Podman by way of their tools, which are pretended ones here: real processes, streams and limits."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from levelset_dcp.engines import (
    EngineNotFound,
    EngineRefused,
    ImageBuild,
    ImageBuildSecret,
    NewExec,
    RuntimeNotHealthy,
)
from systems.dcp.tests import engine_conformance as checks
from systems.dcp.tests.engine_bench import FAILS, Lines
from systems.dcp.tests.engine_fakebench import FakeBench

BOTH = (
    checks.a_container_is_created_then_runs_then_has_exited,
    checks.what_is_not_there_is_not_found_whatever_is_asked,
    checks.what_happens_to_a_container_is_heard,
    checks.a_volume_is_made_once_and_kept_while_it_is_used,
    checks.a_network_is_made_found_and_removed,
    checks.a_container_is_connected_once_under_its_aliases,
    checks.connecting_is_heard_with_the_container,
)
ONCE = (
    checks.a_name_that_is_taken_is_told_so,
    checks.what_runs_is_removed_with_force_alone,
    checks.containers_are_listed_by_their_labels,
    checks.what_a_container_was_given_can_be_read_again,
    checks.a_command_inside_has_its_output_and_its_exit_code,
    checks.nothing_can_be_run_inside_of_what_does_not_run,
    checks.a_log_is_followed_to_its_end,
    checks.a_part_of_a_log_may_be_asked_for,
    checks.files_are_copied_into_a_container_that_has_not_started,
    checks.a_port_is_chosen_when_it_starts_unless_somebody_has_it,
)
"""The others are the engine's doing and not that of what is between."""


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
async def test_both_are_like_every_engine(check: checks.Check, bench: FakeBench) -> None:
    await check(bench)


@pytest.mark.parametrize("check", ONCE, ids=lambda one: one.__name__)
async def test_it_is_like_every_engine(check: checks.Check, bench: FakeBench) -> None:
    await check(bench)


@pytest.mark.parametrize("dialect", ["docker", "podman"])
async def test_a_tool_without_an_engine_behind_it_is_not_healthy(bench: FakeBench) -> None:
    await bench.tell("down")
    status = await bench.engine.check_status()
    assert (status.is_installed, status.is_running, status.is_healthy) == (True, False, False)
    assert "Cannot connect to" in status.message
    with pytest.raises(RuntimeNotHealthy, match="Cannot connect to"):
        await bench.engine.inspect_container("web")


@pytest.mark.parametrize("period", [0.02])
async def test_health_is_looked_after_in_the_background(bench: FakeBench) -> None:
    async with bench.cli:
        assert (await bench.engine.check_status(cached=True)).is_healthy
        await bench.tell("down")
        await bench.eventually(lambda: bench.engine.check_status(cached=True), lambda one: not one.is_healthy)
        await bench.forget("down")
        await bench.eventually(lambda: bench.engine.check_status(cached=True), lambda one: one.is_healthy)
    seen = len(await bench.calls())
    await asyncio.sleep(0.1)
    assert len(await bench.calls()) == seen


@pytest.mark.parametrize("dialect", ["docker", "podman"])
async def test_a_stream_of_events_that_breaks_is_taken_up_again_and_says_so(bench: FakeBench) -> None:
    async with bench.hearing() as heard:
        await bench.tell("drop")
        await bench.heard(heard, lambda events: [one.action for one in events].count("connected") == 2)
        made = await bench.engine.create_container(bench.spec("later"))
        await bench.heard(heard, lambda _: "create" in heard.actions(made))
    assert [words[0] for words in await bench.calls()].count("events") == 2


async def test_events_are_awaited_while_the_engine_is_away(bench: FakeBench) -> None:
    await bench.tell("down")
    async with aclosing(bench.cli.watch()) as events:
        heard = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.2)
        assert not heard.done()
        await bench.forget("down")
        assert (await asyncio.wait_for(heard, 10)).action == "connected"


async def test_values_of_variables_are_not_in_the_list_of_processes(bench: FakeBench) -> None:
    made = await bench.started("secret", env={"PASSWORD": "hush-1", "PATH": "/bin:/usr/bin"})
    assert (await bench.engine.inspect_container(made)).env == {"PASSWORD": "hush-1", "PATH": "/bin:/usr/bin"}
    out = Lines()
    what = NewExec(command=("sh", "-c", "echo $TOKEN"), env={"TOKEN": "hush-2"})
    assert await bench.engine.exec(made, what, out=out, err=out) == 0
    assert out.data == b"hush-2\n"
    assert "hush" not in str(await bench.calls())


async def test_an_image_is_built_and_what_is_told_meanwhile_is_handed_on(bench: FakeBench) -> None:
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


async def test_a_container_that_vanishes_while_it_is_listed_is_left_out(bench: FakeBench) -> None:
    made = await bench.engine.create_container(bench.spec("one"))
    found = await bench.cli._inspect_all("container", [made, "levelset-gone"])
    assert [one["Id"] for one in found] == [made]


async def test_removing_what_is_not_there_is_told_also_where_the_tool_says_that_all_is_well(bench: FakeBench) -> None:
    with pytest.raises(EngineNotFound, match="levelset-gone"):
        await bench.engine.remove_container("levelset-gone", force=True)


async def test_a_name_that_looks_like_an_option_is_never_handed_to_the_tool(bench: FakeBench) -> None:
    for name in ("--all", ""):
        with pytest.raises(EngineNotFound, match="dash"):
            await bench.engine.remove_container(name, force=True)
    assert await bench.calls() == []


async def test_a_command_that_says_what_an_engine_says_is_still_a_command(bench: FakeBench) -> None:
    made = await bench.started("host")
    err = Lines()
    what = NewExec(command=("sh", "-c", "echo 'Error: No such container: other' >&2; exit 1"))
    assert await bench.engine.exec(made, what, out=Lines(), err=err) == 1
    assert b"other" in err.data


async def test_a_log_that_is_no_longer_wanted_leaves_no_process(bench: FakeBench) -> None:
    made = await bench.started("quiet")

    async def follow() -> None:
        async for _ in bench.engine.logs(made, follow=True):
            pass

    task = asyncio.create_task(follow())
    await bench.eventually(bench.calls, lambda calls: any(words[0] == "logs" for words in calls))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bench.engine.remove_container(made, force=True)


async def test_a_container_that_ends_at_once_has_its_code(bench: FakeBench) -> None:
    made = await bench.started("quick", FAILS)
    assert (await bench.reach(made, "exited")).exit_code == 9
