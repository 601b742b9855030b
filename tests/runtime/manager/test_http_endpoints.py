"""The HTTP endpoints of a manager, over real sockets."""

import asyncio
from typing import Any

import pytest

from levelset.client import Client
from levelset.errors import ConfigError
from levelset.objects import GroupVersionKind, Ref
from levelset.runtime.controller.observers import NullObserver
from levelset.runtime.controller.request import Reason
from levelset.runtime.manager import Manager
from levelset.runtime.manager.http_endpoints import parse_address
from levelset.runtime.manager.prometheus_text import CONTENT_TYPE
from tests.client.fixtures import Website, website
from tests.runtime.manager.http_fetch import announce_body, fetch, numbers_of
from tests.runtime.manager.recording import EventLog, open_server, recording_controller, websites


async def test_health_and_metrics_are_served_on_the_loopback_interface():
    async with open_server() as server, Manager(server, health=0, metrics=0) as manager:
        manager.add(recording_controller(EventLog()))
        await manager.client.create(website("blog"))
        await manager.wait_idle()
        assert set(manager.urls) == {"health", "metrics"}
        assert manager.urls["health"].startswith("http://127.0.0.1:")
        assert await fetch(manager.urls["health"], "/healthz") == (200, "ok")
        status, text = await fetch(manager.urls["health"], "/readyz?verbose")
        assert status == 200
        assert "[+]manager ok: leader\n" in text
        assert "[+]watch/example.dev/v1 Website ok: 1 objects, last event 0 s ago\n" in text
        shown = numbers_of((await fetch(manager.urls["metrics"], "/metrics"))[1])
        assert shown['controller_runtime_reconcile_total{controller="websites",result="success"}'] == 1
        assert shown['levelset_cache_objects{cluster="",watch="example.dev/v1 Website"}'] == 1
        assert sum(value for name, value in shown.items() if "levelset_reconcile_reasons_total" in name) == 1


async def test_health_is_served_before_caches_sync_and_names_what_is_missing():
    nothing = GroupVersionKind("nowhere.dev", "v1", "Nothing")
    async with open_server() as server, Manager(server, health=0) as manager:
        manager.cluster.declare(nothing)
        manager.cluster.declare(Website)
        assert (await fetch(manager.urls["health"], "/healthz"))[0] == 200
        status, text = await fetch(manager.urls["health"], "/readyz")
        assert status == 500
        assert "[-]watch/nowhere.dev/v1 Nothing failed: not synced yet" in text


async def test_health_is_served_until_everything_else_has_stopped():
    seen = []
    async with open_server() as server:
        async with Manager(server, health=0) as manager:
            url = manager.urls["health"]

            async def fetch_ready() -> None:
                seen.append(await fetch(url, "/readyz"))

            manager.on_stop(fetch_ready)
            await manager.wait_started()
        assert seen[0][0] == 500
        assert "[-]manager failed: stopping" in seen[0][1]
        with pytest.raises(ConnectionRefusedError):
            await fetch(url, "/healthz")


async def test_an_address_in_use_fails_at_the_start_and_leaves_nothing_running():
    async with open_server() as server, Manager(server, health=0) as first:
        port = int(first.urls["health"].rpartition(":")[2])
        second = Manager(server, health=0, metrics=port)
        with pytest.raises(ConfigError, match="is in use by another process"):
            await second.__aenter__()
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "manager/start-up"][1:]


async def test_no_body_is_received_from_clients_of_health_and_metrics():
    async with open_server() as server, Manager(server, metrics=0) as manager:
        assert await announce_body(manager.urls["metrics"], "/metrics", 1_000_000) == 413


async def test_one_address_for_both_is_one_server():
    async with open_server() as server, Manager(server, health=("127.0.0.1", 0), metrics=0) as manager:
        assert manager.urls["health"] == manager.urls["metrics"]


async def test_metrics_have_the_prometheus_content_type():
    async with open_server() as server, Manager(server, metrics=0) as manager:
        assert CONTENT_TYPE in await fetch_head(manager.urls["metrics"], "/metrics")


async def test_a_custom_check_counts():
    def sold_out() -> None:
        raise RuntimeError("sold out")

    async with open_server() as server, Manager(server, health=0) as manager:
        await manager.wait_started()
        manager.add_check("stock", sold_out)
        assert (await fetch(manager.urls["health"], "/readyz/stock"))[0] == 500
        assert (await fetch(manager.urls["health"], "/readyz?exclude=stock")) == (200, "ok")


@pytest.mark.parametrize("wrong", ["8081", ("127.0.0.1",), True, (8081, "127.0.0.1")])
def test_an_invalid_address_raises_a_config_error(wrong):
    with pytest.raises(ConfigError, match="is not an address"):
        parse_address(wrong)


async def fetch_head(url: str, path: str) -> str:
    return (await fetch(url, path, whole=True))[1]


class OtherObserver(NullObserver):
    """Another observer, which implements `started`."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        self.begun.append(f"{name} {ref.name} {len(reasons)}")


@pytest.mark.parametrize("others", [[], [OtherObserver()]], ids=["alone", "with another observer"])
async def test_the_metrics_of_a_controller_are_right_while_it_works_and_after(others):
    gate, queue = asyncio.Event(), 'name="websites",controller="websites"'

    async def wait(_: Website, __: object) -> None:
        await gate.wait()

    async with open_server() as server, await Client.connect(server) as client:
        for name in "abc":
            await client.create(website(name))
        async with Manager(server, observers=others) as manager:
            hosted = manager.add(websites(wait, name="websites", concurrency=2))
            running = await hosted.wait_running()
            await running.wait_ready()
            await asyncio.sleep(0.01)
            shown = numbers_of(manager.metrics.registry.render())
            assert shown['controller_runtime_active_workers{controller="websites"}'] == 2
            assert (shown[f"workqueue_depth{{{queue}}}"], shown[f"workqueue_adds_total{{{queue}}}"]) == (1, 3)
            assert shown[f"workqueue_unfinished_work_seconds{{{queue}}}"] > 0
            gate.set()
            await hosted.wait_idle()
            shown = numbers_of(manager.metrics.registry.render())
            assert shown['controller_runtime_active_workers{controller="websites"}'] == 0
            assert shown['controller_runtime_reconcile_total{controller="websites",result="success"}'] == 3
            assert shown[f"workqueue_longest_running_processor_seconds{{{queue}}}"] == 0
    assert [sorted(one.begun) for one in others] == [["websites a 1", "websites b 1", "websites c 1"] for _ in others]
