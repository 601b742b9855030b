"""The watcher under faults: its events, its recovery, and that it never floods the server with requests."""

import asyncio
import json
from collections.abc import Callable

import pytest

from levelset.aio import Backoff, timing
from levelset.client.transport.interface import Call, Response
from levelset.errors import Expired, Unreachable
from levelset.http.messages import Headers
from levelset.objects.ref import GroupVersionKind
from levelset.objects.resource import Object
from levelset.testing.virtual_time import virtual
from tests.apiserver.support.in_process_server import widgets
from tests.runtime.watch.watch_bench import (
    Script,
    WatchBench,
    line,
    open_watch_bench,
    reading,
    refusing,
    status,
    streaming,
    summarize,
)

GONE = status(410, "Expired", message="too old resource version")
GONE_EVENT = line("ERROR", kind="Status", code=410, reason="Expired", message="too old resource version")


def only(
    verb: str, found: Response | Callable[[], Response], *, times: int = 10**6, resumed: bool | None = None
) -> Callable[[Call], Response | None]:
    """Responds to requests with this verb, `count` times; `resumed` distinguishes later watches and pages."""
    left = [times]

    def act(call: Call) -> Response | None:
        is_resumed = "resourceVersion=" in call.query or "continue=" in call.query
        if call.verb != verb or not left[0] or resumed not in (None, is_resumed):
            return None
        left[0] -= 1
        return found if isinstance(found, Response) else found()

    return act


async def gap(bench: WatchBench) -> None:
    """Between two watches one object is deleted, one created, one changed, and the history compacted."""
    await bench.remove("a")
    await bench.make("c")
    await bench.change("b")
    await bench.compact()


# 410, in every form


@pytest.mark.parametrize("streams", [True, False])
@virtual
async def test_objects_deleted_while_disconnected_are_not_in_the_relist(streams: bool) -> None:
    async with open_watch_bench() as bench:
        await bench.make("a", "b")
        async with reading(bench.watcher(streaming=streams)) as seen:
            await timing.sleep(10)
            bench.faults.act = refusing(503)
            bench.end_watches()
            await gap(bench)
            seen.clear()
            await timing.sleep(5)
            bench.faults.act = lambda call: None
            await timing.sleep(60)
            assert seen == ["Init", "InitApply b", "InitApply c", "InitDone"]


@pytest.mark.parametrize("gone", [GONE, lambda: streaming(GONE_EVENT)], ids=["status", "event"])
@virtual
async def test_an_expired_version_leads_to_one_relist_at_once(gone) -> None:
    async with open_watch_bench() as bench, reading(bench.watcher(streaming=False)) as seen:
        await bench.make("a")
        bench.faults.act = only("watch", gone, times=1)
        await timing.sleep(1)
        assert seen == ["Init", "InitApply a", "InitDone"] * 2
        assert bench.faults.times("list") == [0.0, 0.0]
        assert [(type(one.error), one.retry_after) for one in bench.errors] == [(Expired, 0.0)]


@virtual
async def test_an_expired_continue_token_leads_to_a_new_list_and_then_to_an_unpaged_one() -> None:
    async with open_watch_bench() as bench:
        await bench.make("a", "b", "c")
        bench.faults.act = only("list", GONE, resumed=True)
        async with reading(bench.watcher(streaming=False, page_size=2)) as seen:
            await timing.sleep(2)
        assert seen == ["Init", "InitApply a", "InitApply b"] * 2 + [
            "Init",
            "InitApply a",
            "InitApply b",
            "InitApply c",
            "InitDone",
        ]
        assert ["limit" in one for one in bench.faults.of("list")] == [True, True, True, True, False]


@virtual
async def test_a_continue_token_compacted_by_the_server_leads_to_a_new_list() -> None:
    async with open_watch_bench() as bench, bench.watcher(streaming=False, page_size=1) as watcher:
        await bench.make("a", "b")
        assert await summarize(watcher, 2) == ["Init", "InitApply a"]
        await bench.remove("a")
        await bench.compact()
        assert await summarize(watcher, 3) == ["Init", "InitApply b", "InitDone"]


@virtual
async def test_a_server_on_which_every_version_is_expired_is_retried_with_backoff() -> None:
    async with open_watch_bench() as bench:
        bench.faults.act = only("watch", GONE)
        async with reading(bench.watcher(streaming=False)):
            await timing.sleep(600)
        assert 20 < len(bench.faults.of("list")) < 60


