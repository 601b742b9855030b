"""Async tests and fixtures of pytest, made into ordinary ones that run on a loop of ours."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from levelset.testing.refusing import RealTime

__all__ = ["is_async", "make_ordinary", "plain_fixture"]

_OTHERS: Final = frozenset({"anyio", "asyncio", "trio"})
"""Marks by which others take a test for theirs."""


def is_async(func: Any) -> bool:
    """Whether a fixture is a coroutine function or an async generator."""
    return inspect.iscoroutinefunction(func) or inspect.isasyncgenfunction(func)


def make_ordinary(item: pytest.Function, find_runner: Callable[[], asyncio.Runner], *, skips: bool) -> None:
    """Has an async test run where the runner says; other tests stay as they are.

    With `skips`, a test that needs virtual time is skipped.
    """
    test: Any = item.obj
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", None)
    if inspect.iscoroutinefunction(test):
        item.obj = _ordinary(test, find_runner, skips=skips)
    elif inspect.iscoroutinefunction(inner):
        test.hypothesis.inner_test = _ordinary(inner, find_runner, skips=skips)
    else:
        return
    _hide_marks(item)


def plain_fixture(func: Any, runner: asyncio.Runner, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """An ordinary fixture function that does what an async one does, on the runner's loop."""
    bound = _rebound(func, request)
    if inspect.iscoroutinefunction(func):

        def give(**kwargs: Any) -> Any:
            return runner.run(bound(**kwargs))

        return give

    def draw(**kwargs: Any) -> Iterator[Any]:
        values = bound(**kwargs)
        yield runner.run(_next(values))
        if runner.run(_next(values, default=_END)) is not _END:
            raise ValueError(f"{func.__qualname__} yields twice; a fixture yields once")

    return draw


_END: Final = object()


async def _next(values: Any, *, default: Any = None) -> Any:
    """The next value; the default at the end, if there is one."""
    try:
        return await values.__anext__()
    except StopAsyncIteration:
        if default is None:
            raise ValueError("this async fixture yields nothing; it has to yield once") from None
        return default


def _ordinary(test: Any, find_runner: Callable[[], asyncio.Runner], *, skips: bool) -> Callable[..., None]:
    @functools.wraps(test)
    def running(*args: Any, **kwargs: Any) -> None:
        try:
            find_runner().run(test(*args, **kwargs))
        except RealTime as error:
            if skips:
                pytest.skip(str(error))
            raise

    return running


def _hide_marks(item: pytest.Function) -> None:
    """Keeps those who look for their mark on an async test from finding it here, wherever it stands."""
    found = item.iter_markers_with_node

    def without(name: str | None = None) -> Iterator[tuple[Any, pytest.Mark]]:
        return ((node, mark) for node, mark in found(name) if mark.name not in _OTHERS)

    vars(item)["iter_markers_with_node"] = without


def _rebound(func: Any, request: pytest.FixtureRequest) -> Any:
    """The method of the very object that the test is a method of; a function stays what it is."""
    instance = request.instance
    if inspect.ismethod(func) and isinstance(instance, type(func.__self__)):
        return func.__func__.__get__(instance)
    return func
