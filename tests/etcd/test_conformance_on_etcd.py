"""Every scenario of the conformance kit, against servers whose storage is in etcd."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from levelset.apiserver.server import ApiServer
from levelset.storage import EtcdStorage
from tests.conformance import expected, serving
from tests.conformance.test_conformance import AT_A_TIME, HELD, Rehearsal
from tests.etcd.etcd_cluster import EtcdCluster

pytestmark = pytest.mark.timeout(300)  # the first test waits for all scenarios, which run side by side


@contextmanager
def serve(endpoints: str, prefix: str, *, rbac: bool) -> Iterator[str]:
    """Serves an API over plain HTTP in a thread, with storage in etcd; yields its URL."""
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        over = asyncio.Event()
        try:
            async with (
                EtcdStorage(endpoints, prefix=prefix, compaction=None) as storage,
                ApiServer(storage, token=serving.TOKEN, tls=False, rbac=rbac) as server,
            ):
                started.set_result((server.url, asyncio.get_running_loop(), over))
                await over.wait()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=asyncio.run, args=(main(),), name="apiserver on etcd", daemon=True)
    thread.start()
    url, loop, over = started.result(timeout=60)
    yield url
    loop.call_soon_threadsafe(over.set)
    thread.join(60)
    assert not thread.is_alive(), "the server does not stop"


@pytest.fixture(scope="module")
def rehearsal(request: pytest.FixtureRequest, shared_cluster: EtcdCluster) -> Iterator[Rehearsal]:
    """One server for all scenarios, and one with RBAC."""
    wanted = {
        call.params["scenario"].name: call.params["scenario"]
        for item in request.session.items
        if item.path == request.path and (call := getattr(item, "callspec", None)) and "scenario" in call.params
    }
    with (
        serving.failures() as failures,
        serve(shared_cluster.endpoints, "/conformance", rbac=False) as url,
        serve(shared_cluster.endpoints, "/conformance-roles", rbac=True) as url_with_roles,
        ThreadPoolExecutor(AT_A_TIME) as pool,
    ):
        yield Rehearsal(url, url_with_roles, pool, list(wanted.values()), failures)


@pytest.mark.parametrize("scenario", HELD, ids=lambda scenario: f"{scenario.area}: {scenario.name}")
def test_the_server_on_etcd_answers_as_kubernetes_does(rehearsal: Rehearsal, scenario: Any):
    found = rehearsal.differences(scenario)
    reason = expected.SCENARIOS.get(scenario.area, {}).get(scenario.name)
    if reason is None:
        assert not found, "\n".join([*found, *rehearsal.failures])
    else:
        assert found, f"This scenario passes now: take it out of tests/conformance/expected.py ({reason})."
