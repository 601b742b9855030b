"""The watcher when things go wrong: what it tells, how it goes on, and that it never asks in a frenzy."""

import asyncio
import json
from collections.abc import Callable

import pytest

from levelset.aio import Backoff, timing
from levelset.client.transport.interface import Answer, Call
from levelset.errors import Expired, Unreachable
from levelset.http.messages import Headers
from levelset.objects.ref import GroupVersionKind
from tests.apiserver.box import widgets
from tests.apiserver.clock import virtual
from tests.runtime.watch.world import Script, World, line, open_world, reading, refusing, said, status, streaming

GONE = status(410, "Expired", message="too old resource version")
GONE_EVENT = line("ERROR", kind="Status", code=410, reason="Expired", message="too old resource version")


def only(
    verb: str, found: Answer | Callable[[], Answer], *, times: int = 10**6, resumed: bool | None = None
) -> Callable[[Call], Answer | None]:
    """Answers requests with this verb, so many times; `resumed` tells later watches and pages from first ones."""
    left = [times]

    def act(call: Call) -> Answer | None:
        is_resumed = "resourceVersion=" in call.query or "continue=" in call.query
        if call.verb != verb or not left[0] or resumed not in (None, is_resumed):
            return None
        left[0] -= 1
        return found if isinstance(found, Answer) else found()

    return act


async def gap(world: World) -> None:
    """Between two watches one object goes, one comes, one changes, and the server forgets how."""
    await world.remove("a")
    await world.make("c")
    await world.change("b")
    await world.compact()


# 410, in every form


@pytest.mark.parametrize("streams", [True, False])
@virtual
async def test_what_was_deleted_in_a_gap_is_not_in_the_list_that_follows_it(streams: bool) -> None:
    async with open_world() as world:
        await world.make("a", "b")
        async with reading(world.watcher(streaming=streams)) as told:
            await timing.sleep(10)
            world.faults.act = refusing(503)
            world.end_watches()
            await gap(world)
            told.clear()
            await timing.sleep(5)
            world.faults.act = lambda call: None
            await timing.sleep(60)
            assert told == ["Init", "InitApply b", "InitApply c", "InitDone"]


@pytest.mark.parametrize("gone", [GONE, lambda: streaming(GONE_EVENT)], ids=["status", "event"])
@virtual
async def test_a_version_that_has_expired_leads_to_one_list_at_once(gone) -> None:
    async with open_world() as world, reading(world.watcher(streaming=False)) as told:
        await world.make("a")
        world.faults.act = only("watch", gone, times=1)
        await timing.sleep(1)
        assert told == ["Init", "InitApply a", "InitDone"] * 2
        assert world.faults.times("list") == [0.0, 0.0]
        assert [(type(one.error), one.retry_after) for one in world.troubles] == [(Expired, 0.0)]


@virtual
async def test_a_page_that_has_expired_leads_to_a_fresh_list_and_then_to_a_whole_one() -> None:
    async with open_world() as world:
        await world.make("a", "b", "c")
        world.faults.act = only("list", GONE, resumed=True)
        async with reading(world.watcher(streaming=False, page_size=2)) as told:
            await timing.sleep(2)
        assert told == ["Init", "InitApply a", "InitApply b"] * 2 + [
            "Init",
            "InitApply a",
            "InitApply b",
            "InitApply c",
            "InitDone",
        ]
        assert ["limit" in one for one in world.faults.of("list")] == [True, True, True, True, False]


@virtual
async def test_a_page_really_forgotten_by_the_server_leads_to_a_fresh_list() -> None:
    async with open_world() as world, world.watcher(streaming=False, page_size=1) as watcher:
        await world.make("a", "b")
        assert await said(watcher, 2) == ["Init", "InitApply a"]
        await world.remove("a")
        await world.compact()
        assert await said(watcher, 3) == ["Init", "InitApply b", "InitDone"]


@virtual
async def test_a_server_at_which_every_version_has_expired_is_asked_less_and_less() -> None:
    async with open_world() as world:
        world.faults.act = only("watch", GONE)
        async with reading(world.watcher(streaming=False)):
            await timing.sleep(600)
        assert 20 < len(world.faults.of("list")) < 60


# No frenzy


@pytest.mark.parametrize("streams", [None, True, False])
@virtual
async def test_a_server_that_refuses_connections_is_asked_less_and_less(streams: bool | None) -> None:
    async with open_world() as world:
        world.faults.act = lambda call: Unreachable("refused", is_sent=False)
        async with reading(world.watcher(streaming=streams)) as told:
            await timing.sleep(600)
        assert 20 < len(world.faults.calls) < 60
        assert (told, len(world.troubles)) == ([], len(world.faults.calls))
        assert world.troubles[-1].attempt == len(world.faults.calls)


@virtual
async def test_a_server_that_ends_every_watch_at_once_is_asked_less_and_less() -> None:
    async with open_world() as world:
        world.faults.act = only("watch", streaming)
        async with reading(world.watcher(streaming=False)):
            await timing.sleep(600)
        assert 20 < len(world.faults.of("watch")) < 60
        assert len(world.faults.of("list")) == 1


