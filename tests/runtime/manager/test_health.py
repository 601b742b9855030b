"""Health endpoints: checks, their results and query parameters."""

import pytest

from levelset.errors import ConfigError
from levelset.http import Request
from levelset.objects import replace
from levelset.runtime.cache.informer import Stats
from levelset.runtime.manager.health import CheckResult, Health, watch_check_results

STATS = Stats(
    name="example.dev/v1 Website",
    is_ready=True,
    objects=3,
    bytes=100,
    resource_version="7",
    lag=4.2,
    events=5,
    relists=0,
    reconnects=0,
    bookmarks=0,
    errors=0,
    readers=1,
    waiting=0,
    error=None,
)


def broken() -> None:
    raise RuntimeError("the disk is full")


async def send(health: Health, path: str, query: str = "", method: str = "GET"):
    response = await health.handle(Request(method, path, query))
    assert isinstance(response.body, bytes)
    return response.status, response.body.decode()


async def test_without_custom_checks_all_endpoints_are_healthy():
    health = Health()
    for path in ("/healthz", "/livez", "/readyz", "/healthz/", "/healthz/ping"):
        assert await send(health, path) == (200, "ok")


async def test_verbose_lists_every_check_with_its_note():
    health = Health()

    async def disk() -> str:
        return "40 % free"

    health.live.add("disk", disk)
    assert await send(health, "/healthz", "verbose") == (
        200,
        "[+]ping ok\n[+]disk ok: 40 % free\nhealthz check passed\n",
    )


async def test_one_failing_check_fails_the_endpoint_with_its_reason():
    health = Health()
    health.ready.add("disk", broken)
    assert await send(health, "/readyz") == (
        500,
        "[+]ping ok\n[-]disk failed: the disk is full\nreadyz check failed\n",
    )
    assert await send(health, "/healthz") == (200, "ok")


async def test_excluded_checks_do_not_count():
    health = Health()
    health.ready.add("disk", broken)
    health.ready.add("net", broken)
    assert (await send(health, "/readyz", "exclude=disk"))[0] == 500
    assert await send(health, "/readyz", "exclude=disk&exclude=net") == (200, "ok")
    assert await send(health, "/readyz", "exclude=disk,net&verbose=1") == (
        200,
        "[+]ping ok\n[+]disk excluded: ok\n[+]net excluded: ok\nreadyz check passed\n",
    )


async def test_each_check_has_its_own_path():
    health = Health()
    health.ready.add("disk", broken)
    assert await send(health, "/readyz/disk") == (500, "[-]disk failed: the disk is full")
    assert await send(health, "/readyz/ping") == (200, "ok")
    assert (await send(health, "/readyz/nothing"))[0] == 404


async def test_other_paths_and_methods_are_rejected():
    health = Health()
    assert (await send(health, "/"))[0] == 404
    assert (await send(health, "/metrics"))[0] == 404
    assert (await send(health, "/healthz", method="POST"))[0] == 405


async def test_checks_may_be_added_and_removed_while_they_run():
    health = Health()
    health.ready.add("disk", broken)
    with pytest.raises(ConfigError, match="'disk'"):
        health.ready.add("disk", broken)
    health.ready.remove("disk")
    assert await send(health, "/readyz") == (200, "ok")


async def test_each_watch_reports_sync_last_event_and_last_error():
    health = Health()
    waiting = replace(STATS, name="v1 Secret", is_ready=False, lag=None, error="forbidden: list secrets")
    health.ready.add_source(lambda: watch_check_results([STATS, waiting]))
    status, text = await send(health, "/readyz")
    assert status == 500
    assert "[+]watch/example.dev/v1 Website ok: 3 objects, last event 4 s ago\n" in text
    assert "[-]watch/v1 Secret failed: not synced yet, no event yet, last error: forbidden: list secrets\n" in text
    assert (await send(health, "/readyz/watch/v1%20Secret"))[0] == 500
    assert (await send(health, "/readyz/watch/example.dev/v1%20Website"))[0] == 200


async def test_a_synced_watch_with_an_error_stays_ready_and_reports_it():
    failing = replace(STATS, error="no answer")
    assert list(watch_check_results([failing])) == [
        CheckResult("watch/example.dev/v1 Website", True, "3 objects, last event 4 s ago, last error: no answer")
    ]
