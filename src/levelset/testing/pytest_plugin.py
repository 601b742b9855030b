"""The pytest plugin: the fixtures `cluster`, `module_cluster` and `session_cluster`, and async tests that use them.

A test that uses one of them, directly or through another fixture, runs in virtual time on the loop of its cluster, as
do its async fixtures. No other plugin is needed, and other plugins for async tests (pytest-asyncio in either mode,
anyio) skip these tests. With a kubeconfig, given as `--levelset-kubeconfig` or LEVELSET_TEST_KUBECONFIG, the same tests
run against a real cluster, in real time.
"""

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from levelset.testing.virtual_time import RealTime, VirtualLoop

__all__ = [
    "cluster",
    "is_async",
    "levelset_loop",
    "levelset_module_loop",
    "levelset_session_loop",
    "module_cluster",
    "plain_fixture",
    "pytest_addoption",
    "pytest_configure",
    "pytest_fixture_setup",
    "pytest_pycollect_makeitem",
    "pytest_runtest_makereport",
    "session_cluster",
    "wrap_async_test",
]

_OTHERS: Final = frozenset({"anyio", "asyncio", "trio"})
"""Marks by which other plugins claim an async test."""


def is_async(func: Any) -> bool:
    """Whether a fixture is a coroutine function or an async generator."""
    return inspect.iscoroutinefunction(func) or inspect.isasyncgenfunction(func)


def wrap_async_test(item: pytest.Function, find_runner: Callable[[], asyncio.Runner], *, skips: bool) -> None:
    """Wraps an async test into a plain function that runs it on a runner; other tests are unchanged.

    With `skips`, a test that needs virtual time is skipped.
    """
    test: Any = item.obj
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", None)
    if inspect.iscoroutinefunction(test):
        item.obj = _plain_test(test, find_runner, skips=skips)
    elif inspect.iscoroutinefunction(inner):
        test.hypothesis.inner_test = _plain_test(inner, find_runner, skips=skips)
    else:
        return
    _hide_marks(item)


