"""The transitions of the machine, one by one: its inputs, its events and its next step."""

import pytest

from levelset.client.object_types import OnlyMetadata, View, view_of
from levelset.client.watch_events import WatchEvent
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
from levelset.runtime.watch.machine import ListPage, Machine, OpenWatch, Phase, ReadWatch, Recover
from tests.runtime.watch.machine_inputs import VIEW, bookmark, error, event, page
from tests.runtime.watch.watch_bench import Settings, in_words

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


def recovery(machine: Machine[Settings]) -> Recover:
    step = machine.step()
    assert isinstance(step, Recover), step
    return step


# Lists in pages


def test_the_first_list_requests_the_most_recent_version_in_pages() -> None:
    assert paging(page_size=2).step() == ListPage(2)


def test_the_pages_of_a_list_are_requested_by_their_tokens_and_then_watched_from_its_version() -> None:
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


def test_a_list_without_a_version_is_started_over() -> None:
    machine = paging()
    assert machine.listed(page("a", version="")) == []
    assert isinstance(recovery(machine).error, BadObject)
    assert machine.step() == ListPage(500)


def test_a_list_that_starts_over_does_not_have_the_version_of_the_one_before_it() -> None:
    machine = paging()
    machine.listed(page("a", version="7", more="t1"))
    machine.failed(GONE)
    recovery(machine)
    assert machine.listed(page("a", version="")) == []
    assert isinstance(recovery(machine).error, BadObject)


@pytest.mark.parametrize("problem", PASSING, ids=repr)
def test_a_page_with_a_transient_error_is_requested_again(problem: Exception) -> None:
    machine = paging()
    machine.listed(page("a", more="t1"))
    machine.failed(problem)
    assert recovery(machine) == Recover(problem)
    assert machine.step() == ListPage(500, "t1")
    assert [in_words(one) for one in machine.listed(page("b"))] == ["InitApply b", "InitDone"]


def test_an_expired_page_leads_to_a_new_list_at_once() -> None:
    machine = paging()
    machine.listed(page("a", more="t1"))
    machine.failed(GONE)
    assert recovery(machine) == Recover(GONE, waits=False)
    assert machine.step() == ListPage(500)
    assert [in_words(one) for one in machine.listed(page("b"))] == ["Init", "InitApply b", "InitDone"]


def test_pages_that_expire_again_lead_to_an_unpaged_list_after_a_backoff() -> None:
    machine = paging()
    for waits in (False, True):
        machine.listed(page("a", more="t1"))
        machine.failed(GONE)
        assert recovery(machine) == Recover(GONE, waits=waits)
    assert machine.step() == ListPage(None)


def test_a_page_that_always_fails_is_given_up_for_a_new_list() -> None:
    machine = paging()
    machine.listed(page("a", more="t1"))
    for _ in range(3):
        assert machine.step() == ListPage(500, "t1")
        machine.failed(ServerFailed("broken"))
        recovery(machine)
    assert machine.step() == ListPage(500)


def test_a_failed_list_yields_no_events() -> None:
    machine = paging()
    machine.failed(Unreachable("refused"))
    recovery(machine)
    assert listed(machine, "a") == ["Init", "InitApply a", "InitDone"]


# Any version


def test_with_any_version_the_first_list_is_at_version_0_and_not_paged() -> None:
    assert paging(any_version=True).step() == ListPage(None, None, "0")


def test_with_any_version_a_relist_is_not_older_than_the_last_version_and_not_paged() -> None:
    machine = watching(any_version=True)
    machine.failed(NotFound("gone"))
    recovery(machine)
    assert machine.step() == ListPage(None, None, "10", is_at_least=True)


@pytest.mark.parametrize("problem", [GONE, TOO_LARGE], ids=repr)
def test_with_any_version_a_version_unknown_to_the_server_leads_to_the_most_recent(problem: Exception) -> None:
    machine = paging(any_version=True)
    machine.failed(problem)
    recovery(machine)
    assert machine.step() == ListPage(500)


def test_with_any_version_a_streaming_list_uses_it_too() -> None:
    assert Machine(VIEW, any_version=True).step() == OpenWatch("0", is_initial=True)


# Watching


def test_added_and_modified_become_apply_and_deleted_becomes_delete() -> None:
    machine = watching()
    events = event("ADDED", "a", "11"), event("MODIFIED", "a", "12"), event("DELETED", "b", "13")
    assert words(machine, *events) == ["Apply a", "Apply a", "Delete b"]
    assert (machine.resource_version, machine.step()) == ("13", ReadWatch())