# Bounded request rate


@pytest.mark.parametrize("streams", [None, True, False])
@virtual
async def test_a_server_that_refuses_connections_is_retried_with_backoff(streams: bool | None) -> None:
    async with open_watch_bench() as bench:
        bench.faults.act = lambda call: Unreachable("refused", is_sent=False)
        async with reading(bench.watcher(streaming=streams)) as seen:
            await timing.sleep(600)
        assert 20 < len(bench.faults.calls) < 60
        assert (seen, len(bench.errors)) == ([], len(bench.faults.calls))
        assert bench.errors[-1].attempt == len(bench.faults.calls)


@virtual
async def test_a_server_that_ends_every_watch_at_once_is_retried_with_backoff() -> None:
    async with open_watch_bench() as bench:
        bench.faults.act = only("watch", streaming)
        async with reading(bench.watcher(streaming=False)):
            await timing.sleep(600)
        assert 20 < len(bench.faults.of("watch")) < 60
        assert len(bench.faults.of("list")) == 1


@virtual
async def test_a_server_that_ends_every_watch_after_a_bookmark_is_retried_with_backoff() -> None:
    async with open_watch_bench() as bench:
        await bench.make("a")
        bench.faults.act = only("watch", lambda: streaming(line("BOOKMARK", version="1")))
        async with reading(bench.watcher(streaming=False)):
            await timing.sleep(600)
        assert len(bench.faults.calls) < 120


@virtual
async def test_a_server_that_ends_every_watch_after_an_event_is_not_flooded_with_requests() -> None:
    async with open_watch_bench() as bench:
        version = iter(range(100, 10**6))
        bench.faults.act = only("watch", lambda: streaming(line("MODIFIED", "a", str(next(version)))))
        async with reading(bench.watcher(streaming=False)) as seen:
            await timing.sleep(60)
        assert len(bench.faults.of("watch")) < 300
        assert seen.count("Apply a") == len(bench.faults.of("watch"))


@virtual
async def test_a_server_that_ends_streaming_lists_at_once_gets_paged_lists() -> None:
    async with open_watch_bench() as bench:
        await bench.make("a")
        bench.faults.act = only("watch", streaming, resumed=False)
        async with reading(bench.watcher()) as seen:
            await timing.sleep(10)
        assert seen == ["Init", "InitApply a", "InitDone"]
        assert len(bench.faults.of("list")) == 1


@virtual
async def test_a_server_without_streaming_lists_gets_paged_lists_from_then_on() -> None:
    async with open_watch_bench() as bench:
        refusal = status(422, "Invalid", message="sendInitialEvents is forbidden")
        bench.faults.act = lambda call: refusal if "sendInitialEvents" in call.query else None
        async with reading(bench.watcher()) as seen:
            await timing.sleep(1)
            await bench.compact()
            bench.faults.act = only("watch", GONE, resumed=True, times=1)
            await timing.sleep(400)
        assert seen == ["Init", "InitDone"] * 2
        requests = [one for one in bench.faults.of("watch") if "sendInitialEvents" in one]
        assert len(requests) == 1


@virtual
async def test_each_watch_has_its_own_backoff() -> None:
    async with open_watch_bench() as bench:
        bench.faults.act = lambda call: Unreachable("refused") if "default" in call.path else None
        async with reading(bench.watcher()) as bad, reading(bench.watcher(namespace=None)) as good:
            await timing.sleep(100)
            await bench.make("a")
            await timing.sleep(1)
            assert (bad, good[-1]) == ([], "Apply a")


# Waiting


@virtual
async def test_the_backoff_grows_to_its_limit_and_resets_after_progress() -> None:
    async with open_watch_bench() as bench:
        policy = Backoff(first=1.0, factor=2.0, cap=8.0, jitter=0.0)
        bench.faults.act = lambda call: Unreachable("refused")
        async with reading(bench.watcher(backoff=policy)):
            await timing.sleep(20)
            bench.faults.act = lambda call: None
            await timing.sleep(10)
            bench.faults.act = refusing(500)
            bench.end_watches()
            await timing.sleep(5)
        assert [one.retry_after for one in bench.errors] == [1.0, 2.0, 4.0, 8.0, 8.0, 1.0, 2.0, 4.0]
        assert [one.attempt for one in bench.errors] == [1, 2, 3, 4, 5, 1, 2, 3]


