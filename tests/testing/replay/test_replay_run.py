"""Replays of recordings: the same reconciles, requests and outcomes, or the first difference."""

import asyncio
import logging
import random
import time
import uuid
from bdb import BdbQuit
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from levelset import Context, Controller, StateMap, owns, remembers, replace, requeue
from levelset.errors import ConfigError
from levelset.runtime.recording import read_recording, recorded
from levelset.runtime.recording.entries import FORMAT, Begin, End, Request, Spawn, Start
from levelset.testing import Cluster, faults
from levelset.testing.replay import ReplayDiffers, assert_replays, replay
from levelset.testing.replay.replayer import Replayer
from tests.testing.replay.operators import (
    Config,
    Website,
    WebsiteSpec,
    WebsiteStatus,
    config,
    create_and_update,
    deploy,
    deployment,
    many_things,
    record,
    site,
)


def test_a_recording_replays_with_the_same_reconciles_and_requests(tmp_path: Path) -> None:
    record(tmp_path / "run", deployment(), use=create_and_update)
    entries = read_recording(tmp_path / "run")
    result = assert_replays(tmp_path / "run", deployment())
    assert result.reconciles == sum(isinstance(one, Begin) for one in entries) > 5
    assert result.requests == sum(isinstance(one, Request) for one in entries) > 5
    assert result.is_complete
    assert not result.is_partial
    assert result.notes == ()


def test_replays_of_one_recording_are_all_the_same(tmp_path: Path) -> None:
    record(tmp_path / "run", deployment(), use=create_and_update)
    assert len({assert_replays(tmp_path / "run", deployment()).digest for _ in range(5)}) == 1


def test_child_tasks_timeouts_retries_and_errors_replay(tmp_path: Path) -> None:
    controller = Controller(Website, many_things, owns(Config), name="websites")

    async def use(cluster: Cluster) -> None:
        await create_and_update(cluster, ("nginx", "bad", "flaky", "broken"))

    record(tmp_path / "run", controller, use=use, allow_errors=True)
    results = {one.result for one in read_recording(tmp_path / "run") if isinstance(one, End)}
    assert results >= {"done", "gave_up", "retry", "failed", "gone"}
    assert assert_replays(tmp_path / "run", controller).reconciles > 8


def test_the_errors_of_a_reconciler_are_shown_without_an_error_of_the_replay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Controller(Website, many_things, owns(Config), name="websites")

    async def use(cluster: Cluster) -> None:
        await create_and_update(cluster, ("broken", "nginx"))

    record(tmp_path / "run", controller, use=use, allow_errors=True)
    caplog.clear()
    assert_replays(tmp_path / "run", controller)
    raised = {one.exc_info[1] for one in caplog.records if one.exc_info}
    assert {(type(one), one.__context__) for one in raised if one is not None} == {(ValueError, None)}


def test_a_recording_of_the_first_format_replays() -> None:
    # `recordings/format_1.levelset` was recorded as the test above does, by the last version that wrote format 1.
    path = Path(__file__).parent / "recordings" / "format_1.levelset"
    first = read_recording(path)[0]
    assert isinstance(first, Start)
    assert first.format == 1 < FORMAT
    result = assert_replays(path, Controller(Website, many_things, owns(Config), name="websites"))
    assert (result.reconciles, result.requests) == (16, 15)
    assert result.is_complete


def test_a_recording_of_an_earlier_version_with_the_same_format_replays() -> None:
    # `recordings/format_2.levelset` was recorded as above by the last version whose event loop did not encode entries.
    path = Path(__file__).parent / "recordings" / "format_2.levelset"
    first = read_recording(path)[0]
    assert isinstance(first, Start)
    assert first.format == 2
    result = assert_replays(path, Controller(Website, many_things, owns(Config), name="websites"))
    assert (result.reconciles, result.requests) == (16, 15)
    assert result.is_complete


