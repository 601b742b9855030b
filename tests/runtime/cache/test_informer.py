"""The informer with a scripted event source: one watch, many subscribers, and the order of their changes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import pytest

from levelset.aio import Backoff
from levelset.aio.channel import Channel, Closed, WouldBlock
from levelset.client.object_types import View, view_of
from levelset.errors import Deadline, Forbidden, NotReady
from levelset.objects import GroupVersionKind, Unstructured
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.index import Index
from levelset.runtime.cache.informer import Informer
from levelset.runtime.cache.object_store import Store
from levelset.runtime.cache.scope import Scope
from levelset.runtime.watch.events import Event
from levelset.runtime.watch.watcher import OnError, WatchError
from levelset.testing.virtual_time import virtual
from tests.runtime.cache.sites import VIEW, Site, applied, cached_site, deleted, listed, summarize

writing = import_module("levelset.runtime.cache.object_store")  # the package exports a function of that name


class Feed:
    """An event source that yields the batches that a test sends."""

    def __init__(self) -> None:
        self.batches: Channel[tuple[str | None, list[Event[Any]]]] = Channel(capacity=None)
        self.resource_version: str | None = None
        self.error: WatchError | None = None
        self.relists = self.reconnects = self.bookmarks = self.errors = 0
        self.last_event_at: float | None = None
        self.report_error: OnError = lambda error: None

    def __aiter__(self) -> AsyncIterator[list[Event[Any]]]:
        return self._read()

    async def _read(self) -> AsyncGenerator[list[Event[Any]], None]:
        async for version, batch in self.batches:
            self.resource_version = version or self.resource_version
            yield batch

    async def send(self, events: Sequence[Event[Any]], version: int | None = None) -> None:
        """Sends a batch, and lets the informer take it in."""
        self.batches.send_nowait((None if version is None else str(version), list(events)))
        for _ in range(20):
            await asyncio.sleep(0)

    async def aclose(self) -> None: ...


class InformerBench:
    """An informer, and what drives it."""

    def __init__(self) -> None:
        self.feed = Feed()
        self.reported: list[str] = []
        self.made = 0
        self.informer = Informer(
            Scope(VIEW.gvk),
            VIEW,
            self._watch,
            report=lambda where, error: self.reported.append(f"{where}: {error}"),
            backoff=Backoff(first=1, jitter=0),
        )
        self.send = self.feed.send
        self.store: Store[Site] = Store(self.informer.table, VIEW, self.informer.readiness)

    def _watch(self, on_error: OnError) -> Feed:
        self.made += 1
        self.feed.report_error = on_error
        return self.feed


@asynccontextmanager
async def open_informer() -> AsyncGenerator[InformerBench, None]:
    made = InformerBench()
    made.informer.start()
    try:
        yield made
    finally:
        await made.informer.aclose()


@virtual
async def test_a_late_subscriber_gets_the_cached_objects_then_the_changes_without_gap_or_repetition() -> None:
    async with open_informer() as d:
        await d.send([*listed(cached_site("a", 1), cached_site("b", 2)), *applied(cached_site("c", 3))], 3)
        async with d.informer.subscribe(VIEW) as late:
            await d.send([*applied(cached_site("b", 4), cached_site("d", 5)), *deleted(cached_site("c", 6))], 6)
            assert summarize(late.drain()) == ["*+a1", "*+b4", "+d5"]
            await d.send(applied(cached_site("a", 7)), 7)
            assert summarize(late.drain()) == ["a1>a7"]


@virtual
async def test_an_early_subscriber_gets_the_first_list_as_initial() -> None:
    async with open_informer() as d, d.informer.subscribe(VIEW) as early:
        await d.send(listed(cached_site("a", 1)), 1)
        await d.send(listed(cached_site("a", 1), cached_site("b", 2)), 2)
        assert summarize(early.drain()) == ["*+a1", "+b2"]


@virtual
async def test_a_subscriber_that_joins_during_a_large_change_sees_each_object_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "SLICE", 2)
    async with open_informer() as d:
        seen: list[list[str]] = []
        joined: list[Any] = []

        def join(changes: Sequence[Change[Any]]) -> None:  # one more reader after each slice
            joined.append(d.informer.subscribe(VIEW))

        first = d.informer.subscribe(VIEW)
        d.informer.on_progress(join)
        await d.send([*listed(*(cached_site(f"s{n}", n) for n in range(7))), *applied(cached_site("z", 9))], 9)
        seen = [sorted(change.cached.head.name for change in reader.drain()) for reader in (first, *joined)]
        assert len(seen) >= 5
        assert all(names == [*(f"s{n}" for n in range(7)), "z"] for names in seen)
        for reader in (first, *joined):
            reader.close()


@virtual
async def test_a_subscriber_gets_the_changes_before_and_after_the_end_of_a_list_in_one_batch() -> None:
    async with open_informer() as d:
        await d.send(listed(cached_site("a", 1)), 1)
        with_replay, without = d.informer.subscribe(VIEW), d.informer.subscribe(VIEW, replay=False)
        assert summarize(with_replay.drain()) == ["*+a1"]
        batch = [*applied(cached_site("a", 2)), *listed(cached_site("a", 2), cached_site("b", 3))]
        await d.send([*batch, *applied(cached_site("c", 4))], 4)
        for reader in (with_replay, without):
            assert summarize(reader.drain()) == ["a1>a2", "+b3", "+c4"]
            reader.close()


@virtual
async def test_a_slow_subscriber_is_conflated_and_does_not_delay_others() -> None:
    async with open_informer() as d, d.informer.subscribe(VIEW) as slow, d.informer.subscribe(VIEW) as quick:
        delivered: list[str] = []
        for version in range(1, 50):
            await d.send(applied(cached_site("a", version)), version)
            delivered += summarize(quick.drain())
        assert len(delivered) == 49
        assert d.informer.stats().waiting == 1
        assert summarize(slow.drain()) == ["+a49"]


@virtual
async def test_subscribers_are_notified_after_the_store_and_its_indexes_are_updated() -> None:
    async with open_informer() as d:
        image = Index(Site, lambda site: site.spec.image, name="image")
        d.store.add_index(image)
        found: list[tuple[int, int]] = []
        d.informer.listen(VIEW, lambda changes: found.append((len(d.store), len(d.store.by(image, "nginx")))))
        await d.send(listed(cached_site("a"), cached_site("b")), 1)
        assert found == [(2, 2)]


@virtual
async def test_deletes_come_before_updates_on_a_relist_and_the_store_is_already_swapped() -> None:
    async with open_informer() as d:
        await d.send(listed(cached_site("gone", 1), cached_site("a", 2)), 2)
        delivered: list[tuple[str, int]] = []
        d.informer.listen(
            VIEW, lambda changes: delivered.extend((word, len(d.store)) for word in summarize(changes)), replay=False
        )
        await d.send(listed(cached_site("a", 4), cached_site("b", 3), version=5), 5)
        assert delivered == [("-gone1", 2), ("a2>a4", 2), ("+b3", 2)]


@virtual
async def test_a_listener_that_raises_is_reported_and_does_not_affect_others() -> None:
    async with open_informer() as d:
        delivered: list[str] = []
        bad = d.informer.listen(VIEW, lambda changes: 1 / 0)  # type: ignore[arg-type]  # raises first
        d.informer.listen(VIEW, lambda changes: delivered.extend(summarize(changes)))
        await d.send(listed(cached_site("a", 1)), 1)
        await d.send(applied(cached_site("a", 2)), 2)
        assert (delivered, bad.failures) == (["*+a1", "a1>a2"], 2)
        assert all("division by zero" in words for words in d.reported)


@virtual
async def test_a_closed_subscriber_gets_no_more_changes_and_may_be_closed_again() -> None:
    async with open_informer() as d:
        delivered: list[str] = []
        listener = d.informer.listen(VIEW, lambda changes: delivered.extend(summarize(changes)))
        subscription = d.informer.subscribe(VIEW)
        await d.send(listed(cached_site("a", 1)), 1)
        for one in (listener, subscription, listener, subscription):
            one.close()
        await d.send(applied(cached_site("a", 2)), 2)
        assert delivered == ["*+a1"]
        with pytest.raises(Closed):
            subscription.receive_nowait()
        assert d.informer.stats().readers == 0


@virtual
async def test_a_late_listener_gets_the_cached_objects_in_slices_and_misses_nothing() -> None:
    async with open_informer() as d:
        await d.send(listed(*(cached_site(f"s{n}", n) for n in range(1200))), 1200)
        batches: list[list[str]] = []
        listener = d.informer.listen(VIEW, lambda changes: batches.append(list(summarize(changes))))
        assert not listener.is_synced
        d.feed.batches.send_nowait(
            ("1201", [*applied(cached_site("s1199", 2000)), *deleted(cached_site("s1198", 2001))])
        )
        await listener.wait_synced()
        delivered = [word for batch in batches for word in batch]
        assert max(map(len, batches)) <= 500
        assert (len(delivered), delivered.count("*+s11992000"), "*+s11981198" in delivered) == (1199, 1, False)


@virtual
async def test_a_subscriber_is_synced_when_it_has_read_the_objects_and_not_when_the_informer_is() -> None:
    async with open_informer() as d:
        async with d.informer.subscribe(VIEW) as early:
            await d.send(listed(cached_site("a", 1), cached_site("b", 1)), 1)
            assert (d.informer.is_ready, early.is_synced) == (True, False)
            await early.receive()
            await early.receive()
            assert not early.is_synced  # it may still be busy with the last one
            with pytest.raises(WouldBlock):
                early.receive_nowait()
            await early.wait_synced()
        late = d.informer.subscribe(VIEW)
        with pytest.raises(NotReady, match="within 1 s"):
            await late.wait_synced(within=1)
        late.close()


@virtual
async def test_without_a_replay_only_later_changes_are_delivered() -> None:
    async with open_informer() as d:
        await d.send(listed(cached_site("a", 1)), 1)
        async with d.informer.subscribe(VIEW, replay=False) as late:
            assert late.is_synced
            await d.send(applied(cached_site("a", 2)), 2)
            assert summarize(late.drain()) == ["a1>a2"]


@virtual
async def test_a_resync_delivers_all_objects_to_the_requesting_subscriber_only() -> None:
    async with open_informer() as d, d.informer.subscribe(VIEW) as one, d.informer.subscribe(VIEW) as other:
        delivered: list[str] = []
        listener = d.informer.listen(VIEW, lambda changes: delivered.extend(summarize(changes)))
        await d.send(listed(cached_site("a", 1), cached_site("b", 1)), 1)
        one.drain(), other.drain()
        await d.send(applied(cached_site("b", 2)), 2)
        one.resync()
        listener.resync()
        await asyncio.sleep(0)
        assert summarize(one.drain()) == ["=a1>a1", "b1>b2"]
        assert summarize(other.drain()) == ["b1>b2"]
        assert delivered == ["*+a1", "*+b1", "b1>b2", "=a1>a1", "=b2>b2"]


@virtual
async def test_readers_with_different_classes_share_the_informer() -> None:
    async with open_informer() as d:
        loose: View[Any] = view_of(GroupVersionKind("example.dev", "v1", "Site"))
        async with d.informer.subscribe(loose) as reader:
            await d.send(listed(cached_site("a", 1)), 1)
            new = (await reader.receive()).new
            assert new is not None
            assert isinstance(new.object, Unstructured)


@virtual
async def test_when_the_informer_ends_subscribers_get_their_unread_changes_and_then_the_end() -> None:
    d = InformerBench()
    d.informer.start()
    reader = d.informer.subscribe(VIEW)
    await d.send(listed(cached_site("a", 1)), 1)
    await d.informer.aclose()
    assert summarize([change async for change in reader]) == ["*+a1"]
    assert summarize([change async for change in d.informer.subscribe(VIEW, replay=False)]) == []


@virtual
async def test_progress_is_reported_after_each_batch_even_for_a_single_bookmark() -> None:
    async with open_informer() as d:
        seen: list[tuple[str | None, int]] = []
        detach = d.informer.on_progress(lambda changes: seen.append((d.informer.observed, len(changes))))
        await d.send(listed(cached_site("a", 1), version=5), 5)
        await d.send([], 8)
        detach()
        await d.send([], 9)
        assert seen == [(None, 1), ("5", 0), ("8", 0)]
        assert d.informer.observed == "9"


@virtual
async def test_a_version_can_be_waited_for_and_does_not_count_before_the_list_is_complete() -> None:
    async with open_informer() as d:
        waiting = asyncio.create_task(d.informer.wait_version(7))
        events = listed(cached_site("a", 9), version=9)
        await d.send(events[:-1], 9)
        assert (waiting.done(), d.informer.observed) == (False, None)
        await d.send(events[-1:], 9)
        await waiting
        with pytest.raises(Deadline, match="has not reached resourceVersion 10 within 2 s; it is at 9"):
            await d.informer.wait_version(10, within=2)


@virtual
async def test_a_watch_error_is_the_cause_of_not_being_ready_and_is_cleared_on_recovery() -> None:
    async with open_informer() as d:
        error = Forbidden("sites is forbidden")
        d.feed.report_error(WatchError(error=error, gvk=VIEW.gvk, retry_after=1.0))
        with pytest.raises(NotReady, match="cache of example.dev/v1 Site .*sites is forbidden.*attempt 2") as caught:
            await d.informer.readiness.wait(within=5)
        assert caught.value.cause is error
        await d.send(listed(), 1)
        assert (d.informer.is_ready, d.informer.readiness.error) == (True, None)


@virtual
async def test_a_progress_callback_that_raises_does_not_stop_the_informer() -> None:
    async with open_informer() as d:
        d.informer.on_progress(lambda changes: 1 / 0)  # type: ignore[arg-type]  # raises first
        await d.send(listed(cached_site("a")), 1)
        assert (len(d.store), d.informer.observed) == (1, "1")
        assert "division by zero" in d.reported[0]


@virtual
async def test_a_watch_that_ends_unexpectedly_is_reported_and_restarted() -> None:
    async with open_informer() as d:
        await d.send(listed(cached_site("a")), 1)
        d.feed.batches.close()
        await asyncio.sleep(0.5)
        d.feed.batches = Channel(capacity=None)
        await asyncio.sleep(1)
        await d.send(applied(cached_site("b")), 3)
        assert (d.made, len(d.store), d.informer.stats().errors) == (2, 2, 1)
        assert d.reported == ["the watch of example.dev/v1 Site failed and is restarted: the watch has ended by itself"]


@virtual
async def test_an_index_can_be_added_while_others_run() -> None:
    async with open_informer() as d:
        await d.send(listed(*(cached_site(f"s{n}", n) for n in range(1000))), 1)
        image = Index(Site, lambda site: site.spec.image, name="image")
        turns = 0
        adding = asyncio.create_task(d.informer.add_index(image))
        while not adding.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 4
        assert len(d.store.by(image, "nginx")) == 1000


@virtual
async def test_an_informer_goes_on_when_its_watch_cannot_be_reopened_or_its_report_fails_or_awaits_a_cancelled_future(
    caplog: pytest.LogCaptureFixture,
) -> None:
    feed, opened = Feed(), list[str]()

    class Broken(Feed):
        def __init__(self, error: BaseException) -> None:
            super().__init__()
            self.failure = error

        async def _read(self) -> AsyncGenerator[list[Event[Any]], None]:
            raise self.failure
            yield []

    def watch(_: OnError) -> Feed:
        opened.append("")
        match len(opened):
            case 1:
                return Broken(asyncio.CancelledError())  # of something that it awaited, not of its task
            case 2:
                return Broken(OSError("the line is dead"))
            case 3:
                raise ValueError("a wrong option")
            case _:
                return feed

    def report(where: str, error: Exception) -> None:
        raise RuntimeError("this report failed")

    informer = Informer(Scope(VIEW.gvk), VIEW, watch, report=report, backoff=Backoff(first=1, jitter=0))
    informer.start()
    await asyncio.sleep(30)
    await feed.send(listed(cached_site("a")), 5)
    assert (informer.is_ready, informer.stats().errors, len(opened)) == (True, 3, 4)
    assert "this report failed" in caplog.text
    await informer.aclose()


@virtual
async def test_a_subscriber_that_cannot_take_a_change_gets_every_object_again_and_the_others_get_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_informer() as d:
        await d.send(listed(cached_site("a")), 5)
        first, second = [d.informer.subscribe(VIEW, replay=False) for _ in range(2)]

        def broken(changes: Sequence[Change[Any]]) -> None:
            monkeypatch.undo()
            raise OSError("injected")

        monkeypatch.setattr(first, "_take", broken)
        await d.send(applied(cached_site("b")), 6)
        assert [one.ref.name for one in second.drain()] == ["b"]
        assert sorted(one.ref.name for one in first.drain()) == ["a", "b"]
        assert (d.informer.stats().errors, d.made) == (1, 1)
        assert "injected" in d.reported[0]
