"""The machine's transitions, one by one: what it is told, what it tells, and what it wants next."""

import pytest

from levelset.client.object_types import OnlyMetadata, View, view_of
from levelset.errors import (
    ApiError,
    BadObject,
    BadRequest,
    Cause,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerFailed,
    TooManyRequests,
    Unauthorized,
    UnknownKind,
    Unreachable,
)
from levelset.runtime.watch.machine import ListPage, Machine, OpenWatch, Phase, ReadWatch, Setback
from tests.runtime.watch.scripted import VIEW, bookmark, error, event, page
from tests.runtime.watch.world import Settings, in_words

GONE = Expired("too old resource version")
TOO_LARGE = ApiError("wait", code=504, causes=[Cause("", "ResourceVersionTooLarge", "Too large resource version")])
PASSING = [
    Unreachable("refused", is_sent=False),
    Unreachable("reset"),
    TimeoutError("no answer"),
    TooManyRequests("slow down"),
    ServerFailed("broken", code=500),
    ServerFailed("away", code=503),
    Unauthorized("who?"),
    Forbidden("no"),
]
LOST = [GONE, TOO_LARGE, NotFound("no such kind"), UnknownKind("no"), BadRequest("bad version"), BadObject("a line")]


def paging(**options) -> Machine[Settings]:
    return Machine(VIEW, streaming=False, **options)


def listed(machine: Machine[Settings], *names: str, version: str = "10") -> list[str]:
    assert isinstance(machine.step(), ListPage)
    return [in_words(one) for one in machine.listed(page(*names, version=version))]


def watching(version: str = "10", **options) -> Machine[Settings]:
    """A machine in the middle of a watch."""
    machine = paging(**options)
    listed(machine, version=version)
    assert machine.step() == OpenWatch(version)
    machine.opened()
    assert machine.step() == ReadWatch()
    return machine


def syncing(**options) -> Machine[Settings]:
    """A machine whose streaming list has been opened."""
    machine = Machine(VIEW, **options)
    assert machine.step() == OpenWatch(is_initial=True)
    machine.opened()
    return machine


def words(machine: Machine[Settings], *events) -> list[str]:
    return [in_words(one) for one in machine.received(events)]


def setback(machine: Machine[Settings]) -> Setback:
    step = machine.step()
    assert isinstance(step, Setback), step
    return step


# Lists in pages


def test_the_first_list_asks_for_the_newest_version_in_pages() -> None:
    assert paging(page_size=2).step() == ListPage(2)


def test_the_pages_of_a_list_are_followed_by_their_tokens_and_then_watched_from_its_version() -> None:
    machine = paging(page_size=2)
    assert [in_words(one) for one in machine.listed(page("a", "b", version="7", more="t1"))] == [
        "Init",
        "InitApply a",
        "InitApply b",
    ]
    assert machine.step() == ListPage(2, "t1")
    assert [in_words(one) for one in machine.listed(page("c", version="", more="t2"))] == ["InitApply c"]
    assert machine.step() == ListPage(2, "t2")
    assert [in_words(one) for one in machine.listed(page("d", version="7"))] == ["InitApply d", "InitDone"]
    assert (machine.resource_version, machine.step()) == ("7", OpenWatch("7"))


def test_the_version_of_a_list_is_known_only_when_it_is_complete() -> None:
    machine = paging()
    machine.listed(page("a", version="7", more="t1"))
    assert machine.resource_version is None


def test_a_list_without_a_version_is_begun_again() -> None:
    machine = paging()
    assert machine.listed(page("a", version="")) == []
    assert isinstance(setback(machine).error, BadObject)
    assert machine.step() == ListPage(500)


@pytest.mark.parametrize("problem", PASSING, ids=repr)
def test_a_page_that_fails_in_passing_is_asked_for_again(problem: Exception) -> None:
    machine = paging()
    machine.listed(page("a", more="t1"))
    machine.failed(problem)
    assert setback(machine) == Setback(problem)
    assert machine.step() == ListPage(500, "t1")
    assert [in_words(one) for one in machine.listed(page("b"))] == ["InitApply b", "InitDone"]


