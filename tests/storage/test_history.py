from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import Expired
from levelset.storage import Change, FutureRevision, Item
from levelset.storage.history import History, Limits, undo
from levelset.storage.mvcc import MvccWatch


def make_history(*, compacted: int = 0, limits: Limits | None = None) -> History:
    return History(compacted=compacted, changes=[], limits=limits or Limits(), ring=lambda: None)


def put(revision: int, key: str, *, old: bytes | None = None) -> Change:
    before = None if old is None else Item(key, old, revision - 1, 1, 1)
    return Change(revision, key, before, Item(key, b"new", revision, 1, 1))


def fill(history: History, number: int, *, old: bytes | None = None) -> None:
    for revision in range(history.revision + 1, history.revision + 1 + number):
        history.append(put(revision, "/a", old=old))


def test_the_revision_is_that_of_the_newest_change():
    history = make_history(compacted=10)
    assert history.revision == 10
    history.append(put(11, "/a"))
    assert history.revision == 11


def test_undo_returns_the_state_of_each_key_before_the_first_change():
    first = Item("/p/a", b"1", 1, 1, 1)
    second = Item("/p/a", b"2", 2, 1, 2)
    changes = [
        Change(2, "/p/a", first, second),
        Change(3, "/p/b", None, Item("/p/b", b"", 3, 3, 1)),
        Change(4, "/p/a", second, None),
        Change(5, "/q/a", None, Item("/q/a", b"", 5, 5, 1)),
    ]
    assert undo(changes, "/p/") == {"/p/a": first, "/p/b": None}
    assert undo(changes[2:], "/p/") == {"/p/a": second}
    assert undo([], "/p/") == {}


def test_the_past_can_be_read_until_it_is_compacted():
    history = make_history()
    fill(history, 5)
    history.compact(2)
    assert [change.revision for change in history.since(2)] == [3, 4, 5]
    assert list(history.since(5)) == []
    with pytest.raises(Expired, match=r"revision 1 is compacted \(up to 2\)"):
        history.since(1)
    with pytest.raises(FutureRevision, match="Timeout: Too large resource version: 6, current: 5"):
        history.since(6)


def test_a_future_revision_has_the_status_that_clients_know():
    error = FutureRevision(6, 5)
    assert (error.code, error.reason, error.causes[0].reason) == (504, "Timeout", "ResourceVersionTooLarge")


def test_compaction_never_goes_back_and_never_into_the_future():
    history = make_history()
    fill(history, 5)
    history.compact(3)
    history.compact(1)
    assert (history.compacted, history.revision) == (3, 5)
    with pytest.raises(FutureRevision):
        history.compact(6)
    history.compact(5)
    assert (history.compacted, history.revision, history.changes) == (5, 5, [])


def test_too_many_changes_are_forgotten_an_eighth_at_a_time():
    history = make_history(limits=Limits(changes=80))
    fill(history, 80)
    assert history.compacted == 0
    fill(history, 1)
    assert (history.compacted, len(history.changes)) == (11, 70)


def test_the_bytes_counted_are_those_of_the_superseded_values():
    history = make_history(limits=Limits(bytes=1000))
    fill(history, 20, old=None)
    assert history.bytes == 0
    fill(history, 10, old=b"x" * 100)
    assert (history.bytes, history.compacted) == (1000, 0)
    fill(history, 1, old=b"x" * 100)
    assert (history.bytes, history.compacted) == (800, 23)


def test_the_newest_change_is_retained_whatever_its_size():
    history = make_history(limits=Limits(bytes=10, changes=0))
    fill(history, 3, old=b"x" * 1000)
    assert (history.compacted, len(history.changes)) == (2, 1)


def test_changes_older_than_the_age_limit_are_forgotten():
    history = make_history(limits=Limits(age=80))
    for now in range(0, 200, 10):
        fill(history, 1)
        history.forget_older(now)
    assert history.compacted == 11
    assert history.revision == 20


def test_a_feed_is_shared_and_reaches_as_far_back_as_its_first_watcher():
    history = make_history()
    for revision in range(1, 7):
        history.append(put(revision, "/a" if revision % 2 else "/b"))
    late, late_position = history.subscribe("/a", 4)
    assert [change.revision for change in late.changes] == [5]
    early, early_position = history.subscribe("/a", 0)
    assert early is late
    assert [change.revision for change in early.changes] == [1, 3, 5]
    assert late.changes[late_position - late.first].revision == 5
    assert early.changes[early_position - early.first].revision == 1


