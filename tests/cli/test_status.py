"""`levelset status`, `why` and `trigger` with a running manager, and without one."""

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from levelset import Action, Context, Controller, GiveUp, ObjectMeta, Retry, Sharding, requeue
from levelset.cli import live_view
from levelset.cli.status import status, trigger, why
from levelset.kinds.core_v1 import ConfigMap, Namespace
from levelset.runtime.manager import Manager
from levelset.runtime.manager.process_records import (
    FOLDER_VARIABLE,
    ProcessRecord,
    records_folder,
    remove_record,
    write_record,
)
from levelset.runtime.recording import recorder
from tests.client.fixtures import Website, website
from tests.runtime.manager.recording import open_server, websites

GROUP = click.Group(commands=[status, trigger, why])
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "runtime"
    monkeypatch.setenv(FOLDER_VARIABLE, str(found))
    return found


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(GROUP, arguments, catch_exceptions=False)


async def invoke_async(*arguments: str) -> Result:
    """Runs the command in a thread, while the manager in this process continues."""
    return await asyncio.to_thread(invoke, *arguments)


async def reconcile(site: Website, _: Context) -> None:
    if site.name == "bad":
        raise GiveUp("cannot be served")


@asynccontextmanager
async def managing() -> AsyncGenerator[Manager, None]:
    async with open_server() as server, Manager(server, admin=True) as manager:
        manager.add(websites(reconcile))
        await manager.client.create(website("blog"))
        await manager.client.create(website("bad"))
        await manager.wait_idle()
        yield manager


async def test_status_shows_controllers_queues_watches_and_the_last_errors() -> None:
    async with managing():
        shown = (await invoke_async("status")).output
    lines = shown.splitlines()
    assert lines[0] == f"process {os.getpid()}, leader"
    assert lines[1].split() == ["CONTROLLER", "KIND", "READY", "RUNNING", "QUEUED", "DELAYED", "RECONCILES", "FAILING"]
    assert lines[2].split()[:6] == ["websites", "Website", "yes", "0", "0", "0"]
    assert any(line.startswith("example.dev/v1 Website") for line in lines)
    assert re.fullmatch(rf"fail {TIME} Website/default/bad: GiveUp: cannot be served \(await a change\)", lines[-1])


async def test_a_watch_of_a_kind_without_objects_has_had_no_events() -> None:
    async with open_server() as server, Manager(server, admin=True) as manager:
        manager.add(websites(reconcile))
        await manager.wait_idle()
        (found,) = json.loads((await invoke_async("status", "-o", "json")).output)
    assert [(one["objects"], one["events"]) for one in found["watches"]] == [(0, 0)]


async def test_status_as_json() -> None:
    async with managing():
        (found,) = json.loads((await invoke_async("status", "-o", "json")).output)
    assert found["pid"] == os.getpid()
    assert found["controllers"][0]["name"] == "websites"
    assert found["watches"][0]["is_ready"]


@pytest.mark.parametrize("kind", ["Website", "website", "websites"])
async def test_why_shows_the_reasons_and_the_result_of_each_reconcile(kind: str) -> None:
    async with managing():
        shown = (await invoke_async("why", f"{kind}/bad")).output
    assert re.search(rf"^fail {TIME} Website/default/bad by websites: gave_up in \d+\.\d ms$", shown, re.MULTILINE)
    assert "because it has changed" in shown or "because it was there at the start" in shown
    assert "GiveUp: cannot be served" in shown


async def test_why_shows_a_reconcile_of_a_recording_at_the_time_at_which_the_running_manager_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(_: Website, __: Context) -> None:
        await asyncio.sleep(0.5)

    def slow() -> str:
        time.sleep(1.5)  # what is found out before the first entry takes as long as it likes
        return "1"

    monkeypatch.setattr(recorder, "_installed_version", slow)
    path = tmp_path / "run"
    async with open_server() as server, Manager(server, admin=True, record=path) as manager:
        manager.add(websites(wait))
        await manager.client.create(website("blog"))
        await manager.wait_idle()
        running = json.loads((await invoke_async("why", "website/blog", "-o", "json")).output)
    recorded = json.loads((await invoke_async("why", "website/blog", "--from", str(path), "-o", "json")).output)
    live, later = (datetime.fromisoformat(one) for one in (running[0]["at"], recorded[0]["time"]))
    assert abs(later - live) < timedelta(seconds=0.25)


