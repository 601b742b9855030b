"""Call sites: the lines of a reconciler from which requests and awaits come, found in runs and in the source."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from levelset.testing import run
from levelset.testing.explore.records.call_sites import await_site, call_site, shown_path, static_call_sites

HERE = __file__


async def helper() -> None:
    await asyncio.sleep(0)


async def reconcile() -> None:
    await helper()
    if HERE == "never":
        await asyncio.sleep(
            1,
        )

    async def inner() -> None:
        await asyncio.sleep(2)

    del inner


async def unrelated() -> None:
    await asyncio.sleep(3)


def line_of(text: str) -> int:
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def test_the_awaits_of_a_function_and_of_those_it_calls_are_read_from_the_source() -> None:
    found = static_call_sites([reconcile])
    assert [(one.path, one.line, one.function) for one in found] == [
        (HERE, line_of("await asyncio.sleep(0)"), "helper"),
        (HERE, line_of("await helper()"), "reconcile"),
        (HERE, line_of("await asyncio.sleep("), "reconcile"),
    ]
    assert found[2].has(f"{HERE}:{found[2].line + 1}")
    assert not found[1].has(f"{HERE}:{found[2].line}")


def test_partial_functions_methods_and_callable_objects_have_call_sites() -> None:
    class Reconciler:
        async def __call__(self) -> None:
            await helper()

        async def method(self) -> None:
            await helper()

    names = [static_call_sites([one])[-1].function for one in (partial(reconcile), Reconciler().method, Reconciler())]
    assert names == ["reconcile", "method", "__call__"]
    assert static_call_sites([len, print]) == []


def test_the_call_site_of_a_call_is_the_innermost_line_of_the_user() -> None:
    async def calling(call: Callable[[], str]) -> str:
        return call()

    line = line_of("return call()")
    assert run(calling(call_site)) == f"{HERE}:{line}"


def test_the_call_site_of_a_suspended_coroutine_is_its_innermost_await() -> None:
    waiting: Any = reconcile()
    waiting.send(None)
    assert await_site(waiting) == f"{HERE}:{line_of('await asyncio.sleep(0)')}"
    waiting.close()


def test_a_path_is_shown_relative_to_the_current_directory() -> None:
    assert shown_path(str(Path.cwd() / "a" / "b.py")) == "a/b.py"
    outside = str(Path.cwd().parent / "b.py")
    assert shown_path(outside) == outside