def test_a_reconcile_that_takes_too_long_replays(tmp_path: Path) -> None:
    async def slow(found: Website, ctx: Context) -> None:
        await ctx.apply(config(found, image="x"), owner=found)
        await asyncio.sleep(100)

    controller = Controller(Website, slow, owns(Config), timeout=2.0)
    record(tmp_path / "run", controller, use=lambda it: create_and_update(it, ("nginx",) * 2), allow_errors=True)
    assert "timed_out" in {one.result for one in read_recording(tmp_path / "run") if isinstance(one, End)}
    assert_replays(tmp_path / "run", controller)


def test_a_finalizer_and_its_cleanup_replay(tmp_path: Path) -> None:
    async def cleanup(found: Website, ctx: Context) -> None:
        await asyncio.sleep(1)
        await ctx.delete(config(found).ref)

    record(tmp_path / "run", deployment(cleanup=cleanup), use=create_and_update)
    assert_replays(tmp_path / "run", deployment(cleanup=cleanup))


def test_two_controllers_in_one_manager_replay(tmp_path: Path) -> None:
    async def count(found: Config, ctx: Context) -> None:
        labels = {"size": str(len(found.data))}
        if found.metadata.labels != labels:
            await ctx.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": found.name, "labels": labels}}
            )

    both = deployment(), Controller(Config, count, name="counter")
    record(tmp_path / "run", *both, use=create_and_update)
    assert {one.controller for one in read_recording(tmp_path / "run") if isinstance(one, Begin)} == {
        "websites",
        "counter",
    }
    assert_replays(tmp_path / "run", both)


def test_background_work_and_the_state_it_changes_replay(tmp_path: Path) -> None:
    def controllers() -> Controller[Website]:
        built: StateMap[Website, str, str] = StateMap()

        async def reconcile(found: Website, ctx: Context) -> None:
            async def build() -> None:
                await asyncio.sleep(3)
                built.defer(ctx.ref, lambda _: "built")

            if built.get(found.ref) is None:
                built.put(found.ref, "")
            if not built.get(found.ref):
                ctx.background(build)
                return
            await ctx.set_status(found, WebsiteStatus(seen=built.get(found.ref) or ""))

        return Controller(Website, reconcile, remembers(built), name="websites")

    record(tmp_path / "run", controllers(), use=create_and_update)
    assert_replays(tmp_path / "run", controllers())


async def changed(found: Website, ctx: Context) -> Any:
    await ctx.apply(config(found, image=found.spec.image, when="now"), owner=found)
    return await deploy(found, ctx)


def test_what_a_timer_does_after_its_reconcile_is_no_part_of_a_recording(tmp_path: Path) -> None:
    started: list[asyncio.Task[None]] = []

    async def remind(found: Website, ctx: Context) -> Any:
        loop = asyncio.get_running_loop()
        loop.call_later(2.5, lambda: started.append(loop.create_task(asyncio.sleep(0.1))))
        await asyncio.sleep(0.5)
        ctx.record(found, "Reminded", ctx.now().isoformat())
        return requeue(1)

    async def use(cluster: Cluster) -> None:
        await cluster.create(site())
        await cluster.advance(20)

    controller = Controller(Website, remind, name="websites")
    record(tmp_path / "run", controller, use=use)
    assert started
    assert not any(isinstance(one, Spawn) for one in read_recording(tmp_path / "run"))
    assert assert_replays(tmp_path / "run", controller).reconciles > 5


def test_a_worker_that_waits_when_a_recording_is_switched_on_or_off_is_recorded_in_between(tmp_path: Path) -> None:
    async def use(cluster: Cluster) -> None:
        manager = cluster.processes[0].manager
        for number in range(2):
            await cluster.create(site(f"before-{number}"))
            await cluster.advance(5)
            await manager.start_recording(tmp_path / f"run-{number}")
            await cluster.create(site(f"recorded-{number}"))
            await cluster.advance(5)
            await manager.stop_recording()

    controller = Controller(Website, deploy, owns(Config), name="websites", concurrency=1)
    record(None, controller, use=use)
    for number in range(2):
        begun = [one.key for one in read_recording(tmp_path / f"run-{number}") if isinstance(one, Begin)]
        assert set(begun) == {f"test/recorded-{number}"}
        assert assert_replays(tmp_path / f"run-{number}", controller).requests == 2


