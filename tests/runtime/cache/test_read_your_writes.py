"""Unseen writes, without a server and without waiting."""

from hypothesis import given
from hypothesis import strategies as st

from levelset.objects.cached_object import Head
from levelset.runtime.cache.read_your_writes import UnseenWrite, UnseenWrites

__all__: list[str] = []

KEY = "default/blog"


class Shown(dict[str, Head]):
    """The cached objects, as UnseenWrites reads them."""

    def put(self, key: str, version: int, uid: str = "u1") -> Head:
        self[key] = Head(name=key, uid=uid, resource_version=str(version))
        return self[key]


def keys(entries: list[UnseenWrite]) -> list[str]:
    return [entry.key for entry in entries]


def wrote(
    writes: UnseenWrites,
    version: str | None,
    *,
    key: str = KEY,
    uid: str | None = None,
    held: Head | None = None,
    is_outside: bool = False,
) -> None:
    writes.record(key, version, uid=uid, held=held, is_outside=is_outside)


def test_a_write_is_unseen_until_the_cache_has_observed_its_version() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.observe("5")
    wrote(writes, "7")
    assert keys(writes.unseen(KEY, shown.get)) == [KEY]
    writes.observe("6")
    assert keys(writes.unseen(KEY, shown.get)) == [KEY]
    writes.observe("7")
    assert writes.unseen(KEY, shown.get) == []
    assert len(writes) == 0


def test_a_write_is_seen_when_the_cache_has_its_key_at_that_version_or_a_later_one() -> None:
    writes, shown = UnseenWrites(), Shown()
    wrote(writes, "7")
    shown.put(KEY, 6)
    assert writes.unseen(KEY, shown.get)
    shown.put(KEY, 8)
    assert not writes.unseen(KEY, shown.get)


def test_a_write_whose_event_arrived_before_its_response_is_not_waited_for() -> None:
    writes = UnseenWrites()
    writes.observe("9")
    wrote(writes, "9")
    assert len(writes) == 0


def test_a_get_waits_for_its_own_key_only_and_a_list_for_all_of_its_namespace() -> None:
    writes, shown = UnseenWrites(), Shown()
    wrote(writes, "7", key="default/blog")
    wrote(writes, "8", key="other/shop")
    assert keys(writes.unseen("default/blog", shown.get)) == ["default/blog"]
    assert writes.unseen("default/news", shown.get) == []
    assert keys(writes.unseen_in("other", shown.get)) == ["other/shop"]
    assert keys(writes.unseen_in(None, shown.get)) == ["default/blog", "other/shop"]
    assert writes.unseen_in("oth", shown.get) == []


def test_of_several_writes_to_a_key_the_last_is_waited_for_in_any_order_of_responses() -> None:
    writes, shown = UnseenWrites(), Shown()
    wrote(writes, "9")
    wrote(writes, "8")
    writes.observe("8")
    assert [entry.version for entry in writes.unseen(KEY, shown.get)] == [9]


def test_a_deletion_is_seen_when_the_cache_no_longer_has_its_uid() -> None:
    writes, shown = UnseenWrites(), Shown()
    held = shown.put(KEY, 5)
    writes.observe("5")
    writes.record_gone(KEY, "u1", held=held)
    writes.observe("6")
    assert writes.unseen(KEY, shown.get)
    del shown[KEY]
    assert not writes.unseen(KEY, shown.get)


def test_a_deletion_is_seen_when_another_object_has_its_name() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_gone(KEY, "u1", held=shown.put(KEY, 5, "u1"))
    shown.put(KEY, 9, "u2")
    assert not writes.unseen(KEY, shown.get)


def test_a_deletion_that_the_cache_saw_before_the_response_is_not_waited_for() -> None:
    writes = UnseenWrites()
    writes.observe_gone("u1")
    writes.record_gone(KEY, "u1", held=None)
    assert len(writes) == 0


def test_the_deletion_of_an_object_that_the_cache_has_not_seen_is_waited_for() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_gone(KEY, "u1", held=None)
    assert writes.unseen(KEY, shown.get), "absent, because it has not come yet"
    shown.put(KEY, 5, "u1")
    assert writes.unseen(KEY, shown.get)
    del shown[KEY]
    writes.observe_gone("u1")
    assert not writes.unseen(KEY, shown.get)


def test_an_object_created_and_deleted_before_the_cache_saw_either_stays_unseen_until_the_deletion() -> None:
    writes, shown = UnseenWrites(), Shown()
    wrote(writes, "7", uid="u1")
    writes.record_gone(KEY, "u1", held=None)
    shown.put(KEY, 7, "u1")
    writes.observe("7")
    assert writes.unseen(KEY, shown.get)
    del shown[KEY]
    writes.observe_gone("u1")
    writes.observe("8")
    assert not writes.unseen(KEY, shown.get)