def test_a_bookmark_advances_the_version_and_yields_no_event() -> None:
    machine = watching()
    assert words(machine, bookmark("20")) == []
    assert (machine.resource_version, machine.bookmarks) == ("20", 1)


def test_a_bookmark_older_than_an_event_before_it_does_not_move_the_version_back() -> None:
    machine = watching("10")
    assert words(machine, event("ADDED", "a", "20"), bookmark("15")) == ["Apply a"]
    assert (machine.resource_version, machine.step()) == ("20", ReadWatch())


def test_a_bookmark_without_a_version_is_ignored() -> None:
    machine = watching()
    assert words(machine, bookmark(""), event("ADDED", "a", "11")) == ["Apply a"]
    assert machine.step() == ReadWatch()


def test_an_older_event_is_yielded_but_does_not_move_the_version_back() -> None:
    machine = watching("100")
    events = [event("MODIFIED", "a", "105"), event("MODIFIED", "b", "99"), event("MODIFIED", "c", "103")]
    assert words(machine, *events) == ["Apply a", "Apply b", "Apply c"]
    assert machine.resource_version == "105"


def test_versions_that_are_not_numbers_are_applied_in_order_of_arrival() -> None:
    machine = watching("abc")
    words(machine, event("MODIFIED", "a", "zz"), event("MODIFIED", "a", "aa"))
    assert machine.resource_version == "aa"


def test_versions_are_compared_as_numbers() -> None:
    machine = watching("99")
    words(machine, event("MODIFIED", "a", "100"))
    assert machine.resource_version == "100"


def test_a_bookmark_from_before_the_start_of_the_watch_means_that_the_server_lost_data() -> None:
    machine = watching("100")
    assert words(machine, event("ADDED", "a", "101"), bookmark("50"), event("ADDED", "b", "102")) == ["Apply a"]
    assert isinstance(recovery(machine).error, Expired)
    assert (machine.step(), machine.resource_version, machine.bookmarks) == (ListPage(500), "101", 0)


def test_a_bookmark_without_an_object_leads_to_a_relist() -> None:
    machine = watching()
    assert words(machine, event("ADDED", "a", "11"), WatchEvent("BOOKMARK", None), event("ADDED", "b", "12")) == [
        "Apply a"
    ]
    assert isinstance(recovery(machine).error, BadObject)
    assert (machine.step(), machine.resource_version) == (ListPage(500), "11")


def test_an_object_without_a_version_leads_to_a_relist_and_is_not_yielded() -> None:
    machine = watching()
    assert words(machine, event("ADDED", "a", "11"), event("ADDED", "b", ""), event("ADDED", "c", "13")) == ["Apply a"]
    assert isinstance(recovery(machine).error, BadObject)
    assert (machine.step(), machine.resource_version) == (ListPage(500), "11")


def test_an_event_about_another_kind_is_skipped_and_reported() -> None:
    machine = watching()
    assert words(machine, event("ADDED", "a", "11", kind="Table"), event("ADDED", "b", "12")) == ["Apply b"]
    assert "Table" in str(machine.skipped[0])
    assert machine.step() == ReadWatch()


def test_partial_object_metadata_is_not_skipped() -> None:
    view: View[Settings] = view_of(OnlyMetadata(Settings))
    machine = Machine(view, streaming=False)
    machine.listed(page())
    machine.opened()
    made = event("ADDED", "a", "11", kind="PartialObjectMetadata", apiVersion="meta.k8s.io/v1")
    assert words(machine, made) == ["Apply a"]
    assert machine.skipped == []


# The end of a watch


def test_a_watch_that_ends_resumes_at_the_last_version_without_a_list_or_backoff() -> None:
    machine = watching()
    words(machine, event("ADDED", "a", "11"))
    machine.ended(lasted=290.0)
    assert machine.step() == OpenWatch("11")


def test_a_watch_that_ends_at_once_without_an_event_counts_as_failed() -> None:
    machine = watching()
    machine.ended(lasted=0.5)
    assert recovery(machine).waits
    assert machine.step() == OpenWatch("10")


def test_a_bookmark_of_the_same_version_is_not_progress() -> None:
    machine = watching()
    words(machine, bookmark("10"))
    machine.ended(lasted=0.0)
    assert recovery(machine).waits


def test_a_watch_that_ends_at_once_after_an_event_resumes_but_not_twice_in_a_row() -> None:
    machine = watching()
    for version, step in (("11", OpenWatch), ("12", Recover)):
        words(machine, event("MODIFIED", "a", version))
        machine.ended(lasted=0.0)
        assert isinstance(machine.step(), step)
        machine.opened()


def test_an_idle_watch_resumes_at_the_last_version() -> None:
    machine = watching()
    machine.idled()
    assert machine.step() == OpenWatch("10")


