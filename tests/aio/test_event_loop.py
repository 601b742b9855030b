import asyncio
import sys
from types import ModuleType

import pytest

from levelset.aio.event_loop import loop_factory, run


class Loop(asyncio.SelectorEventLoop):
    """A loop that is distinguishable from asyncio's own."""


@pytest.fixture(autouse=True)
def no_task_is_left():
    """Overrides the check of this folder, which would start a loop in virtual time."""


@pytest.fixture
def faster(monkeypatch):
    module = ModuleType("faster_loop_of_a_test")
    module.new_event_loop = Loop
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_a_faster_loop_is_used_if_it_is_installed(faster):
    factory = loop_factory(faster)
    with asyncio.Runner(loop_factory=factory) as runner:
        assert type(runner.run(running_loop())) is Loop


def test_the_installed_loop_is_found_by_its_name(monkeypatch, faster):
    monkeypatch.setitem(sys.modules, "uvloop", sys.modules[faster])
    assert type(run(running_loop())) is Loop


def test_without_uvloop_the_asyncio_loop_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)  # which makes its import fail
    monkeypatch.setattr(asyncio.events, "_event_loop_policy", asyncio.DefaultEventLoopPolicy())
    assert loop_factory() is None
    assert type(run(running_loop())).__module__.startswith("asyncio.")


def test_a_module_without_new_event_loop_is_ignored(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", ModuleType("uvloop"))
    assert loop_factory() is None


def test_run_returns_the_result_and_raises_the_error():
    async def fail() -> None:
        raise ValueError("out of luck")

    assert run(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ValueError, match="out of luck"):
        run(fail())