def test_an_object_that_is_created_again_is_waited_for_by_its_new_version() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_gone(KEY, "u1", held=shown.put(KEY, 5, "u1"))
    wrote(writes, "8", uid="u2")
    del shown[KEY]
    assert writes.unseen(KEY, shown.get), "gone, but not yet there again"
    writes.observe("8")
    assert not writes.unseen(KEY, shown.get)


def test_an_observed_recreation_ends_the_wait_for_the_deletion() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_gone(KEY, "u1", held=shown.put(KEY, 5, "u1"))
    writes.observe("9")
    wrote(writes, "9", uid="u2")
    assert len(writes) == 0


def test_an_update_response_after_the_deletion_does_not_hide_the_deletion() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_gone(KEY, "u1", held=shown.put(KEY, 5, "u1"))
    wrote(writes, "6", uid="u1")
    writes.observe("6")
    shown.put(KEY, 6, "u1")
    assert writes.unseen(KEY, shown.get)


def test_a_deletion_without_a_uid_uses_the_uid_of_the_cached_object() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_gone(KEY, None, held=shown.put(KEY, 5, "u1"))
    assert writes.unseen(KEY, shown.get)
    del shown[KEY]
    assert not writes.unseen(KEY, shown.get)
    writes.record_gone(KEY, None, held=None)
    assert len(writes) == 0


def test_a_write_without_a_version_is_not_waited_for() -> None:
    writes = UnseenWrites()
    wrote(writes, None)
    wrote(writes, "")
    assert len(writes) == 0


def test_a_version_that_is_not_a_number_is_not_waited_for_but_recognized_in_the_cache() -> None:
    writes, shown = UnseenWrites(), Shown()
    wrote(writes, "x-17")
    assert [entry.is_late for entry in writes.unseen(KEY, shown.get)] == [True]
    writes.observe("99")
    assert writes.unseen(KEY, shown.get)
    shown[KEY] = Head(name=KEY, resource_version="x-17")
    assert not writes.unseen(KEY, shown.get)


def test_a_version_of_five_thousand_digits_is_not_a_number() -> None:
    writes = UnseenWrites()
    wrote(writes, "1" * 5000)
    writes.observe("1" * 5000)
    assert len(writes) == 1


def test_an_object_outside_of_the_selector_is_not_waited_for_unless_the_cache_holds_it() -> None:
    writes, shown = UnseenWrites(is_selective=True), Shown()
    wrote(writes, "7", is_outside=True)
    assert len(writes) == 0
    wrote(writes, "7", held=shown.put(KEY, 5), is_outside=True)
    assert writes.unseen(KEY, shown.get), "it is about to leave"
    writes.observe("7")
    assert not writes.unseen(KEY, shown.get)


def test_an_object_that_enters_and_leaves_the_selector_is_waited_for_until_it_left() -> None:
    writes, shown = UnseenWrites(is_selective=True), Shown()
    wrote(writes, "7")
    wrote(writes, "8", is_outside=True)
    assert [entry.version for entry in writes.unseen(KEY, shown.get)] == [8]


def test_an_object_that_left_the_selector_unseen_is_waited_for_once_the_cache_has_it() -> None:
    writes, shown = UnseenWrites(is_selective=True), Shown()
    wrote(writes, "7", is_outside=True)
    assert not writes.unseen(KEY, shown.get)
    shown.put(KEY, 5)
    assert writes.unseen(KEY, shown.get), "another client created it, and the event of the own write is yet to come"
    del shown[KEY]
    assert not writes.unseen(KEY, shown.get)
    writes.observe("7")
    assert writes.is_empty


def test_the_deletion_of_an_object_outside_of_a_selective_cache_is_not_waited_for_unless_it_appears() -> None:
    writes, shown = UnseenWrites(is_selective=True), Shown()
    writes.record_gone(KEY, "u1", held=None)
    assert len(writes) == 0
    assert not writes.unseen(KEY, shown.get)
    shown.put(KEY, 5, "u1")
    assert writes.unseen(KEY, shown.get)
    shown.put(KEY, 6, "u2")
    assert not writes.unseen(KEY, shown.get)


def test_silent_writes_are_bounded_too_and_dropped_first() -> None:
    writes, shown = UnseenWrites(limit=10, is_selective=True), Shown()
    for number in range(100):
        writes.record_gone(f"default/{number}", str(number), held=None)
    assert not writes.unseen_in(None, shown.get)
    assert shown.put("default/99", 5, "99") is not None
    assert keys(writes.unseen_in(None, shown.get)) == ["default/99"]


def test_a_deletecollection_is_waited_for_by_every_read() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_many("7")
    writes.observe("7")
    vague = writes.unseen(KEY, shown.get)
    assert [entry.is_vague for entry in vague] == [True]
    writes.settle(vague, "9")
    assert writes.unseen_in("default", shown.get)
    writes.observe("9")
    assert not writes.unseen(KEY, shown.get)