@pytest.mark.parametrize("problem", PASSING, ids=repr)
def test_a_watch_with_a_transient_error_resumes_at_the_last_version_after_a_backoff(problem: Exception) -> None:
    machine = watching()
    words(machine, event("ADDED", "a", "11"))
    machine.failed(problem, lasted=5.0)
    assert recovery(machine) == Recover(problem)
    assert machine.step() == OpenWatch("11")


@pytest.mark.parametrize("problem", [one for one in PASSING if isinstance(one, ApiError)], ids=repr)
def test_an_error_event_is_handled_after_the_events_before_it(problem: ApiError) -> None:
    machine = watching()
    assert words(machine, event("ADDED", "a", "11"), error(problem), event("ADDED", "b", "12")) == ["Apply a"]
    assert recovery(machine) == Recover(problem)
    assert machine.step() == OpenWatch("11")


@pytest.mark.parametrize("problem", LOST, ids=repr)
def test_a_watch_that_cannot_resume_leads_to_a_relist(problem: Exception) -> None:
    for machine in (watching(), watching()):
        machine.failed(problem)
        assert recovery(machine).error is problem
        assert machine.step() == ListPage(500)


def test_an_expired_version_in_any_form_leads_to_a_relist() -> None:
    on_stream, on_opening, on_end = watching(), watching(), watching()
    words(on_stream, error(GONE))
    on_opening.ended(lasted=9.0)
    on_opening.failed(GONE)
    on_end.failed(GONE, lasted=9.0)
    for machine in (on_stream, on_opening, on_end):
        assert recovery(machine) == Recover(GONE, waits=False)
        assert machine.step() == ListPage(500)


def test_a_server_on_which_every_version_is_expired_is_retried_with_a_wait() -> None:
    machine = watching()
    waits = []
    for _ in range(4):
        machine.failed(GONE)
        waits.append(recovery(machine).waits)
        listed(machine, version="11")
        machine.opened()
    assert waits == [False, True, True, True]
    assert machine.failures == 3


def test_an_event_resets_the_count_of_expired_versions() -> None:
    machine = watching()
    for _ in range(3):
        machine.failed(GONE)
        assert not recovery(machine).waits
        listed(machine)
        machine.opened()
        words(machine, event("ADDED", "a", "11"))


def test_a_version_that_always_fails_is_given_up_for_a_relist() -> None:
    machine = watching()
    for _ in range(3):
        machine.failed(ServerFailed("required revision has been compacted"))
        recovery(machine)
    assert machine.step() == ListPage(500)


def test_an_unreachable_server_is_retried_with_the_same_version_for_ever() -> None:
    machine = watching()
    for _ in range(50):
        machine.failed(Unreachable("refused"))
        recovery(machine)
        assert machine.step() == OpenWatch("10")
    assert machine.failures == 50


@pytest.mark.parametrize("progress", [event("ADDED", "a", "11"), event("DELETED", "a", "11"), bookmark("11")])
def test_progress_resets_the_failures_and_nothing_else_does(progress) -> None:
    machine = watching()
    machine.failed(Unreachable("reset"))
    recovery(machine)
    machine.opened()
    assert machine.failures == 1
    words(machine, progress)
    assert machine.failures == 0


def test_a_complete_list_resets_the_failures() -> None:
    machine = paging()
    machine.failed(Unreachable("refused"))
    recovery(machine)
    machine.listed(page("a", more="t1"))
    assert machine.failures == 1
    machine.listed(page("b"))
    assert machine.failures == 0


def test_a_relist_yields_all_objects_between_init_and_init_done() -> None:
    machine = watching()
    machine.failed(GONE)
    recovery(machine)
    assert listed(machine, "a", "b", version="20") == ["Init", "InitApply a", "InitApply b", "InitDone"]
    assert (machine.lists, machine.resource_version, machine.phase) == (2, "20", Phase.RESUMING)


def test_the_version_of_a_list_counts_even_if_it_is_older() -> None:
    machine = watching("100")
    machine.failed(GONE)
    recovery(machine)
    listed(machine, version="5")
    assert machine.step() == OpenWatch("5")


# Streaming lists


def test_a_streaming_list_starts_with_init_ends_at_the_marked_bookmark_and_becomes_the_watch() -> None:
    machine = syncing()
    assert words(machine, event("ADDED", "a", "3"), bookmark("4")) == ["Init", "InitApply a"]
    assert words(machine, event("ADDED", "b", "9"), bookmark("8", ends=True), event("MODIFIED", "a", "11")) == [
        "InitApply b",
        "InitDone",
        "Apply a",
    ]
    assert (machine.step(), machine.resource_version) == (ReadWatch(), "11")


