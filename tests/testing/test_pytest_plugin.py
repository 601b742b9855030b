"""The pytest plugin in nested pytest runs: alone, and beside other async plugins."""

from importlib.metadata import entry_points
from importlib.util import find_spec

import pytest

import levelset.testing.pytest_plugin
import levelset.testing.timeline  # noqa: F401 -- or each nested run would import it again

pytest_plugins = ["pytester"]

PLUGIN = "levelset.testing.pytest_plugin"
IS_INSTALLED = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
OURS = [] if IS_INSTALLED else ["-p", PLUGIN]
QUIET = [*OURS, "-p", "no:randomly", "-p", "no:timeout", "-p", "no:cacheprovider", "-W", "error"]

ALONE = [*QUIET, "-p", "no:asyncio", "-p", "no:anyio"]
AUTO = [*QUIET, "-p", "no:anyio", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
STRICT = [*QUIET, "-p", "no:anyio", "-o", "asyncio_mode=strict", "-o", "asyncio_default_fixture_loop_scope=function"]
ANYIO = [*QUIET, "-p", "no:asyncio", "-o", "anyio_mode=auto"]

NEIGHBOURS = {"alone": ALONE, "asyncio auto": AUTO, "asyncio strict": STRICT}
if find_spec("anyio"):
    NEIGHBOURS["anyio"] = ANYIO

beside = pytest.mark.parametrize("options", NEIGHBOURS.values(), ids=NEIGHBOURS)

HEAD = """
import asyncio
import pytest
from levelset import Object, ObjectMeta, Ref
from levelset.testing import Cluster, VirtualLoop


class ConfigMap(Object, api="v1"):
    data: dict[str, str] = {}


def new(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name))
"""


@pytest.fixture(autouse=True)
def no_real_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEVELSET_TEST_KUBECONFIG", raising=False)


@beside
def test_an_async_test_needs_only_the_fixture(pytester: pytest.Pytester, options: list[str]) -> None:
    pytester.makepyfile(
        HEAD
        + """
async def test_time_jumps(cluster: Cluster) -> None:
    made = await cluster.create(new("one"))
    assert made.namespace == cluster.namespace
    await cluster.advance(3600)
    assert asyncio.get_running_loop().time() == 3600.0

async def test_every_test_has_its_own_cluster(cluster: Cluster) -> None:
    assert await cluster.find(Ref(ConfigMap, "one")) is None
"""
    )
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=2)


@beside
def test_async_fixtures_of_a_test_run_on_its_loop(pytester: pytest.Pytester, options: list[str]) -> None:
    pytester.makepyfile(
        HEAD
        + """
gone = []

@pytest.fixture
async def made(cluster: Cluster):
    yield await cluster.create(new("one"))
    await cluster.delete(Ref(ConfigMap, "one"))
    gone.append(asyncio.get_running_loop())

@pytest.fixture
async def loop():
    return asyncio.get_running_loop()

@pytest.mark.parametrize("number", [1, 2])
async def test_through_a_fixture(made: ConfigMap, loop: VirtualLoop, number: int) -> None:
    assert isinstance(loop, VirtualLoop) and asyncio.get_running_loop() is loop
    assert loop not in gone and len(gone) == number - 1

class TestOfAClass:
    @pytest.fixture
    async def mine(self, cluster: Cluster):
        self.made = await cluster.create(new("one"))

    async def test_methods_are_bound_to_their_object(self, cluster: Cluster, mine: None) -> None:
        assert (await cluster.get(self.made.ref)).name == "one"
"""
    )
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=3)


@beside
def test_clusters_are_shared_by_a_module_or_by_the_session(pytester: pytest.Pytester, options: list[str]) -> None:
    tests = (
        HEAD
        + """
@pytest.fixture(scope="module")
async def shared(module_cluster: Cluster):
    yield await module_cluster.create(new("shared"))
    await module_cluster.delete(Ref(ConfigMap, "shared"))

async def test_first(module_cluster: Cluster, shared: ConfigMap) -> None:
    await module_cluster.advance(10)

async def test_second(module_cluster: Cluster, cluster: Cluster, shared: ConfigMap) -> None:
    assert (await module_cluster.get(shared.ref)).name == "shared"
    assert await cluster.find(Ref(ConfigMap, "shared")) is None
    assert asyncio.get_running_loop().time() == 10.0

async def test_of_the_session(session_cluster: Cluster) -> None:
    count = len(await session_cluster.list(ConfigMap, namespace=session_cluster.namespace))
    await session_cluster.create(new(f"number-{count}"))
    assert count == int(__name__[-1])
"""
    )
    pytester.makepyfile(test_0=tests, test_1=tests)
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=6)