def plain_fixture(func: Any, runner: asyncio.Runner, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A plain fixture function that runs an async one on the runner's loop."""
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
    """The next value; the default, if given, at the end."""
    try:
        return await values.__anext__()
    except StopAsyncIteration:
        if default is None:
            raise ValueError("this async fixture yields nothing; it has to yield once") from None
        return default


def _plain_test(test: Any, find_runner: Callable[[], asyncio.Runner], *, skips: bool) -> Callable[..., None]:
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
    """Hides the marks of other async plugins from them, on the test and on its module and class."""
    found = item.iter_markers_with_node

    def without(name: str | None = None) -> Iterator[tuple[Any, pytest.Mark]]:
        return ((node, mark) for node, mark in found(name) if mark.name not in _OTHERS)

    vars(item)["iter_markers_with_node"] = without


def _rebound(func: Any, request: pytest.FixtureRequest) -> Any:
    """A fixture method bound to the instance of the test; a function is returned unchanged."""
    instance = request.instance
    if inspect.ismethod(func) and isinstance(instance, type(func.__self__)):
        return func.__func__.__get__(instance)
    return func


if TYPE_CHECKING:
    from levelset.testing.cluster import Cluster


_LOOPS: Final = ("levelset_session_loop", "levelset_module_loop", "levelset_loop")
"""The fixtures that own a loop, the widest scope first: a test runs on the widest that it uses."""
_LONGEST: Final = 86400.0
"""The virtual seconds after which a test counts as hanging, without those it lets pass itself."""
_MARKERS: Final = (
    "cluster(seed, now, namespace): options of open_cluster for the fixture `cluster` of this test",
    "real_time: run this test in real time",
)

_CLUSTERS: Final = frozenset({"cluster", "module_cluster", "session_cluster"})

_RUNNERS: Final = pytest.StashKey[dict[str, asyncio.Runner]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--levelset-kubeconfig`."""
    group = parser.getgroup("levelset")
    help_ = "run tests that use a cluster against the one of this kubeconfig (or set LEVELSET_TEST_KUBECONFIG)"
    group.addoption("--levelset-kubeconfig", metavar="FILE", default=None, help=help_)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[_RUNNERS] = {}


@pytest.fixture(scope="session")
def levelset_session_loop(pytestconfig: pytest.Config) -> Iterator[asyncio.Runner]:
    """The loop of all tests that use `session_cluster`."""
    yield from _hold(pytestconfig, "levelset_session_loop")


@pytest.fixture(scope="module")
def levelset_module_loop(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """The loop of the tests of a module that use `module_cluster`."""
    yield from _hold(request.config, "levelset_module_loop")


@pytest.fixture
def levelset_loop(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """The loop of this test, in virtual time unless it is marked `real_time`."""
    wider = _widest(request.fixturenames)
    if wider is not None and wider != "levelset_loop":
        yield request.getfixturevalue(wider)
        return
    yield from _hold(request.config, "levelset_loop", is_real=_mark(request, "real_time") is not None)


@pytest.fixture
def cluster(levelset_loop: asyncio.Runner, request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """An empty cluster for this test alone; in virtual time, unless it is a real one."""
    marker = _mark(request, "cluster")
    yield from _open(levelset_loop, request.config, **({} if marker is None else marker.kwargs))


@pytest.fixture(scope="module")
def module_cluster(levelset_module_loop: asyncio.Runner, pytestconfig: pytest.Config) -> "Iterator[Cluster]":
    """A cluster that all tests of a module share, including the objects they leave."""
    yield from _open(levelset_module_loop, pytestconfig)


@pytest.fixture(scope="session")
def session_cluster(levelset_session_loop: asyncio.Runner, pytestconfig: pytest.Config) -> "Iterator[Cluster]":
    """A cluster that all tests of the session share, including the objects they leave."""
    yield from _open(levelset_session_loop, pytestconfig)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Wraps async tests that use a levelset loop, before other async plugins claim them."""
    made: Any = yield
    for item in _each(made):
        name = _widest(item.fixturenames) if isinstance(item, pytest.Function) else None
        if name is not None:
            find = functools.partial(item.config.stash[_RUNNERS].__getitem__, name)
            wrap_async_test(item, find, skips=_kubeconfig(item.config) is not None)
    return made


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Runs the async fixtures of such a test on the loop of the test."""
    func: Any = fixturedef.func
    name = _loop_for(fixturedef, request) if is_async(func) else None
    if name is None:
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixturedef, "func", plain_fixture(func, request.getfixturevalue(name), request))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the reconciles of the controllers to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed and isinstance(item, pytest.Function) and _widest(item.fixturenames):
        # Imported late: pytest loads this plugin in projects that never use it.
        from levelset.testing.timeline import describe_reconciles  # noqa: PLC0415

        for name in sorted(_CLUSTERS & item.funcargs.keys()):
            opened: Any = item.funcargs[name]
            if text := describe_reconciles(opened.environment):
                report.sections.append((f"reconciles of `{name}`", text))
    return report


def _hold(config: pytest.Config, name: str, *, is_real: bool = False) -> Iterator[asyncio.Runner]:
    """A runner for a loop, registered by the name of its fixture while it is open."""
    runners = config.stash[_RUNNERS]
    factory = None if is_real or _kubeconfig(config) else functools.partial(VirtualLoop, limit=_LONGEST)
    with asyncio.Runner(loop_factory=factory or asyncio.new_event_loop) as runner:
        runners[name] = runner
        try:
            yield runner
        finally:
            del runners[name]


def _open(runner: asyncio.Runner, config: pytest.Config, **options: Any) -> "Iterator[Cluster]":
    # Imported late: the server is slow to import, and pytest loads this plugin in projects that never use it.
    from levelset.apiserver.package_data import load_package_data  # noqa: PLC0415
    from levelset.testing.cluster import open_cluster  # noqa: PLC0415

    load_package_data()  # reads files, so before the loop runs
    kubeconfig = _kubeconfig(config)
    if kubeconfig is not None:
        options = {"kubeconfig": kubeconfig}
    stack = AsyncExitStack()
    cluster_ = runner.run(stack.enter_async_context(open_cluster(**options)))
    try:
        yield cluster_
    finally:
        runner.run(stack.aclose())


def _each(made: Any) -> Iterable[Any]:
    """The collected items of a function, one or several."""
    return (made,) if made is None or isinstance(made, pytest.Item | pytest.Collector) else made


def _mark(request: pytest.FixtureRequest, name: str) -> pytest.Mark | None:
    node: pytest.Item = cast("Any", request).node
    return node.get_closest_marker(name)


def _kubeconfig(config: pytest.Config) -> str | None:
    given: str | None = config.getoption("--levelset-kubeconfig")
    return given or os.environ.get("LEVELSET_TEST_KUBECONFIG") or None


def _widest(fixtures: Container[str]) -> str | None:
    """The widest levelset loop among some fixtures; None if there is none."""
    return next((name for name in _LOOPS if name in fixtures), None)


def _loop_for(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> str | None:
    """The loop of an async fixture: that of its test, or for a shared fixture the one it requires itself."""
    if fixturedef.scope == "function":
        return _widest(request.fixturenames)
    session: Any = request.session
    known: Mapping[str, Sequence[pytest.FixtureDef[Any]]] = session._fixturemanager._arg2fixturedefs
    needed, new = dict.fromkeys(fixturedef.argnames), [*fixturedef.argnames]
    while new:
        others = [other for one in known.get(new.pop(), ()) for other in one.argnames if other not in needed]
        needed.update(dict.fromkeys(others))
        new += others
    return _widest(needed)