def test_a_vague_deletion_with_a_learned_version_is_seen_when_that_is_observed() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_gone(KEY, "u1", held=None)
    writes.observe("9")
    writes.settle(writes.unseen(KEY, shown.get), "9")
    assert len(writes) == 0


def test_a_vague_deletion_with_a_learned_version_is_also_seen_when_the_object_is_deleted() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.record_gone(KEY, "u1", held=None)
    writes.settle(writes.unseen(KEY, shown.get), "900")
    shown.put(KEY, 5, "u1")
    assert writes.unseen(KEY, shown.get)
    del shown[KEY]
    writes.observe_gone("u1")
    assert not writes.unseen(KEY, shown.get)


def test_versions_that_go_back_clear_the_unseen_writes() -> None:
    writes = UnseenWrites()
    writes.observe("100")
    wrote(writes, "120")
    writes.observe("3")
    assert len(writes) == 0


def test_unseen_writes_are_bounded_and_folded_entries_are_still_waited_for() -> None:
    writes, shown = UnseenWrites(limit=10), Shown()
    for number in range(1, 100):
        wrote(writes, str(number), key=f"default/{number}")
    assert len(writes) <= 11
    assert writes.unseen("default/1", shown.get)
    writes.observe("99")
    assert len(writes) == 0


def test_the_retained_uids_of_deleted_objects_are_bounded() -> None:
    writes = UnseenWrites(limit=10)
    for number in range(100):
        writes.observe_gone(str(number))
    writes.record_gone(KEY, "99", held=None)
    assert len(writes) == 0
    writes.record_gone(KEY, "1", held=None)
    assert len(writes) == 1


Step = tuple[str, int, int]


@given(st.lists(st.tuples(st.sampled_from("cud"), st.integers(0, 2), st.integers(0, 3)), max_size=40))
def test_without_unseen_writes_the_cache_is_not_older_than_the_last_own_write(
    steps: list[Step],
) -> None:
    """Own writes to three keys; after each, the cache applies some of the pending events."""
    server, cache, writes = World(), Shown(), UnseenWrites()
    written: dict[str, int] = {}
    for verb, number, taken in steps:
        key = f"default/{number}"
        server.write(verb, key, writes, cache)
        written[key] = server.revision
        server.deliver(taken, writes, cache)
        for each, revision in written.items():
            if not writes.unseen(each, cache.get):
                assert server.delivered >= revision or cache.get(each) == server.state.get(each)
    server.deliver(len(server.events), writes, cache)
    assert not writes.unseen_in(None, cache.get)
    assert cache == server.state


class World:
    """A minimal server: its state, and the watch events that are not delivered yet."""

    def __init__(self) -> None:
        self.state: dict[str, Head] = {}
        self.events: list[tuple[str, Head | None, int]] = []
        self.revision = self.delivered = 0

    def write(self, verb: str, key: str, writes: UnseenWrites, cache: Shown) -> None:
        old = self.state.get(key)
        self.revision += 1
        if verb == "d" and old is not None:
            del self.state[key]
            self.events.append((key, None, self.revision))
            writes.record_gone(key, old.uid, held=cache.get(key))
        elif verb != "d":
            uid = f"u{self.revision}" if old is None else old.uid
            self.state[key] = Head(name=key, uid=uid, resource_version=str(self.revision))
            self.events.append((key, self.state[key], self.revision))
            writes.record(key, str(self.revision), uid=uid, held=cache.get(key), is_outside=False)

    def deliver(self, count: int, writes: UnseenWrites, cache: Shown) -> None:
        for key, head, revision in self.events[:count]:
            old = cache.pop(key, None)
            if head is not None:
                cache[key] = head
            elif old is not None:
                writes.observe_gone(old.uid)
            self.delivered = revision
            writes.observe(str(revision))
        del self.events[:count]


def test_a_seen_deletion_is_dropped_even_if_its_key_is_never_read() -> None:
    writes, shown = UnseenWrites(limit=100), Shown()
    writes.observe("5")
    for number in range(1000):
        key, uid = f"default/{number}", f"u{number}"
        writes.record_gone(key, uid, held=shown.put(key, 3, uid))
        assert not writes.is_empty
        del shown[key]
        writes.observe_gone(uid)
        assert writes.is_empty


def test_a_seen_deletion_does_not_affect_a_later_write_to_its_key() -> None:
    writes, shown = UnseenWrites(), Shown()
    writes.observe("5")
    writes.record_gone(KEY, "u1", held=shown.put(KEY, 3, "u1"))
    wrote(writes, "8", uid="u2", held=shown[KEY])
    del shown[KEY]
    writes.observe_gone("u1")
    assert keys(writes.unseen(KEY, shown.get)) == [KEY]