@beside
def test_other_async_tests_are_left_to_other_plugins(pytester: pytest.Pytester, options: list[str]) -> None:
    pytester.makepyfile(
        HEAD
        + """
async def test_ours(cluster: Cluster) -> None:
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)

@pytest.mark.asyncio
@pytest.mark.anyio
async def test_theirs() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
"""
    )
    marks = ["-o", "markers=asyncio\nanyio"]
    result = pytester.runpytest_inprocess(*options, *marks)
    if options is ALONE:
        result.assert_outcomes(passed=1, failed=1)
    else:
        result.assert_outcomes(passed=2)


@beside
def test_marks_of_other_plugins_are_ignored(pytester: pytest.Pytester, options: list[str]) -> None:
    pytester.makepyfile(
        HEAD
        + """
pytestmark = pytest.mark.asyncio

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.asyncio
@pytest.mark.anyio
async def test_marked(cluster: Cluster) -> None:
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
"""
    )
    pytester.runpytest_inprocess(*options, "-o", "markers=asyncio\nanyio").assert_outcomes(passed=1)


def test_a_property_test_runs_all_its_examples_on_one_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
from hypothesis import HealthCheck, given, settings, strategies as st

@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, database=None)
@given(number=st.integers(0, 9))
async def test_with_examples(cluster: Cluster, number: int) -> None:
    await cluster.apply(new(f"map-{number}"))
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
"""
    )
    pytester.runpytest_inprocess(*AUTO).assert_outcomes(passed=1)


@beside
def test_the_loop_fixture_alone_gives_virtual_time(pytester: pytest.Pytester, options: list[str]) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.usefixtures("levelset_loop")
async def test_alone() -> None:
    await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() == 3600.0
"""
    )
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=1)


def test_a_user_fixture_named_cluster_is_not_affected(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.fixture
def cluster() -> str:
    return "of wires"

async def test_theirs(cluster: str) -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
    assert cluster == "of bells"
"""
    )
    result = pytester.runpytest_inprocess(*AUTO)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*'of wires' == 'of bells'*"])


def test_a_mark_passes_options_to_the_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
from datetime import UTC, datetime

@pytest.mark.cluster(seed=5, now=datetime(2040, 5, 1, tzinfo=UTC), namespace="shop")
async def test_options(cluster: Cluster) -> None:
    assert (cluster.namespace, cluster.now().year) == ("shop", 2040)

@pytest.mark.real_time
async def test_in_real_time(cluster: Cluster) -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
    await cluster.advance(5)
"""
    )
    result = pytester.runpytest_inprocess(*ALONE, "--strict-markers")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*RealTime: advance(5) needs virtual time, and time is real here*"])


def test_a_test_that_would_hang_fails_at_once_with_its_location(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
async def test_waits(cluster: Cluster) -> None:
    await forever()

async def forever() -> None:
    await asyncio.Event().wait()

async def test_goes_on(cluster: Cluster) -> None:
    pass
"""
    )
    result = pytester.runpytest_inprocess(*ALONE)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*Stuck: every task waits for something*", "*waits in forever (test_*.py:*)"])


def test_a_test_that_hangs_while_controllers_run_fails_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
from levelset import Context, Controller, requeue

async def reconcile(found: ConfigMap, ctx: Context):
    return requeue(minutes=30)

async def test_waits(cluster: Cluster) -> None:
    await cluster.create(new("one"))
    async with cluster.running(Controller(ConfigMap, reconcile, name="maps")):
        await cluster.advance(3600)
        await asyncio.Event().wait()
"""
    )
    result = pytester.runpytest_inprocess(*ALONE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*Stuck: 1.04167 days of virtual time have passed*", "*waits in test_waits (test_*.py:*)"]
    )


def test_a_failed_test_shows_the_reconciles_of_its_controllers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
from levelset import Context, Controller

async def reconcile(found: ConfigMap, ctx: Context) -> None:
    raise ValueError("this map is upside down")

async def test_fails(cluster: Cluster) -> None:
    await cluster.create(new("one"))
    async with cluster.running(Controller(ConfigMap, reconcile, name="maps")):
        await cluster.settled()
        assert 1 == 2
"""
    )
    result = pytester.runpytest_inprocess(*ALONE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*reconciles of `cluster`*", "*ConfigMap/test/one: maps reconciled (*): failed, this map is upside*"]
    )