def test_a_reconcile_that_begins_right_after_one_that_ran_when_recording_began_is_recorded(tmp_path: Path) -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.create(site("running"))
        await cluster.create(site("waiting"))
        await cluster.advance(0.2)
        await cluster.processes[0].manager.start_recording(tmp_path / "run")
        await cluster.advance(5)

    controller = deployment(concurrency=1)
    record(None, controller, use=use)
    assert "test/waiting" in {one.key for one in read_recording(tmp_path / "run") if isinstance(one, Begin)}
    assert_replays(tmp_path / "run", controller)


@pytest.mark.parametrize("reconcile", [deploy, many_things])
def test_a_recording_that_ends_anywhere_replays_up_to_there(tmp_path: Path, reconcile: Any) -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.create(site())
        await cluster.advance(1)

    controller = Controller(Website, reconcile, owns(Config), name="websites")
    record(tmp_path / "run", controller, use=use)
    entries = read_recording(tmp_path / "run")
    for end in range(1, len(entries)):
        replayer = Replayer(entries[:end], [controller])
        replayer.run()
        assert replayer.difference is None


@pytest.mark.parametrize("on_at", [0.4, 0.6], ids=["made while it records", "made before"])
def test_a_read_that_waited_for_a_write_that_is_not_recorded_replays(tmp_path: Path, on_at: float) -> None:
    async def count(found: Website, ctx: Context) -> Any:
        if found.name == "first":
            await asyncio.sleep(0.5)
            await ctx.apply(config(found), owner=found)
            await asyncio.sleep(60)  # it still runs when the other one reads
        names = sorted(one.name for one in await ctx.list(Config))
        await ctx.set_status(found, WebsiteStatus(seen=" ".join(names)))

    async def use(cluster: Cluster) -> None:
        await cluster.advance(5)  # the first events, of the lists, are late as well
        await cluster.create(site("first"))
        await cluster.advance(on_at)
        await cluster.processes[0].manager.start_recording(tmp_path / "run")
        await cluster.advance(0.7 - on_at)
        await cluster.create(site("second"))
        await cluster.advance(10)

    controller = Controller(Website, count, owns(Config), name="websites")
    record(None, controller, use=use, faults=[faults.delayed_watch(1.0, kinds=[Config])])
    status = [one.body for one in read_recording(tmp_path / "run") if isinstance(one, Request)]
    assert b'"seen":"first"' in status[0]
    assert_replays(tmp_path / "run", controller)


def test_a_changed_reconciler_is_named_at_its_first_different_request(tmp_path: Path) -> None:
    record(tmp_path / "run", deployment(), use=create_and_update)
    result = replay(tmp_path / "run", Controller(Website, changed, owns(Config), name="websites"))
    assert result.difference is not None
    assert result.difference.number == 1
    assert "test_replay_run.py" in (result.difference.place or "")
    assert "in changed" in (result.difference.place or "")
    assert "reconcile 1, websites for test/site-0" in str(result.difference)
    with pytest.raises(ReplayDiffers, match="PATCH /api/v1/namespaces/test/configmaps/site-0"):
        assert_replays(tmp_path / "run", Controller(Website, changed, owns(Config), name="websites"))


def test_a_difference_shows_the_request_line_by_line(tmp_path: Path) -> None:
    async def other(found: Website, ctx: Context) -> Any:
        return await deploy(replace(found, spec=WebsiteSpec(image="other")), ctx)

    record(tmp_path / "run", deployment(), use=create_and_update)
    difference = replay(tmp_path / "run", Controller(Website, other, owns(Config), name="websites")).difference
    assert difference is not None
    assert '-    "image": "nginx",' in difference.diff
    assert '+    "image": "other",' in difference.diff