async def test_trigger_reconciles_the_object_once_more() -> None:
    async with managing() as manager:
        result = await invoke_async("trigger", "website", "blog")  # in two words, as for kubectl
        several = await invoke_async("trigger", "website/blog", "website/bad")
        await manager.wait_idle()
        reconciles = json.loads((await invoke_async("why", "website/blog", "-o", "json")).output)
    assert result.output == "triggered websites; see the result: levelset why website/blog\n"
    assert (several.exit_code, "one object at a time" in several.stderr) == (2, True)
    assert reconciles[-1]["reasons"] == ["requested by `levelset trigger`"]


async def test_trigger_finds_an_object_in_any_namespace_or_names_the_nearest() -> None:
    async with managing() as manager:
        await manager.client.create(Namespace(metadata=ObjectMeta(name="shop")))
        cart = Website(metadata=ObjectMeta(name="cart", namespace="shop"), spec=website("cart").spec)
        await manager.client.create(cart)
        await manager.wait_idle()
        found = await invoke_async("trigger", "website/cart")
        await manager.wait_idle()
        reconciles = json.loads((await invoke_async("why", "website/cart", "-o", "json")).output)
        missing = await invoke_async("trigger", "website/blgo")
        elsewhere = await invoke_async("trigger", "website/cart", "-n", "default")
    assert found.output == "triggered websites; see the result: levelset why website/cart\n"
    assert {one["object"] for one in reconciles} == {"Website/shop/cart"}
    assert reconciles[-1]["reasons"] == ["requested by `levelset trigger`"]
    cache = f"is in the cache of process {os.getpid()}"
    assert (missing.exit_code, missing.stderr) == (
        1,
        f"websites: no website blgo {cache}. Did you mean blog?\n",
    )
    assert (elsewhere.exit_code, elsewhere.stderr) == (
        1,
        f"websites: no website cart in namespace default {cache}\n",
    )


@asynccontextmanager
async def sharing() -> AsyncGenerator[tuple[Manager, Manager], None]:
    """Two members with eight objects; the commands reach only the first."""
    shards = Sharding(name="sites", retry=0.2)
    async with (
        open_server() as server,
        Manager(server, admin=True, shards=replace(shards, identity="pod-a_1")) as first,
        Manager(server, shards=replace(shards, identity="pod-b_2")) as second,
    ):
        for one in (first, second):
            one.add(websites(reconcile))
            await one.wait_elected()
        for number in range(8):
            await first.client.create(website(f"site-{number}"))
        await first.wait_idle()
        await second.wait_idle()
        yield first, second


async def test_trigger_reconciles_what_this_member_owns_and_names_the_owner_of_the_rest() -> None:
    async with sharing() as (first, second):
        assert first.shard_member is not None
        assert second.shard_member is not None
        owns = first.shard_member.view.owns
        mine, theirs = (
            next(one for one in range(8) if owns(f"websites/default/site-{one}") is is_mine)
            for is_mine in (True, False)
        )
        triggered = await invoke_async("trigger", f"website/site-{mine}")
        refused = await invoke_async("trigger", f"website/site-{theirs}", "-n", "default")
        shown = await invoke_async("trigger", f"website/site-{theirs}", "-o", "json")
        member = second.shard_member.name
    assert triggered.output.startswith("triggered websites; ")
    assert refused.exit_code == 1
    command = f"levelset trigger website/site-{theirs} -n default"
    assert refused.output == (
        f"websites reconciles it in another replica: member {member}, identity pod-b_2. Run `{command}` on the machine"
        f" of pod-b; in a cluster: kubectl exec pod-b -- {command}\n"
    )
    found = {"controller": "websites", "member": member, "identity": "pod-b_2"}
    assert json.loads(shown.stdout) == {"triggered": [], "elsewhere": [found]}


async def test_status_shows_the_members_their_objects_and_how_many_were_handed_over() -> None:
    async with sharing() as (first, _):
        assert first.shard_member is not None
        mine, gained, lost = first.shard_counts()["websites"]
        shown = (await invoke_async("status")).output.splitlines()
    start = next(number for number, line in enumerate(shown) if line.startswith("MEMBER"))
    assert shown[start].split() == ["MEMBER", "IDENTITY", "OBJECTS", "STATE"]
    rows = [line.split(maxsplit=3)[1:] for line in shown[start + 1 : start + 3]]
    assert ["pod-a_1", str(mine), "this process"] in rows
    assert [row[0] for row in rows] == ["pod-a_1", "pod-b_2"]
    assert 0 < mine < 8
    start = next(number for number, line in enumerate(shown) if line.split() == ["SHARED", "OWNED", "GAINED", "LOST"])
    assert shown[start + 1].split() == ["websites", str(mine), str(gained), str(lost)]


