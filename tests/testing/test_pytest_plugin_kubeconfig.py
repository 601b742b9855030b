"""The pytest plugin with a kubeconfig: tests run on a cluster over the network, in real time."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml as _yaml  # noqa: F401 - pytester unloads what its tests have loaded, and yaml cannot be loaded twice

from levelset.apiserver import ApiServer, ConnectionInfo, write_kubeconfig
from tests.testing.test_pytest_plugin import ALONE, HEAD

pytest_plugins = ["pytester"]

TESTS = (
    HEAD
    + """
from levelset import Context, Controller

async def reconcile(found: ConfigMap, ctx: Context) -> None:
    pass

async def test_settles(cluster: Cluster) -> None:
    assert cluster.namespace.startswith("levelset-")
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
    await cluster.create(new("one"))
    async with cluster.running(Controller(ConfigMap, reconcile, name="maps")):
        await cluster.settled()

async def test_needs_virtual_time(cluster: Cluster) -> None:
    await cluster.advance(60)
"""
)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A server in its own thread, since pytester blocks this one."""
    path, ready = tmp_path / "kubeconfig", threading.Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with ApiServer(tls=False) as server:
            await asyncio.to_thread(write_kubeconfig, path, ConnectionInfo(server.url, server.token, server.ca))
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="server")
    thread.start()
    assert ready.wait(120)
    yield path
    loop.call_soon_threadsafe(ended.set)
    thread.join(120)
    loop.close()


def test_tests_run_against_the_cluster_of_a_kubeconfig(pytester: pytest.Pytester, kubeconfig: Path) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess(*ALONE, "-rs", f"--levelset-kubeconfig={kubeconfig}")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*advance(60) needs virtual time, and time is real on a real cluster*"])


def test_the_kubeconfig_may_be_set_by_the_environment(
    pytester: pytest.Pytester, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(TESTS)
    monkeypatch.setenv("LEVELSET_TEST_KUBECONFIG", str(kubeconfig))
    pytester.runpytest_inprocess(*ALONE).assert_outcomes(passed=1, skipped=1)