def test_a_page_that_expires_leads_to_a_fresh_list_at_once() -> None:
    machine = paging()
    machine.listed(page("a", more="t1"))
    machine.failed(GONE)
    assert setback(machine) == Setback(GONE, waits=False)
    assert machine.step() == ListPage(500)
    assert [in_words(one) for one in machine.listed(page("b"))] == ["Init", "InitApply b", "InitDone"]


def test_pages_that_expire_again_lead_to_a_whole_list_after_a_while() -> None:
    machine = paging()
    for waits in (False, True):
        machine.listed(page("a", more="t1"))
        machine.failed(GONE)
        assert setback(machine) == Setback(GONE, waits=waits)
    assert machine.step() == ListPage(None)


def test_a_page_at_which_the_server_always_fails_is_given_up_for_a_fresh_list() -> None:
    machine = paging()
    machine.listed(page("a", more="t1"))
    for _ in range(3):
        assert machine.step() == ListPage(500, "t1")
        machine.failed(ServerFailed("broken"))
        setback(machine)
    assert machine.step() == ListPage(500)


def test_an_attempt_to_list_that_fails_tells_nothing() -> None:
    machine = paging()
    machine.failed(Unreachable("refused"))
    setback(machine)
    assert listed(machine, "a") == ["Init", "InitApply a", "InitDone"]


# Any version


def test_with_any_version_the_first_list_is_what_the_server_has_at_hand_and_not_paged() -> None:
    assert paging(any_version=True).step() == ListPage(None, None, "0")


def test_with_any_version_a_list_later_is_not_older_than_what_was_seen_and_not_paged() -> None:
    machine = watching(any_version=True)
    machine.failed(NotFound("gone"))
    setback(machine)
    assert machine.step() == ListPage(None, None, "10", is_at_least=True)


@pytest.mark.parametrize("problem", [GONE, TOO_LARGE], ids=repr)
def test_with_any_version_one_that_the_server_does_not_have_leads_to_the_newest(problem: Exception) -> None:
    machine = paging(any_version=True)
    machine.failed(problem)
    setback(machine)
    assert machine.step() == ListPage(500)


def test_with_any_version_a_streaming_list_asks_for_it_too() -> None:
    assert Machine(VIEW, any_version=True).step() == OpenWatch("0", is_initial=True)


# Watching


def test_what_is_added_or_modified_is_applied_and_what_is_deleted_is_deleted() -> None:
    machine = watching()
    events = event("ADDED", "a", "11"), event("MODIFIED", "a", "12"), event("DELETED", "b", "13")
    assert words(machine, *events) == ["Apply a", "Apply a", "Delete b"]
    assert (machine.resource_version, machine.step()) == ("13", ReadWatch())


def test_a_bookmark_moves_the_version_and_tells_nothing() -> None:
    machine = watching()
    assert words(machine, bookmark("20")) == []
    assert (machine.resource_version, machine.bookmarks) == ("20", 1)


def test_a_bookmark_without_a_version_is_no_matter() -> None:
    machine = watching()
    assert words(machine, bookmark(""), event("ADDED", "a", "11")) == ["Apply a"]
    assert machine.step() == ReadWatch()


def test_an_older_event_is_told_but_does_not_move_the_version_back() -> None:
    machine = watching("100")
    assert words(machine, event("MODIFIED", "a", "101"), event("MODIFIED", "b", "99")) == ["Apply a", "Apply b"]
    assert machine.resource_version == "101"


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    machine = watching("abc")
    words(machine, event("MODIFIED", "a", "zz"), event("MODIFIED", "a", "aa"))
    assert machine.resource_version == "aa"


def test_versions_are_compared_as_numbers() -> None:
    machine = watching("99")
    words(machine, event("MODIFIED", "a", "100"))
    assert machine.resource_version == "100"