async def test_a_kind_without_a_controller_is_reported_with_the_known_kinds() -> None:
    async with managing():
        result = await invoke_async("why", "pod/x")
        mistyped = await invoke_async("why", "website5/blog")
        missing = await invoke_async("why", "website/blgo")
    assert result.exit_code == 1
    assert result.stderr == f"no controller in process {os.getpid()} reconciles pod (it reconciles Website)\n"
    assert mistyped.stderr == f"no controller in process {os.getpid()} reconciles website5. Did you mean website?\n"
    cache = f"is in the cache of process {os.getpid()}"
    assert (missing.exit_code, missing.stderr) == (1, f"websites: no website blgo {cache}. Did you mean blog?\n")


@pytest.mark.parametrize("thing", ["blog", "website/", "/blog", "a/b/c"])
def test_an_invalid_object_is_refused_with_an_example(thing: str) -> None:
    result = invoke("why", thing)
    assert (result.exit_code, result.stderr) == (2, f"{thing!r} is not KIND/NAME; write for example website/blog\n")


@pytest.mark.parametrize("words", [["status"], ["why", "website/blog"], ["trigger", "website/blog"]])
def test_without_a_manager_it_shows_how_to_start_one(words: list[str]) -> None:
    result = invoke(*words)
    assert result.exit_code == 1
    assert result.stderr.startswith("no manager is running on this machine; start one: levelset run ")


async def test_a_pid_that_is_not_a_manager_is_refused() -> None:
    async with managing():
        result = await invoke_async("status", "--pid", "1")
    assert (result.exit_code, result.stderr) == (2, f"process 1 is not a running manager; running: {os.getpid()}\n")


async def test_the_process_record_is_private_and_removed_at_the_end(folder: Path) -> None:
    async with managing():
        modes = await asyncio.to_thread(lambda: [one.stat().st_mode & 0o777 for one in (folder, *folder.iterdir())])
        assert modes == [0o700, 0o600]
    assert await asyncio.to_thread(os.listdir, folder) == []


def test_a_manager_that_does_not_respond_is_named() -> None:
    write_record(ProcessRecord(pid=os.getpid(), url="http://127.0.0.1:1", token="t"))
    result = invoke("status")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"the manager of process {os.getpid()} does not respond: ")


@asynccontextmanager
async def two_managers() -> AsyncGenerator[tuple[Manager, Manager], None]:
    """Two managers, of which only the second reconciles Websites."""
    async with (
        open_server() as server,
        Manager(server, admin=True) as first,
        Manager(server, admin=True) as second,
    ):
        first.add(Controller(ConfigMap, keep, name="maps", namespace="default"))
        second.add(websites(reconcile))
        await second.client.create(website("blog"))
        await first.wait_idle()
        await second.wait_idle()
        yield first, second


async def keep(_: ConfigMap, __: Context) -> None:
    return None


async def test_why_and_trigger_find_the_manager_that_reconciles_the_kind() -> None:
    async with two_managers() as (_, second):
        triggered = await invoke_async("trigger", "website/blog")
        await second.wait_idle()
        shown = await invoke_async("why", "website/blog")
        unknown = await invoke_async("why", "pod/blog")
    assert triggered.output == "triggered websites; see the result: levelset why website/blog\n"
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "because requested by `levelset trigger`" in shown.output
    assert unknown.exit_code == 1
    messages = sorted(unknown.stderr.splitlines())
    assert [one.partition(" (")[2] for one in messages] == ["it reconciles ConfigMap)", "it reconciles Website)"]


async def test_a_manager_that_does_not_respond_does_not_hide_the_one_that_does() -> None:
    async with managing():
        record = ProcessRecord(pid=os.getpid(), url="http://127.0.0.1:1", token="t")
        await asyncio.to_thread(write_record, record)
        shown = await invoke_async("why", "website/blog")
        failed = await invoke_async("status")
    assert shown.exit_code == 0
    assert "Website/default/blog by websites: done" in shown.stdout
    assert shown.stderr.startswith(f"the manager of process {os.getpid()} does not respond: ")
    assert failed.exit_code == 1