@virtual
async def test_a_server_that_ends_every_watch_after_a_bookmark_is_asked_less_and_less() -> None:
    async with open_world() as world:
        await world.make("a")
        world.faults.act = only("watch", lambda: streaming(line("BOOKMARK", version="1")))
        async with reading(world.watcher(streaming=False)):
            await timing.sleep(600)
        assert len(world.faults.calls) < 120


@virtual
async def test_a_server_that_ends_every_watch_after_an_event_is_not_asked_in_a_frenzy() -> None:
    async with open_world() as world:
        version = iter(range(100, 10**6))
        world.faults.act = only("watch", lambda: streaming(line("MODIFIED", "a", str(next(version)))))
        async with reading(world.watcher(streaming=False)) as told:
            await timing.sleep(60)
        assert len(world.faults.of("watch")) < 300
        assert told.count("Apply a") == len(world.faults.of("watch"))


@virtual
async def test_a_server_that_ends_streaming_lists_at_once_is_asked_for_pages() -> None:
    async with open_world() as world:
        await world.make("a")
        world.faults.act = only("watch", streaming, resumed=False)
        async with reading(world.watcher()) as told:
            await timing.sleep(10)
        assert told == ["Init", "InitApply a", "InitDone"]
        assert len(world.faults.of("list")) == 1


@virtual
async def test_a_server_that_refuses_streaming_lists_is_asked_for_pages_and_not_again() -> None:
    async with open_world() as world:
        refusal = status(422, "Invalid", message="sendInitialEvents is forbidden")
        world.faults.act = lambda call: refusal if "sendInitialEvents" in call.query else None
        async with reading(world.watcher()) as told:
            await timing.sleep(1)
            await world.compact()
            world.faults.act = only("watch", GONE, resumed=True, times=1)
            await timing.sleep(400)
        assert told == ["Init", "InitDone"] * 2
        asked = [one for one in world.faults.of("watch") if "sendInitialEvents" in one]
        assert len(asked) == 1


@virtual
async def test_each_watch_waits_for_itself() -> None:
    async with open_world() as world:
        world.faults.act = lambda call: Unreachable("refused") if "default" in call.path else None
        async with reading(world.watcher()) as bad, reading(world.watcher(namespace=None)) as good:
            await timing.sleep(100)
            await world.make("a")
            await timing.sleep(1)
            assert (bad, good[-1]) == ([], "Apply a")


# Waiting


@virtual
async def test_the_waits_grow_to_their_limit_and_begin_again_after_progress() -> None:
    async with open_world() as world:
        policy = Backoff(first=1.0, factor=2.0, cap=8.0, jitter=0.0)
        world.faults.act = lambda call: Unreachable("refused")
        async with reading(world.watcher(backoff=policy)):
            await timing.sleep(20)
            world.faults.act = lambda call: None
            await timing.sleep(10)
            world.faults.act = refusing(500)
            world.end_watches()
            await timing.sleep(5)
        assert [one.retry_after for one in world.troubles] == [1.0, 2.0, 4.0, 8.0, 8.0, 1.0, 2.0, 4.0]
        assert [one.attempt for one in world.troubles] == [1, 2, 3, 4, 5, 1, 2, 3]


@pytest.mark.parametrize("verb", ["list", "watch"])
@virtual
async def test_a_server_that_says_when_to_come_back_is_left_alone_until_then(verb: str) -> None:
    async with open_world() as world:
        busy = status(429, "TooManyRequests", headers={"retry-after": "7"})
        world.faults.act = only(verb, busy, times=1)
        async with reading(world.watcher(streaming=False)) as told:
            await timing.sleep(20)
        assert told == ["Init", "InitDone"]
        assert (world.faults.times(verb), len(world.faults.of("list"))) == ([0.0, 7.0], 2 if verb == "list" else 1)


@virtual
async def test_a_connection_that_is_cut_goes_on_at_the_last_version_without_a_list() -> None:
    async with open_world() as world:
        cut = [streaming(line("ADDED", "a", "90"), then="cut"), streaming(line("MODIFIED", "a", "91"), then="hang")]
        world.faults.act = only("watch", lambda: cut.pop(0))
        async with reading(world.watcher(streaming=False)) as told:
            await timing.sleep(10)
        assert told == ["Init", "InitDone", "Apply a", "Apply a"]
        assert world.faults.of("watch")[1]["resourceVersion"] == "90"
        assert len(world.faults.of("list")) == 1


@virtual
async def test_a_stream_on_which_nothing_comes_any_more_is_noticed_and_made_anew() -> None:
    async with open_world() as world:
        dead = Script(then="hang")
        world.faults.act = only("watch", Answer(status=200, pieces=dead), times=1)
        async with reading(world.watcher(streaming=False, idle_timeout=75)) as told:
            await timing.sleep(74)
            await world.make("a")
            assert told == ["Init", "InitDone"]
            await timing.sleep(2)
            assert told == ["Init", "InitDone", "Apply a"]
        assert dead.is_closed
        assert (world.faults.times("watch"), world.troubles) == ([0.0, 75.0], [])