@pytest.mark.parametrize("verb", ["list", "watch"])
@virtual
async def test_a_retry_after_header_is_honoured(verb: str) -> None:
    async with open_watch_bench() as bench:
        busy = status(429, "TooManyRequests", headers={"retry-after": "7"})
        bench.faults.act = only(verb, busy, times=1)
        async with reading(bench.watcher(streaming=False)) as seen:
            await timing.sleep(20)
        assert seen == ["Init", "InitDone"]
        assert (bench.faults.times(verb), len(bench.faults.of("list"))) == ([0.0, 7.0], 2 if verb == "list" else 1)


@virtual
async def test_a_cut_connection_resumes_at_the_last_version_without_a_list() -> None:
    async with open_watch_bench() as bench:
        cut = [streaming(line("ADDED", "a", "90"), then="cut"), streaming(line("MODIFIED", "a", "91"), then="hang")]
        bench.faults.act = only("watch", lambda: cut.pop(0))
        async with reading(bench.watcher(streaming=False)) as seen:
            await timing.sleep(10)
        assert seen == ["Init", "InitDone", "Apply a", "Apply a"]
        assert bench.faults.of("watch")[1]["resourceVersion"] == "90"
        assert len(bench.faults.of("list")) == 1


@virtual
async def test_a_stalled_stream_is_detected_and_reopened() -> None:
    async with open_watch_bench() as bench:
        dead = Script(then="hang")
        bench.faults.act = only("watch", Response(status=200, stream=dead), times=1)
        async with reading(bench.watcher(streaming=False)) as seen:
            await timing.sleep(74)
            await bench.make("a")
            assert seen == ["Init", "InitDone"]
            await timing.sleep(2)
            assert seen == ["Init", "InitDone", "Apply a"]
        assert dead.is_closed
        assert (bench.faults.times("watch"), bench.errors) == ([0.0, 75.0], [])


@virtual
async def test_a_watch_that_stays_silent_is_no_younger_when_it_is_reopened() -> None:
    async with open_watch_bench() as bench:
        bench.faults.act = only("watch", lambda: Response(status=200, stream=Script(then="hang")))
        watcher = bench.watcher(streaming=False)
        async with reading(watcher) as seen:
            began = timing.now()
            await timing.sleep(160)
            assert len(bench.faults.of("watch")) > 2
            assert watcher.last_event_at == began
            bench.faults.act = lambda call: None
            await timing.sleep(70)  # the silent watch ends, and the next one has something to say
            await bench.make("a")
            await timing.sleep(1)
            assert seen == ["Init", "InitDone", "Apply a"]
            assert timing.now() - (watcher.last_event_at or 0.0) <= 1
            await timing.sleep(30)
            bench.end_watches()  # the server has spoken since: now a new watch is a sign of life again
            await timing.sleep(1)
            assert timing.now() - (watcher.last_event_at or 0.0) <= 1


@virtual
async def test_a_watch_that_the_server_ends_is_fresh_when_it_is_reopened() -> None:
    async with open_watch_bench() as bench:
        watcher = bench.watcher(streaming=False)
        async with reading(watcher):
            await timing.sleep(40)
            bench.end_watches()
            await timing.sleep(5)
            assert timing.now() - (watcher.last_event_at or 0.0) <= 5


@virtual
async def test_a_slow_reader_does_not_count_as_a_stalled_stream() -> None:
    async with open_watch_bench() as bench, bench.watcher(idle_timeout=10, watch_timeout=1000) as watcher:
        await summarize(watcher, 2)
        await timing.sleep(100)
        await bench.make("a")
        assert await summarize(watcher, 1) == ["Apply a"]
        assert len(bench.faults.of("watch")) == 1


# Kinds and permissions that are missing


@virtual
async def test_a_kind_is_watched_once_it_is_installed_and_again_after_a_reinstall() -> None:
    async with open_watch_bench() as bench:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        kind = GroupVersionKind("example.com", "v1", "Widget")
        async with reading(bench.watcher(kind=kind)) as seen:
            await timing.sleep(100)
            assert seen == []
            for _ in range(2):
                await bench.box.create(definitions, widgets())
                await bench.box.create("/apis/example.com/v1/namespaces/default/widgets", widget)
                await timing.sleep(100)
                await bench.box.request("DELETE", f"{definitions}/widgets.example.com")
                await timing.sleep(100)
        assert [one for one in seen if one != "Delete w"] == ["Init", "InitApply w", "InitDone"] * 2
        assert {type(one.error).__name__ for one in bench.errors} <= {"NotFound", "UnknownKind", "Unreachable"}


