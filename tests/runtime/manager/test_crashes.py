"""A crash of a task, timer or callback is counted and survived, or ends the manager with its cause; never silent."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from levelset import Context, Controller, Manager, ObjectMeta, Ref, requeue
from levelset.aio import Backoff, Crashed
from levelset.errors import NotReady
from levelset.kinds.core_v1 import ConfigMap, Secret
from levelset.runtime.cache import Cluster
from levelset.runtime.controller import Action, source, watches, worker
from levelset.runtime.manager import LeaderElection
from levelset.runtime.manager.leader_election import LeaderElector
from levelset.runtime.manager.manager import ManagedCluster
from levelset.runtime.queue import Scheduler, WorkQueue
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import open_client
from tests.runtime.controller.test_crashes import fail_once
from tests.runtime.manager.test_run import read_until, started, write

NewLoop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def run_on(new_loop: NewLoop, main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main)


def crashes(manager: Manager, name: str = "configmaps") -> int:
    """The value of the metric."""
    wanted = f'levelset_controller_crashes_total{{controller="{name}"}} '
    lines = [line for line in manager.metrics.registry.render().splitlines() if line.startswith(wanted)]
    return int(lines[0].removeprefix(wanted))


def settings(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


def broken_backoff(_: int) -> float:
    raise ZeroDivisionError("injected")


def broken_mapper(_: Secret) -> list[Ref[ConfigMap]]:
    raise ZeroDivisionError("injected")


async def broken_source() -> Any:
    raise ZeroDivisionError("injected")
    yield None


INJECTIONS: dict[str, Callable[[pytest.MonkeyPatch], dict[str, Any]]] = {
    "worker": lambda patch: {"backoff": broken_backoff, "fails": 1},
    "queue": lambda patch: {"left": fail_once(patch, WorkQueue, "take")},
    "timer": lambda patch: {"left": fail_once(patch, Scheduler, "_wake", lambda one, _: one.delayed and not one.ready)},
    "mapper": lambda patch: {"relations": [watches(Secret, to=broken_mapper)]},
    "source": lambda patch: {"relations": [source(broken_source)]},
}


@LOOPS
@pytest.mark.parametrize("where", INJECTIONS)
def test_a_controller_goes_on_after_a_crash_and_counts_it(
    new_loop: NewLoop, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "_CRASH_BACKOFF", Backoff(first=0.01, cap=0.1))
    injected = INJECTIONS[where](monkeypatch)
    fails, relations, left = injected.pop("fails", 0), injected.pop("relations", []), injected.pop("left", [0])
    done, reconciled = asyncio.Event(), list[str]()

    async def reconcile(one: ConfigMap, _: Context) -> Action | None:
        reconciled.append(one.name)
        if len(reconciled) <= fails:
            raise RuntimeError("not yet")
        if reconciled.count("a") == 1:
            left[0] = 1
            return requeue(0.01)
        if {"a", "b"} <= set(reconciled):
            done.set()
        return None

    async def main() -> None:
        async with open_client(crd=False) as client, Manager(client, health=None) as manager:
            manager.add(Controller(ConfigMap, reconcile, *relations, namespace="default", **injected))
            await client.create(settings("a"))
            await client.create(Secret(metadata=ObjectMeta(name="s", namespace="default")))
            await client.create(settings("b"))
            async with asyncio.timeout(120):
                await done.wait()
                while not crashes(manager):  # noqa: ASYNC110 -- the metric is what is tested
                    await asyncio.sleep(0.001)

    run_on(new_loop, main())
    assert any(one.levelno >= logging.WARNING and "injected" in one.getMessage() for one in caplog.records)


class BrokenCluster(Cluster):
    async def __aenter__(self) -> Any:
        raise OSError("injected")


@virtual
async def test_a_cluster_that_cannot_be_opened_ends_the_start_with_its_cause() -> None:
    async with open_client(crd=False) as client:
        with pytest.raises(NotReady, match="could not be opened") as raised:
            async with asyncio.timeout(60), Manager(BrokenCluster(client), health=None):
                pass
        assert str(raised.value.__cause__) == "injected"


class SlowCluster(Cluster):
    async def __aenter__(self) -> Any:
        await asyncio.Event().wait()


@virtual
async def test_a_cluster_whose_opening_was_cancelled_is_not_taken_for_open() -> None:
    async with open_client(crd=False) as client:
        managed = ManagedCluster("", SlowCluster(client), ended=lambda *_: None)
        opening, waiting = (asyncio.ensure_future(one) for one in (managed._keep_open(), managed.wait_open()))
        await asyncio.sleep(1)
        opening.cancel()
        await asyncio.wait([waiting], timeout=10)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([opening, waiting])


FATAL = {
    "acquiring the lease": (LeaderElector, "acquire"),
    "renewing the lease": (LeaderElector, "renew"),
    "starting to lead": (Manager, "_start_leading"),
    "starting up": (Manager, "_start_up"),
}


@pytest.mark.parametrize("where", FATAL)
@virtual
async def test_a_crash_that_cannot_be_survived_ends_the_manager_with_its_cause(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> None:
        raise OSError("injected")

    async def run() -> None:
        async with Manager(client, health=None, leader=LeaderElection(name="one")) as manager:
            await manager.wait_stopped()

    monkeypatch.setattr(*FATAL[where], broken)
    async with open_client(crd=False) as client:
        with pytest.raises(Crashed) as raised:
            async with asyncio.timeout(60):
                await run()
    assert [str(one) for one in raised.value.exceptions] == ["injected"]
    assert "a runnable of the manager failed" in caplog.text


@LOOPS
def test_a_task_that_exits_the_process_is_obeyed(new_loop: NewLoop) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        async with open_client(crd=False) as client, Manager(client, health=None) as manager:
            manager.add_task("leave", leave)
            await manager.wait_stopped()

    with pytest.raises(SystemExit) as raised:
        run_on(new_loop, main())
    assert raised.value.code == 3


UNHANDLED = """
        def fall() -> None:
            raise ZeroDivisionError("in a callback")
        async def vanish() -> None:
            raise ZeroDivisionError("in a task")
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, fall)
        loop.create_task(vanish())
        await asyncio.sleep(0.1)
        import gc
        gc.collect()
        await asyncio.sleep(0.05)
        for line in manager.metrics.registry.render().splitlines():
            if line.startswith("levelset_unhandled_errors_total"):
                print(line, flush=True)
"""


def test_errors_that_reach_the_event_loop_are_logged_and_counted_and_the_program_goes_on(tmp_path: Path) -> None:
    with started(write(tmp_path, after=UNHANDLED.strip()), "--local") as process:
        output = read_until(process, 'total{source="callback"}', 'total{source="task"}')
        assert 'levelset_unhandled_errors_total{source="callback"} 1' in output
        assert 'levelset_unhandled_errors_total{source="task"} 1' in output
        process.terminate()
        output = process.communicate()[1]
    assert process.returncode == 0
    assert "ZeroDivisionError: in a callback" in output
    assert "ZeroDivisionError: in a task" in output