def test_compaction_shortens_feeds_without_moving_positions():
    history = make_history()
    fill(history, 4)
    feed, _ = history.subscribe("/a", 0)
    position = feed.position_after(2)
    history.compact(2)
    assert len(feed.changes) == 2
    assert feed.changes[position - feed.first].revision == 3


PREFIXES = ("", "/", "/a/", "/a/b", "/a/bc", "/a/b/", "a", "/a/b/c/")


@pytest.mark.parametrize(
    "prefixes", [PREFIXES, *zip(PREFIXES, strict=True), *pairwise(PREFIXES), *pairwise(PREFIXES[::-1])]
)
def test_changes_reach_narrow_and_wide_feeds_once(prefixes: Sequence[str]):
    history = make_history()
    feeds = {prefix: history.subscribe(prefix, 0)[0] for prefix in prefixes}
    keys = ["/a/b", "/a/bcd", "/a/b/c/d", "a", "ab/c", "/x"]
    for revision, key in enumerate(keys, 1):
        history.append(put(revision, key))
    for prefix, feed in feeds.items():
        assert [change.key for change in feed.changes] == [key for key in keys if key.startswith(prefix)]


def test_the_wake_up_callback_is_called_once_until_due_watchers_are_taken():
    rings: list[None] = []
    history = History(compacted=0, changes=[], limits=Limits(), ring=lambda: rings.append(None))
    feed, _ = history.subscribe("/", 0)
    fill(history, 1)
    assert rings == []
    feed.waiting["me"] = lambda: None
    fill(history, 3)
    assert len(rings) == 1
    assert len(history.feeds.take_due()) == 1
    assert history.feeds.take_due() == []


def sparse_history(*revisions: int, compacted: int = 0) -> History:
    history = History(compacted=compacted, changes=[], limits=Limits(), ring=lambda: None)
    for revision in revisions:
        history.append(put(revision, "/a"))
    return history


@given(
    gaps=st.lists(st.integers(0, 5), max_size=12),
    compacted=st.integers(0, 40),
    further=st.integers(0, 3),
)
def test_the_changes_after_a_revision_are_found_whether_revisions_are_consecutive_or_not(gaps, compacted, further):
    revisions = [sum(gaps[: number + 1]) + 1 for number in range(len(gaps))]  # a gap of 0 shares the revision
    history = sparse_history(*revisions)
    history.advance(history.revision + further)
    compacted = min(compacted, history.revision)
    history.compact(compacted)
    assert history.revision == max(revisions, default=0) + further
    for revision in range(compacted, history.revision + 1):
        wanted = [one for one in revisions if one > revision]
        assert [change.revision for change in history.since(revision)] == wanted
        feed, position = history.subscribe("/a", revision)
        assert [change.revision for change in feed.changes[position - feed.first :]] == wanted
    with pytest.raises(FutureRevision):
        history.check(history.revision + 1)


def test_a_sparse_history_is_bounded_by_its_changes_and_not_by_their_revisions():
    history = make_history(limits=Limits(changes=8))
    for revision in range(10, 110, 10):
        history.append(put(revision, "/a"))
    assert [change.revision for change in history.changes] == [30, 40, 50, 60, 70, 80, 90, 100]
    assert history.compacted == 20


def test_history_moves_on_to_a_revision_that_changes_nothing_and_never_back():
    history = sparse_history(3)
    history.advance(7)
    history.advance(5)
    assert history.revision == 7
    assert history.since(6) == []


def test_watches_pass_over_a_gap_and_reads_inside_it_are_expired():
    history = sparse_history(3)
    for revision in (8, 9):
        history.append(put(revision, "/a"))
    history.add_gap(3, 9)
    assert len(history.since(3)) == 2
    assert history.since(9) == []
    with pytest.raises(Expired, match="not known any more"):
        history.since(5)
    assert len(history.subscribe("/a", 5)[0].changes) == 2
    history.compact(9)
    history.append(put(12, "/a"))
    assert len(history.since(10)) == 1


async def test_a_batch_never_splits_the_changes_of_one_revision():
    history = sparse_history(*range(1, 1000), *[1000] * 5, 1001)
    watch = MvccWatch(history, "/a", after=0, is_over=lambda: False)
    assert [len(watch.batch_nowait()) for _ in range(3)] == [1004, 1, 0]