@virtual
async def test_a_slow_reader_is_no_dead_stream() -> None:
    async with open_world() as world, world.watcher(idle_timeout=10, watch_timeout=1000) as watcher:
        await said(watcher, 2)
        await timing.sleep(100)
        await world.make("a")
        assert await said(watcher, 1) == ["Apply a"]
        assert len(world.faults.of("watch")) == 1


# Kinds and permissions that are missing


@virtual
async def test_a_kind_that_is_not_there_yet_is_found_when_it_comes_and_again_after_it_was_gone() -> None:
    async with open_world() as world:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        kind = GroupVersionKind("example.com", "v1", "Widget")
        async with reading(world.watcher(kind=kind)) as told:
            await timing.sleep(100)
            assert told == []
            for _ in range(2):
                await world.box.make(definitions, widgets())
                await world.box.make("/apis/example.com/v1/namespaces/default/widgets", widget)
                await timing.sleep(100)
                await world.box.ask("DELETE", f"{definitions}/widgets.example.com")
                await timing.sleep(100)
        assert [one for one in told if one != "Delete w"] == ["Init", "InitApply w", "InitDone"] * 2
        assert {type(one.error).__name__ for one in world.troubles} <= {"NotFound", "UnknownKind", "Unreachable"}


@virtual
async def test_a_missing_permission_is_trouble_until_it_is_given() -> None:
    async with open_world() as world:
        world.faults.act = refusing(403, "Forbidden", message="you may not")
        watcher = world.watcher()
        async with reading(watcher) as told:
            await timing.sleep(50)
            assert watcher.trouble is not None
            assert "ConfigMap in namespace default" in str(watcher.trouble)
            world.faults.act = lambda call: None
            await timing.sleep(40)
            assert told == ["Init", "InitDone"]
        assert watcher.trouble is None


# Odd streams


@virtual
async def test_a_line_of_five_mebibytes_is_an_event_as_any_other() -> None:
    async with open_world() as world:
        large = line("ADDED", "a", "90", data={"x": "y" * 5 * 2**20})
        pieces = [large[start : start + 65536] for start in range(0, len(large), 65536)]
        world.faults.act = only("watch", streaming(*pieces, then="hang"))
        async with world.watcher(streaming=False) as watcher:
            assert await said(watcher, 3) == ["Init", "InitDone", "Apply a"]


@virtual
async def test_a_line_that_is_no_event_leads_to_a_fresh_list() -> None:
    async with open_world() as world:
        await world.make("a")
        world.faults.act = only("watch", streaming(b"<html>\n"), times=1)
        async with reading(world.watcher(streaming=False)) as told:
            await timing.sleep(2)
        assert told == ["Init", "InitApply a", "InitDone"] * 2
        assert "ConfigMap" in str(world.troubles[0])


@virtual
async def test_an_event_about_another_kind_is_told_and_the_stream_goes_on() -> None:
    async with open_world() as world:
        pieces = line("ADDED", "x", "90", kind="Table"), line("ADDED", "a", "91")
        world.faults.act = only("watch", streaming(*pieces, then="hang"))
        async with world.watcher(streaming=False) as watcher:
            assert await said(watcher, 3) == ["Init", "InitDone", "Apply a"]
        assert [one.retry_after for one in world.troubles] == [None]


@virtual
async def test_a_server_that_has_lost_its_history_is_listed_again_at_its_next_bookmark() -> None:
    async with open_world() as world:
        body = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5000"}, "items": []}
        before = Answer(status=200, headers=Headers(), body=json.dumps(body).encode())
        world.faults.act = only("list", before, times=1)
        await world.make("a")
        async with reading(world.watcher(streaming=False)) as told:
            await timing.sleep(61)
        assert told == ["Init", "InitDone", "Init", "InitApply a", "InitDone"]


@virtual
async def test_a_listener_that_fails_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    async with open_world() as world:
        world.faults.act = only("watch", status(500), times=1)
        async with world.watcher(on_trouble=lambda trouble: 1 // 0) as watcher:
            assert await said(watcher, 2) == ["Init", "InitDone"]
        assert "on_trouble failed" in caplog.text


@virtual
async def test_a_refused_watch_that_is_allowed_again_says_so_with_an_empty_batch() -> None:
    async with open_world() as world, world.watcher() as watcher:
        await world.make("a")
        assert await said(watcher, 3) == ["Init", "InitApply a", "InitDone"]
        world.faults.act = refusing(403, "Forbidden")
        world.end_watches()
        reading_on = asyncio.ensure_future(anext(watcher))
        await timing.sleep(5)
        assert watcher.trouble is not None
        assert watcher.trouble.is_standing
        world.faults.act = lambda call: None
        assert await reading_on == []
        assert watcher.trouble is None