def test_a_bookmark_from_before_the_watch_began_says_that_the_server_has_lost_something() -> None:
    machine = watching("100")
    words(machine, bookmark("50"))
    assert isinstance(setback(machine).error, Expired)
    assert machine.step() == ListPage(500)


def test_an_object_without_a_version_leads_to_a_list_and_is_not_told() -> None:
    machine = watching()
    assert words(machine, event("ADDED", "a", "11"), event("ADDED", "b", ""), event("ADDED", "c", "13")) == ["Apply a"]
    assert isinstance(setback(machine).error, BadObject)
    assert (machine.step(), machine.resource_version) == (ListPage(500), "11")


def test_an_event_about_another_kind_is_skipped_and_told() -> None:
    machine = watching()
    assert words(machine, event("ADDED", "a", "11", kind="Table"), event("ADDED", "b", "12")) == ["Apply b"]
    assert "Table" in str(machine.skipped[0])
    assert machine.step() == ReadWatch()


def test_metadata_come_as_another_kind_and_are_not_skipped() -> None:
    view: View[Settings] = view_of(OnlyMetadata(Settings))
    machine = Machine(view, streaming=False)
    machine.listed(page())
    machine.opened()
    made = event("ADDED", "a", "11", kind="PartialObjectMetadata", apiVersion="meta.k8s.io/v1")
    assert words(machine, made) == ["Apply a"]
    assert machine.skipped == []


# The end of a watch


def test_a_watch_that_ends_goes_on_at_the_last_version_without_a_list_or_a_wait() -> None:
    machine = watching()
    words(machine, event("ADDED", "a", "11"))
    machine.ended(lasted=290.0)
    assert machine.step() == OpenWatch("11")


def test_a_watch_that_ends_at_once_without_anything_new_has_failed() -> None:
    machine = watching()
    machine.ended(lasted=0.5)
    assert setback(machine).waits
    assert machine.step() == OpenWatch("10")


def test_a_bookmark_of_the_same_version_is_nothing_new() -> None:
    machine = watching()
    words(machine, bookmark("10"))
    machine.ended(lasted=0.0)
    assert setback(machine).waits


def test_a_watch_that_ends_at_once_after_an_event_goes_on_but_not_twice_in_a_row() -> None:
    machine = watching()
    for version, step in (("11", OpenWatch), ("12", Setback)):
        words(machine, event("MODIFIED", "a", version))
        machine.ended(lasted=0.0)
        assert isinstance(machine.step(), step)
        machine.opened()


def test_a_dead_watch_goes_on_at_the_last_version() -> None:
    machine = watching()
    machine.idled()
    assert machine.step() == OpenWatch("10")


@pytest.mark.parametrize("problem", PASSING, ids=repr)
def test_a_watch_that_breaks_in_passing_goes_on_at_the_last_version_after_a_while(problem: Exception) -> None:
    machine = watching()
    words(machine, event("ADDED", "a", "11"))
    machine.failed(problem, lasted=5.0)
    assert setback(machine) == Setback(problem)
    assert machine.step() == OpenWatch("11")


@pytest.mark.parametrize("problem", [one for one in PASSING if isinstance(one, ApiError)], ids=repr)
def test_an_error_on_the_stream_is_told_after_what_came_before_it(problem: ApiError) -> None:
    machine = watching()
    assert words(machine, event("ADDED", "a", "11"), error(problem), event("ADDED", "b", "12")) == ["Apply a"]
    assert setback(machine) == Setback(problem)
    assert machine.step() == OpenWatch("11")


@pytest.mark.parametrize("problem", LOST, ids=repr)
def test_a_watch_that_cannot_go_on_leads_to_a_fresh_list(problem: Exception) -> None:
    for machine in (watching(), watching()):
        machine.failed(problem)
        assert setback(machine).error is problem
        assert machine.step() == ListPage(500)