def test_a_request_that_is_not_sent_any_more_is_a_difference(tmp_path: Path) -> None:
    async def lazy(found: Website, ctx: Context) -> None:
        del found, ctx

    record(tmp_path / "run", deployment(), use=create_and_update)
    difference = replay(tmp_path / "run", Controller(Website, lazy, owns(Config), name="websites")).difference
    assert difference is not None
    assert "end: done" in difference.present
    assert "now = " in difference.recorded


def test_until_only_and_stop_at_choose_reconciles(tmp_path: Path) -> None:
    record(tmp_path / "run", deployment(), use=create_and_update)
    assert replay(tmp_path / "run", deployment(), until=3).reconciles >= 3
    assert replay(tmp_path / "run", deployment(), until=2.0).seconds <= 2.0
    stops: list[bool] = []
    alone = replay(tmp_path / "run", deployment(), only="website/site-2", stop_at=2, stop=lambda: stops.append(True))
    assert alone.ok
    assert 2 <= alone.reconciles < 6
    assert len(stops) == 1
    replay(tmp_path / "run", deployment(), stop_at="websites/test/site-1", stop=lambda: stops.append(True))
    assert len(stops) > 2


def test_quitting_the_debugger_ends_a_replay_without_a_difference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(tmp_path / "run", deployment(), use=create_and_update)

    def quit_at_once() -> None:
        raise BdbQuit

    async def quit_inside(found: Website, ctx: Context) -> None:
        del found, ctx
        raise BdbQuit

    result = replay(tmp_path / "run", deployment(), stop_at=3, stop=quit_at_once)
    assert (result.ok, result.is_quit, result.reconciles) == (True, True, 3)
    inside = Controller(Website, quit_inside, owns(Config), name="websites")
    result = replay(tmp_path / "run", inside)
    assert (result.ok, result.is_quit, result.reconciles) == (True, True, 1)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert not replay(tmp_path / "run", deployment()).is_quit


async def nap(found: Website, ctx: Context) -> None:
    await asyncio.sleep(0)
    await ctx.set_status(found, WebsiteStatus(ready=1))


def test_letting_other_tasks_run_is_no_difference(tmp_path: Path) -> None:
    async def no_nap(found: Website, ctx: Context) -> None:
        await ctx.set_status(found, WebsiteStatus(ready=1))

    one, other = Controller(Website, nap, name="websites"), Controller(Website, no_nap, name="websites")
    record(tmp_path / "one", one, use=create_and_update)
    record(tmp_path / "other", other, use=create_and_update)
    assert_replays(tmp_path / "one", other)
    assert_replays(tmp_path / "other", one)


def test_a_recording_that_was_switched_on_later_begins_with_the_caches(tmp_path: Path) -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.create(site("early"))
        await cluster.advance(5)
        manager = cluster.processes[0].manager
        await manager.start_recording(tmp_path / "run")
        await create_and_update(cluster)
        await manager.stop_recording()

    record(None, deployment(), use=use)
    result = assert_replays(tmp_path / "run", deployment())
    assert result.is_partial
    assert result.reconciles > 5


async def careless(found: Website, ctx: Context) -> None:
    await ctx.set_status(
        found, WebsiteStatus(seen=f"{time.time()} {random.random()} {uuid.uuid4()} {datetime.now(UTC)}")
    )


def test_what_a_replay_cannot_repeat_is_named_with_its_line(tmp_path: Path) -> None:
    controller = Controller(Website, careless, name="websites")
    record(tmp_path / "run", controller, use=create_and_update)
    result = replay(tmp_path / "run", controller)
    assert result.difference is not None
    found = "\n".join(map(str, result.notes))
    for name in ("time.time()", "random.random()", "os.urandom()", "datetime.now()"):
        assert name in found
    assert all("in careless" in one.place for one in result.notes)
    with pytest.raises(ReplayDiffers, match="no replay can repeat"):
        assert_replays(tmp_path / "run", controller)