async def test_why_collapses_polls_and_says_since_when() -> None:
    calls: list[str] = []
    done = asyncio.Event()

    async def poll(site: Website, _: Context) -> Action:
        calls.append(site.name)
        if len(calls) == 7:
            done.set()
        return requeue(900 if done.is_set() else 0.001)

    async with open_server() as server, Manager(server, admin=True) as manager:
        manager.add(websites(poll))
        await manager.client.create(website("blog"))
        await done.wait()
        await manager.wait_idle()
        shown = (await invoke_async("why", "website/blog")).output
        each = json.loads((await invoke_async("why", "website/blog", "-o", "json")).output)
    heads = [line for line in shown.splitlines() if line.startswith("ok")]
    assert len(heads) == 2
    assert re.search(rf": 6 polls since {TIME}, the last requeued in ", heads[1])
    assert [one["is_poll"] for one in each] == [False, *[True] * 6]
    assert each[1]["at"] in heads[1]


async def test_a_failure_that_repeats_is_shown_once_with_its_number() -> None:
    calls: list[str] = []
    done = asyncio.Event()

    async def fail(site: Website, _: Context) -> None:
        calls.append(site.name)
        if len(calls) == 8:
            done.set()
        raise ValueError("no tea")

    async with open_server() as server, Manager(server, admin=True) as manager:
        manager.add(Controller(Website, fail, backoff=lambda _: 900.0 if done.is_set() else 0.001))
        await manager.client.create(website("blog"))
        await done.wait()
        await manager.wait_idle()
        shown = (await invoke_async("why", "website/blog")).output
        status = (await invoke_async("status")).output
        (found,) = json.loads((await invoke_async("status", "-o", "json")).output)
    heads = [line for line in shown.splitlines() if line.startswith("fail")]
    assert len(heads) == 2  # the first because it has changed, the others because the last one failed
    assert re.search(rf": 7 times since {TIME}, the last failed in ", heads[1])
    assert re.search(r"Website/default/blog: ValueError: no tea \(8 times; requeue after 15m\)$", status.rstrip())
    assert shown.rstrip().endswith("then: requeue after 15m")
    assert [one["count"] for one in found["controllers"][0]["errors"]] == [8]


async def test_a_retry_that_the_reconciler_chose_is_a_warning_and_no_failure() -> None:
    async def wait(_: Website, __: Context) -> None:
        raise Retry("not yet", seconds=900)

    async with open_server() as server, Manager(server, admin=True) as manager:
        manager.add(websites(wait))
        await manager.client.create(website("blog"))
        await manager.wait_idle()
        shown = (await invoke_async("why", "website/blog")).output
    assert re.match(rf"warn {TIME} Website/default/blog by websites: retry in ", shown)


def forget_managers() -> None:
    for path in records_folder().iterdir():
        remove_record(path)


def watch_twice(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object] = lambda: None) -> None:
    """Ends a live view at its second pause, as Ctrl-C does; in the first, something happens."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        then()

    monkeypatch.setattr(live_view, "time", SimpleNamespace(sleep=pause))


async def test_a_watched_status_is_printed_again_and_survives_the_end_of_the_manager(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with managing():
        watch_twice(monkeypatch, forget_managers)
        shown = await invoke_async("status", "--watch")
    assert shown.exit_code == 0
    first, second = shown.stdout.split("\n\n")[0], shown.stdout.splitlines()[-2]
    assert first.splitlines()[1] == f"process {os.getpid()}, leader"
    assert second.startswith("no manager is running on this machine")


async def test_a_watched_status_as_json_is_a_line_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with managing():
        watch_twice(monkeypatch)
        shown = await invoke_async("status", "--watch", "-o", "json")
    assert [json.loads(line)[0]["pid"] for line in shown.stdout.splitlines()] == [os.getpid()] * 2


async def test_a_watched_status_begins_with_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async with managing():
        watch_twice(monkeypatch)
        shown = await invoke_async("status", "--watch")
    lines = shown.stdout.splitlines()
    assert lines[2].startswith("fail ")
    assert lines[4].split()[:4] == ["CONTROLLER", "READY", "FAILING", "QUEUED"]  # what a narrow screen still shows
    assert lines[7] == "1 watch is synced"


def test_a_recording_cannot_be_watched() -> None:
    result = invoke("status", "--watch", "--from", "run.levelset")
    assert (result.exit_code, result.stderr) == (2, "a recording does not change: leave out --watch, or --from\n")