def test_an_expired_version_leads_to_a_list_in_every_form_it_comes_in() -> None:
    on_stream, on_opening, on_end = watching(), watching(), watching()
    words(on_stream, error(GONE))
    on_opening.ended(lasted=9.0)
    on_opening.failed(GONE)
    on_end.failed(GONE, lasted=9.0)
    for machine in (on_stream, on_opening, on_end):
        assert setback(machine) == Setback(GONE, waits=False)
        assert machine.step() == ListPage(500)


def test_a_server_at_which_every_version_has_expired_is_not_asked_without_a_wait() -> None:
    machine = watching()
    waits = []
    for _ in range(4):
        machine.failed(GONE)
        waits.append(setback(machine).waits)
        listed(machine, version="11")
        machine.opened()
    assert waits == [False, True, True, True]
    assert machine.failures == 3


def test_an_event_ends_the_suspicion_that_every_version_has_expired() -> None:
    machine = watching()
    for _ in range(3):
        machine.failed(GONE)
        assert not setback(machine).waits
        listed(machine)
        machine.opened()
        words(machine, event("ADDED", "a", "11"))


def test_a_version_at_which_the_server_always_fails_is_given_up_for_a_list() -> None:
    machine = watching()
    for _ in range(3):
        machine.failed(ServerFailed("required revision has been compacted"))
        setback(machine)
    assert machine.step() == ListPage(500)


def test_a_server_that_cannot_be_reached_is_asked_for_the_same_version_for_ever() -> None:
    machine = watching()
    for _ in range(50):
        machine.failed(Unreachable("refused"))
        setback(machine)
        assert machine.step() == OpenWatch("10")
    assert machine.failures == 50


@pytest.mark.parametrize("progress", [event("ADDED", "a", "11"), event("DELETED", "a", "11"), bookmark("11")])
def test_progress_resets_the_failures_and_nothing_else_does(progress) -> None:
    machine = watching()
    machine.failed(Unreachable("reset"))
    setback(machine)
    machine.opened()
    assert machine.failures == 1
    words(machine, progress)
    assert machine.failures == 0


def test_a_complete_list_resets_the_failures() -> None:
    machine = paging()
    machine.failed(Unreachable("refused"))
    setback(machine)
    machine.listed(page("a", more="t1"))
    assert machine.failures == 1
    machine.listed(page("b"))
    assert machine.failures == 0


def test_a_fresh_list_tells_everything_again_between_init_and_init_done() -> None:
    machine = watching()
    machine.failed(GONE)
    setback(machine)
    assert listed(machine, "a", "b", version="20") == ["Init", "InitApply a", "InitApply b", "InitDone"]
    assert (machine.lists, machine.resource_version, machine.phase) == (2, "20", Phase.RESUMING)


def test_the_version_of_a_list_counts_even_if_it_is_older() -> None:
    machine = watching("100")
    machine.failed(GONE)
    setback(machine)
    listed(machine, version="5")
    assert machine.step() == OpenWatch("5")


# Streaming lists


def test_a_streaming_list_begins_with_init_and_ends_at_the_marked_bookmark_and_the_stream_goes_on() -> None:
    machine = syncing()
    assert words(machine, event("ADDED", "a", "3"), bookmark("4")) == ["Init", "InitApply a"]
    assert words(machine, event("ADDED", "b", "9"), bookmark("8", ends=True), event("MODIFIED", "a", "11")) == [
        "InitApply b",
        "InitDone",
        "Apply a",
    ]
    assert (machine.step(), machine.resource_version) == (ReadWatch(), "11")


def test_the_events_of_a_streaming_list_do_not_move_the_version() -> None:
    machine = syncing()
    words(machine, event("ADDED", "a", "99"))
    assert machine.resource_version is None
    words(machine, bookmark("50", ends=True))
    assert machine.resource_version == "50"


def test_an_empty_streaming_list_is_one_too() -> None:
    assert words(syncing(), bookmark("4", ends=True)) == ["Init", "InitDone"]


def test_a_watch_that_goes_on_does_not_ask_for_what_is_there_again() -> None:
    machine = syncing()
    words(machine, bookmark("4", ends=True))
    machine.ended(lasted=10.0)
    assert machine.step() == OpenWatch("4")


