"""Health pages: how they are made of checks."""

import dataclasses

import pytest

from levelset.errors import ConfigError
from levelset.http import Request
from levelset.runtime.cache.informer import Stats
from levelset.runtime.manager.health import Finding, Health, watch_findings

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
    trouble=None,
)


def broken() -> None:
    raise RuntimeError("the disk is full")


async def ask(health: Health, path: str, query: str = "", method: str = "GET"):
    response = await health.handle(Request(method, path, query))
    assert isinstance(response.body, bytes)
    return response.status, response.body.decode()


async def test_without_checks_of_ones_own_all_is_well():
    health = Health()
    for path in ("/healthz", "/livez", "/readyz", "/healthz/", "/healthz/ping"):
        assert await ask(health, path) == (200, "ok")


async def test_verbose_lists_every_check_with_its_note():
    health = Health()

    async def disk() -> str:
        return "40 % free"

    health.live.add("disk", disk)
    assert await ask(health, "/healthz", "verbose") == (
        200,
        "[+]ping ok\n[+]disk ok: 40 % free\nhealthz check passed\n",
    )


async def test_one_failing_check_fails_the_page_which_says_why():
    health = Health()
    health.ready.add("disk", broken)
    assert await ask(health, "/readyz") == (
        500,
        "[+]ping ok\n[-]disk failed: the disk is full\nreadyz check failed\n",
    )
    assert await ask(health, "/healthz") == (200, "ok")


async def test_excluded_checks_do_not_count():
    health = Health()
    health.ready.add("disk", broken)
    health.ready.add("net", broken)
    assert (await ask(health, "/readyz", "exclude=disk"))[0] == 500
    assert await ask(health, "/readyz", "exclude=disk&exclude=net") == (200, "ok")
    assert await ask(health, "/readyz", "exclude=disk,net&verbose=1") == (
        200,
        "[+]ping ok\n[+]disk excluded: ok\n[+]net excluded: ok\nreadyz check passed\n",
    )


async def test_a_check_has_a_page_of_its_own():
    health = Health()
    health.ready.add("disk", broken)
    assert await ask(health, "/readyz/disk") == (500, "[-]disk failed: the disk is full")
    assert await ask(health, "/readyz/ping") == (200, "ok")
    assert (await ask(health, "/readyz/nothing"))[0] == 404


async def test_other_pages_and_other_methods_are_refused():
    health = Health()
    assert (await ask(health, "/"))[0] == 404
    assert (await ask(health, "/metrics"))[0] == 404
    assert (await ask(health, "/healthz", method="POST"))[0] == 405


async def test_checks_may_come_and_go_while_they_are_asked():
    health = Health()
    health.ready.add("disk", broken)
    with pytest.raises(ConfigError, match="'disk'"):
        health.ready.add("disk", broken)
    health.ready.remove("disk")
    assert await ask(health, "/readyz") == (200, "ok")


async def test_each_watch_says_whether_it_has_synced_how_old_its_news_are_and_its_last_error():
    health = Health()
    waiting = dataclasses.replace(STATS, name="v1 Secret", is_ready=False, lag=None, trouble="forbidden: list secrets")
    health.ready.add_source(lambda: watch_findings([STATS, waiting]))
    status, text = await ask(health, "/readyz")
    assert status == 500
    assert "[+]watch/example.dev/v1 Website ok: 3 objects, last heard of 4 s ago\n" in text
    assert "[-]watch/v1 Secret failed: not synced yet, never heard of, last error: forbidden: list secrets\n" in text
    assert (await ask(health, "/readyz/watch/v1%20Secret"))[0] == 500
    assert (await ask(health, "/readyz/watch/example.dev/v1%20Website"))[0] == 200


async def test_a_watch_that_has_synced_stays_ready_while_it_is_in_trouble_and_says_so():
    troubled = dataclasses.replace(STATS, trouble="no answer")
    assert list(watch_findings([troubled])) == [
        Finding("watch/example.dev/v1 Website", True, "3 objects, last heard of 4 s ago, last error: no answer")
    ]