class Registry:
    """A client of the outside; it counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    async def digest(self, image: str) -> str:
        self.calls += 1
        await asyncio.sleep(0.2)
        if image == "caddy":
            raise TimeoutError("the registry does not answer")
        return f"{image}@{self.calls}"


def test_calls_of_a_recorded_client_are_answered_by_the_recording(tmp_path: Path) -> None:
    registry = Registry()

    def controller() -> Controller[Website]:
        wrapped, token = recorded(registry), recorded(uuid.uuid4().hex.__str__, name="token")

        async def reconcile(found: Website, ctx: Context) -> None:
            await ctx.set_status(found, WebsiteStatus(seen=f"{await wrapped.digest(found.spec.image)} {token()}"))

        return Controller(Website, reconcile, name="websites")

    record(tmp_path / "run", controller(), use=create_and_update, allow_errors=True)
    calls = registry.calls
    assert "TimeoutError: the registry does not answer" in {
        one.error for one in read_recording(tmp_path / "run") if isinstance(one, End)
    }
    assert_replays(tmp_path / "run", controller())
    assert registry.calls == calls > 3


def test_controllers_that_are_missing_are_named(tmp_path: Path) -> None:
    record(tmp_path / "run", deployment(), use=create_and_update)
    with pytest.raises(ConfigError, match="the controllers websites, which are not among those given"):
        replay(tmp_path / "run", deployment(name="others"))


async def untyped(found: Website, ctx: Context) -> None:
    """Applies objects without a class, whose kind the client has to discover first."""
    metadata = {"name": found.name, "namespace": found.namespace}
    await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": found.spec.image}})


def test_a_kind_that_the_process_knew_before_the_recording_is_known_to_the_replay(tmp_path: Path) -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.create(site("early"))
        await cluster.advance(5)
        await cluster.processes[0].manager.start_recording(tmp_path / "run")
        await create_and_update(cluster)

    controller = Controller(Website, untyped, name="websites")
    record(None, controller, use=use)
    assert assert_replays(tmp_path / "run", controller).requests >= 3


def test_lookups_of_kinds_that_several_reconciles_need_at_once_replay(tmp_path: Path) -> None:
    async def use(cluster: Cluster) -> None:
        await asyncio.gather(*[cluster.create(site(f"site-{number}")) for number in range(5)])
        await cluster.advance(5)

    controller = Controller(Website, untyped, name="websites", concurrency=5)
    record(tmp_path / "run", controller, use=use)
    result = assert_replays(tmp_path / "run", controller)
    assert result.requests == sum(isinstance(one, Request) for one in read_recording(tmp_path / "run")) >= 5
    assert not any(one.path == "/api/v1" for one in read_recording(tmp_path / "run") if isinstance(one, Request))


def test_a_kind_that_the_recorded_process_never_needed_is_named(tmp_path: Path) -> None:
    async def other(found: Website, ctx: Context) -> None:
        await ctx.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": found.name}})

    record(tmp_path / "run", Controller(Website, untyped, name="websites"), use=create_and_update)
    difference = replay(tmp_path / "run", Controller(Website, other, name="websites")).difference
    assert difference is not None
    assert difference.present == "discovers /apis/apps/v1, which the recorded process did not"
    assert "in other" in (difference.place or "")


def test_a_response_that_is_read_as_it_arrives_ends_a_replay_with_a_report(tmp_path: Path) -> None:
    async def watching(found: Website, ctx: Context) -> None:
        async with ctx.client.watch(Config, namespace=found.namespace) as watch:
            await ctx.apply(config(found, image=found.spec.image), owner=found)
            await anext(watch)

    controller = Controller(Website, watching, name="websites")
    record(tmp_path / "run", controller, use=create_and_update)
    with pytest.raises(ReplayDiffers, match="a response that is read as it arrives"):
        assert_replays(tmp_path / "run", controller)