def test_a_delete_in_a_streaming_list_is_held_back_until_the_list_is_complete() -> None:
    machine = syncing()
    assert words(machine, event("ADDED", "a", "3"), event("DELETED", "a", "5")) == ["Init", "InitApply a"]
    assert words(machine, bookmark("6", ends=True)) == ["InitDone", "Delete a"]


def test_what_is_deleted_and_made_again_in_a_streaming_list_is_there() -> None:
    machine = syncing()
    words(machine, event("DELETED", "a", "5"), event("ADDED", "a", "6"))
    assert words(machine, bookmark("7", ends=True)) == ["InitDone"]


def test_a_streaming_list_whose_end_has_no_version_is_begun_again() -> None:
    machine = syncing()
    assert "InitDone" not in words(machine, event("ADDED", "a", "3"), bookmark("", ends=True))
    assert isinstance(setback(machine).error, BadObject)
    assert machine.step() == OpenWatch(is_initial=True)


def test_a_streaming_list_that_breaks_off_is_begun_again_with_init() -> None:
    machine = syncing()
    words(machine, event("ADDED", "a", "3"))
    machine.failed(Unreachable("reset"))
    assert setback(machine).waits
    assert machine.step() == OpenWatch(is_initial=True)
    machine.opened()
    assert words(machine, bookmark("4", ends=True)) == ["Init", "InitDone"]


def test_an_event_of_another_kind_in_a_streaming_list_is_skipped() -> None:
    machine = syncing()
    assert words(machine, event("ADDED", "a", "3", kind="Table"), bookmark("4", ends=True)) == ["Init", "InitDone"]
    assert len(machine.skipped) == 1


@pytest.mark.parametrize("refusal", [Invalid("forbidden"), BadRequest("what?"), ApiError("no", code=405)], ids=repr)
def test_a_server_that_refuses_streaming_lists_is_asked_for_pages_at_once_and_for_ever(refusal: ApiError) -> None:
    machine = Machine(VIEW)
    machine.failed(refusal)
    assert setback(machine) == Setback(refusal, waits=False)
    listed(machine)
    machine.opened()
    machine.failed(GONE)
    setback(machine)
    assert machine.step() == ListPage(500)


def test_whoever_insists_on_streaming_lists_gets_no_pages() -> None:
    machine = Machine(VIEW, streaming=True)
    for _ in range(5):
        machine.failed(Invalid("forbidden"))
        assert setback(machine).waits
        assert machine.step() == OpenWatch(is_initial=True)


@pytest.mark.parametrize("how", ["ended", "idled", "cut", "expired", "failed"])
def test_streaming_lists_of_which_nothing_ever_comes_are_given_up_for_pages(how: str) -> None:
    machine = Machine(VIEW)
    for _ in range(2):
        assert machine.step() == OpenWatch(is_initial=True)
        machine.opened()
        match how:
            case "ended":
                machine.ended(lasted=0.0)
            case "idled":
                machine.idled()
            case "cut":
                machine.failed(Unreachable("reset"))
            case "expired":
                assert words(machine, error(GONE)) == []
            case _:
                assert words(machine, error(ServerFailed("broken"))) == []
        setback(machine)
    assert machine.step() == ListPage(None if how == "expired" else 500)


@pytest.mark.parametrize("problem", [NotFound("no"), UnknownKind("no"), Unreachable("no"), Forbidden("no")], ids=repr)
def test_a_kind_or_server_that_is_not_there_says_nothing_about_streaming_lists(problem: Exception) -> None:
    machine = Machine(VIEW)
    for _ in range(9):
        machine.failed(problem)
        assert setback(machine).waits
        assert machine.step() == OpenWatch(is_initial=True)


def test_a_server_that_always_fails_at_streaming_lists_is_asked_for_pages() -> None:
    machine = Machine(VIEW)
    for _ in range(3):
        machine.failed(ServerFailed("broken"))
        setback(machine)
    assert machine.step() == ListPage(500)
