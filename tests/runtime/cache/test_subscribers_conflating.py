"""What a slow reader is owed: one change for each object."""

from levelset.objects.cached_object import Kept
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.subscribers import Conflated, Replay
from tests.runtime.cache.shelf import VIEW, Site, kept_site, said

A1, A2, A3 = (kept_site("a", version) for version in (1, 2, 3))
B1 = kept_site("b", 1)


def change(old: Kept | None, new: Kept | None, *, is_initial: bool = False) -> Change[Site]:
    kept = old if new is None else new
    assert kept is not None
    return Change(f"default/{kept.head.name}", old, new, VIEW, is_initial)


def drained(queue: Conflated[Site]) -> list[str]:
    return list(said(iter(queue.pop, None)))


def test_two_changes_of_one_object_are_one_from_the_first_old_to_the_latest_new() -> None:
    queue: Conflated[Site] = Conflated()
    for one in (change(A1, A2), change(None, B1), change(A2, A3)):
        queue.put(one)
    assert drained(queue) == ["a1>a3", "+b1"]


def test_an_object_that_came_and_went_was_never_there() -> None:
    queue: Conflated[Site] = Conflated()
    queue.put(change(None, A1, is_initial=True))
    queue.put(change(A1, None))
    assert (len(queue), queue.initial, drained(queue)) == (0, 0, [])


def test_an_object_that_went_and_came_again_is_one_change_of_another_uid() -> None:
    queue: Conflated[Site] = Conflated()
    queue.put(change(A1, None))
    queue.put(change(None, kept_site("a", 9, uid="second")))
    one = queue.pop()
    assert one is not None
    assert (said([one]), one.is_recreated) == (["a1>a9"], True)


def test_an_initial_object_that_changes_before_it_is_seen_is_still_initial() -> None:
    queue: Conflated[Site] = Conflated()
    queue.put(change(None, A1, is_initial=True))
    queue.put(change(A1, A2))
    assert queue.initial == 1
    assert drained(queue) == ["*+a2"]
    assert queue.initial == 0


def test_a_queue_never_holds_more_than_one_entry_for_each_object() -> None:
    queue: Conflated[Site] = Conflated()
    for version in range(1000):
        queue.put(change(kept_site("a", version), kept_site("a", version + 1)))
        queue.put(change(None, kept_site(f"b{version}", 1)))
        queue.put(change(kept_site(f"b{version}", 1), None))
    assert len(queue) == 1
    assert len(queue._order) < 100


def test_a_replay_shows_each_object_once_in_its_latest_state() -> None:
    replay = Replay({"default/a": A1, "default/b": B1}, VIEW)
    assert replay.absorb(change(A1, A2))
    assert not replay.absorb(change(None, kept_site("c")))
    assert said(replay.take(1)) == ["*+a2"]
    assert not replay.absorb(change(A2, A3))  # it has been shown: this is news
    assert replay.absorb(change(B1, None))
    assert (said(replay.take(9)), len(replay)) == ([], 0)


def test_a_resync_shows_objects_as_unchanged_and_leaves_out_those_with_news() -> None:
    replay = Replay({"default/a": A1, "default/b": B1}, VIEW, is_resync=True)
    assert not replay.absorb(change(A1, A2))  # the reader gets this one instead
    assert said(replay.take(9)) == ["=b1>b1"]


def test_a_resync_that_meets_a_change_is_a_change() -> None:
    echo = Change("default/a", A1, A1, VIEW, is_resync=True)
    both = echo.then(change(A1, A2))
    assert both is not None
    assert said([both]) == ["a1>a2"]