def test_the_events_of_a_streaming_list_do_not_advance_the_version() -> None:
    machine = syncing()
    words(machine, event("ADDED", "a", "99"))
    assert machine.resource_version is None
    words(machine, bookmark("50", ends=True))
    assert machine.resource_version == "50"


def test_an_empty_streaming_list_completes() -> None:
    assert words(syncing(), bookmark("4", ends=True)) == ["Init", "InitDone"]


def test_a_resumed_watch_does_not_request_initial_events() -> None:
    machine = syncing()
    words(machine, bookmark("4", ends=True))
    machine.ended(lasted=10.0)
    assert machine.step() == OpenWatch("4")


def test_a_delete_during_a_streaming_list_is_yielded_after_the_list() -> None:
    machine = syncing()
    assert words(machine, event("ADDED", "a", "3"), event("DELETED", "a", "5")) == ["Init", "InitApply a"]
    assert words(machine, bookmark("6", ends=True)) == ["InitDone", "Delete a"]


def test_an_object_recreated_during_a_streaming_list_exists() -> None:
    machine = syncing()
    words(machine, event("DELETED", "a", "5"), event("ADDED", "a", "6"))
    assert words(machine, bookmark("7", ends=True)) == ["InitDone"]


def test_a_streaming_list_whose_end_has_no_version_is_started_over() -> None:
    machine = syncing()
    assert "InitDone" not in words(machine, event("ADDED", "a", "3"), bookmark("", ends=True))
    assert isinstance(recovery(machine).error, BadObject)
    assert machine.step() == OpenWatch(is_initial=True)


def test_a_broken_streaming_list_starts_over_with_init() -> None:
    machine = syncing()
    words(machine, event("ADDED", "a", "3"))
    machine.failed(Unreachable("reset"))
    assert recovery(machine).waits
    assert machine.step() == OpenWatch(is_initial=True)
    machine.opened()
    assert words(machine, bookmark("4", ends=True)) == ["Init", "InitDone"]


def test_an_event_of_another_kind_in_a_streaming_list_is_skipped() -> None:
    machine = syncing()
    assert words(machine, event("ADDED", "a", "3", kind="Table"), bookmark("4", ends=True)) == ["Init", "InitDone"]
    assert len(machine.skipped) == 1


@pytest.mark.parametrize(
    "refusal",
    [Invalid("forbidden"), BadRequest("what?"), *(ApiError("no", code=code) for code in (405, 406, 415, 501))],
    ids=repr,
)
def test_a_server_that_rejects_streaming_lists_gets_paged_lists_at_once_and_for_ever(refusal: ApiError) -> None:
    machine = Machine(VIEW)
    machine.failed(refusal)
    assert recovery(machine) == Recover(refusal, waits=False)
    listed(machine)
    machine.opened()
    machine.failed(GONE)
    recovery(machine)
    assert machine.step() == ListPage(500)


def test_with_streaming_true_there_is_no_fallback_to_pages() -> None:
    machine = Machine(VIEW, streaming=True)
    for _ in range(5):
        machine.failed(Invalid("forbidden"))
        assert recovery(machine).waits
        assert machine.step() == OpenWatch(is_initial=True)


@pytest.mark.parametrize("how", ["ended", "idled", "cut", "expired", "failed"])
def test_streaming_lists_that_never_complete_are_given_up_for_pages(how: str) -> None:
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
        recovery(machine)
    assert machine.step() == ListPage(None if how == "expired" else 500)


@pytest.mark.parametrize("problem", [NotFound("no"), UnknownKind("no"), Unreachable("no"), Forbidden("no")], ids=repr)
def test_a_missing_kind_or_server_does_not_disable_streaming_lists(problem: Exception) -> None:
    machine = Machine(VIEW)
    for _ in range(9):
        machine.failed(problem)
        assert recovery(machine).waits
        assert machine.step() == OpenWatch(is_initial=True)


def test_a_server_that_always_fails_streaming_lists_gets_paged_lists() -> None:
    machine = Machine(VIEW)
    for _ in range(3):
        machine.failed(ServerFailed("broken"))
        recovery(machine)
    assert machine.step() == ListPage(500)


def test_after_a_watch_that_always_fails_a_streaming_list_is_tried_as_often_as_at_the_start() -> None:
    machine = syncing()
    words(machine, bookmark("4", ends=True))
    for _ in range(3):
        machine.failed(ServerFailed("broken"))
        recovery(machine)
    for _ in range(3):
        assert machine.step() == OpenWatch(is_initial=True)
        machine.failed(ServerFailed("broken"))
        recovery(machine)
    assert machine.step() == ListPage(500)
