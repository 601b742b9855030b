"""Conflation: a slow subscriber gets one change for each object."""

from levelset.objects.cached_object import CachedObject
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.subscribers import ConflatedChanges, Replay
from tests.runtime.cache.sites import VIEW, Site, cached_site, summarize

A1, A2, A3 = (cached_site("a", version) for version in (1, 2, 3))
B1 = cached_site("b", 1)


def change(old: CachedObject | None, new: CachedObject | None, *, is_initial: bool = False) -> Change[Site]:
    cached = old if new is None else new
    assert cached is not None
    return Change(f"default/{cached.head.name}", old, new, VIEW, is_initial)


def drained(queue: ConflatedChanges[Site]) -> list[str]:
    return list(summarize(iter(queue.pop, None)))


def test_two_changes_of_one_object_are_one_from_the_first_old_to_the_latest_new() -> None:
    queue: ConflatedChanges[Site] = ConflatedChanges()
    for one in (change(A1, A2), change(None, B1), change(A2, A3)):
        queue.put(one)
    assert drained(queue) == ["a1>a3", "+b1"]


def test_an_object_that_was_added_and_deleted_is_dropped() -> None:
    queue: ConflatedChanges[Site] = ConflatedChanges()
    queue.put(change(None, A1, is_initial=True))
    queue.put(change(A1, None))
    assert (len(queue), queue.initial, drained(queue)) == (0, 0, [])


def test_an_object_that_was_deleted_and_recreated_is_one_change_with_another_uid() -> None:
    queue: ConflatedChanges[Site] = ConflatedChanges()
    queue.put(change(A1, None))
    queue.put(change(None, cached_site("a", 9, uid="second")))
    one = queue.pop()
    assert one is not None
    assert (summarize([one]), one.is_recreated) == (["a1>a9"], True)


def test_an_initial_object_that_changes_before_it_is_seen_is_still_initial() -> None:
    queue: ConflatedChanges[Site] = ConflatedChanges()
    queue.put(change(None, A1, is_initial=True))
    queue.put(change(A1, A2))
    assert queue.initial == 1
    assert drained(queue) == ["*+a2"]
    assert queue.initial == 0


def test_a_queue_never_holds_more_than_one_entry_for_each_object() -> None:
    queue: ConflatedChanges[Site] = ConflatedChanges()
    for version in range(1000):
        queue.put(change(cached_site("a", version), cached_site("a", version + 1)))
        queue.put(change(None, cached_site(f"b{version}", 1)))
        queue.put(change(cached_site(f"b{version}", 1), None))
    assert len(queue) == 1
    assert len(queue._order) < 100


def test_a_replay_shows_each_object_once_in_its_latest_state() -> None:
    replay = Replay({"default/a": A1, "default/b": B1}, VIEW)
    assert replay.absorb(change(A1, A2))
    assert not replay.absorb(change(None, cached_site("c")))
    assert summarize(replay.take(1)) == ["*+a2"]
    assert not replay.absorb(change(A2, A3))  # already delivered: this is a new change
    assert replay.absorb(change(B1, None))
    assert (summarize(replay.take(9)), len(replay)) == ([], 0)


def test_a_resync_delivers_unchanged_objects_and_skips_those_with_a_queued_change() -> None:
    replay = Replay({"default/a": A1, "default/b": B1}, VIEW, is_resync=True)
    assert not replay.absorb(change(A1, A2))  # the reader gets this one instead
    assert summarize(replay.take(9)) == ["=b1>b1"]


def test_a_change_during_a_resync_is_delivered_as_a_change() -> None:
    echo = Change("default/a", A1, A1, VIEW, is_resync=True)
    both = echo.then(change(A1, A2))
    assert both is not None
    assert summarize([both]) == ["a1>a2"]
