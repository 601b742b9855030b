import asyncio
import sys
from types import ModuleType

import pytest

from levelset.aio.event_loop import loop_factory, run


class Loop(asyncio.SelectorEventLoop):
    """A loop that can be told from asyncio's own."""


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


def test_without_one_it_is_the_loop_of_asyncio(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)  # which makes its import fail
    assert loop_factory() is None
    assert type(run(running_loop())).__module__.startswith("asyncio.")


def test_a_module_that_makes_no_loops_is_no_hindrance(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", ModuleType("uvloop"))
    assert loop_factory() is None


def test_what_was_run_gives_its_result_and_its_error():
    async def fail() -> None:
        raise ValueError("out of luck")

    assert run(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ValueError, match="out of luck"):
        run(fail())