class Widget(Object, api="example.com/v1"):
    pass


@virtual
async def test_a_kind_that_was_missing_for_long_is_watched_two_seconds_after_it_is_installed() -> None:
    async with open_watch_bench() as bench, reading(bench.watcher(kind=Widget)) as seen:
        await timing.sleep(600)
        await bench.box.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        await timing.sleep(2.1)
        assert seen == ["Init", "InitDone"]
    assert len(bench.errors) < 400


@virtual
async def test_a_missing_permission_is_an_error_until_it_is_granted() -> None:
    async with open_watch_bench() as bench:
        bench.faults.act = refusing(403, "Forbidden", message="you may not")
        watcher = bench.watcher()
        async with reading(watcher) as seen:
            await timing.sleep(50)
            assert watcher.error is not None
            assert "ConfigMap in namespace default" in str(watcher.error)
            bench.faults.act = lambda call: None
            await timing.sleep(40)
            assert seen == ["Init", "InitDone"]
        assert watcher.error is None


# Malformed streams


@virtual
async def test_a_line_of_five_mebibytes_is_an_event_as_any_other() -> None:
    async with open_watch_bench() as bench:
        large = line("ADDED", "a", "90", data={"x": "y" * 5 * 2**20})
        pieces = [large[start : start + 65536] for start in range(0, len(large), 65536)]
        bench.faults.act = only("watch", streaming(*pieces, then="hang"))
        async with bench.watcher(streaming=False) as watcher:
            assert await summarize(watcher, 3) == ["Init", "InitDone", "Apply a"]


@virtual
async def test_a_line_that_is_not_an_event_leads_to_a_relist() -> None:
    async with open_watch_bench() as bench:
        await bench.make("a")
        bench.faults.act = only("watch", streaming(b"<html>\n"), times=1)
        async with reading(bench.watcher(streaming=False)) as seen:
            await timing.sleep(2)
        assert seen == ["Init", "InitApply a", "InitDone"] * 2
        assert "ConfigMap" in str(bench.errors[0])


@virtual
async def test_an_event_about_another_kind_is_reported_and_the_stream_continues() -> None:
    async with open_watch_bench() as bench:
        pieces = line("ADDED", "x", "90", kind="Table"), line("ADDED", "a", "91")
        bench.faults.act = only("watch", streaming(*pieces, then="hang"))
        async with bench.watcher(streaming=False) as watcher:
            assert await summarize(watcher, 3) == ["Init", "InitDone", "Apply a"]
        assert [one.retry_after for one in bench.errors] == [None]


@virtual
async def test_a_server_that_lost_its_history_is_relisted_at_its_next_bookmark() -> None:
    async with open_watch_bench() as bench:
        body = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "5000"}, "items": []}
        before = Response(status=200, headers=Headers(), body=json.dumps(body).encode())
        bench.faults.act = only("list", before, times=1)
        await bench.make("a")
        async with reading(bench.watcher(streaming=False)) as seen:
            await timing.sleep(61)
        assert seen == ["Init", "InitDone", "Init", "InitApply a", "InitDone"]


@virtual
async def test_an_on_error_callback_that_raises_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    async with open_watch_bench() as bench:
        bench.faults.act = only("watch", status(500), times=1)
        async with bench.watcher(on_error=lambda error: 1 // 0) as watcher:
            assert await summarize(watcher, 2) == ["Init", "InitDone"]
        assert "on_error failed" in caplog.text


@virtual
async def test_a_forbidden_watch_that_is_allowed_again_yields_an_empty_batch() -> None:
    async with open_watch_bench() as bench, bench.watcher() as watcher:
        await bench.make("a")
        assert await summarize(watcher, 3) == ["Init", "InitApply a", "InitDone"]
        bench.faults.act = refusing(403, "Forbidden")
        bench.end_watches()
        reading_on = asyncio.ensure_future(anext(watcher))
        await timing.sleep(5)
        assert watcher.error is not None
        assert watcher.error.is_persistent
        bench.faults.act = lambda call: None
        assert await reading_on == []
        assert watcher.error is None
