"""Properties of the machine's events, whatever the server does."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.client.object_types import Item
from levelset.client.watch_events import WatchEvent
from levelset.errors import BadRequest, Expired, Invalid, NotFound, ServerFailed, Unreachable
from levelset.objects.cached_object import CachedObject
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.runtime.watch.machine import ListPage, Machine, OpenWatch, ReadWatch, Recover
from tests.runtime.watch.machine_inputs import VIEW, bookmark, error, event, page
from tests.runtime.watch.watch_bench import Settings

ERRORS = [Expired("x"), ServerFailed("x"), NotFound("x"), Invalid("x"), BadRequest("x")]
names = st.sampled_from("abc")
versions = st.integers(1, 300).map(str) | st.just("")
changes = st.builds(event, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), names, versions)
watch_events: st.SearchStrategy[WatchEvent] = (
    changes
    | st.builds(bookmark, versions, ends=st.booleans())
    | st.sampled_from(ERRORS).map(error)
    | st.builds(event, st.just("ADDED"), names, versions, kind=st.just("Table"))
)
outcomes = st.fixed_dictionaries(
    {
        "fails": st.sampled_from([None, None, None, *ERRORS, Unreachable("x")]),
        "batch": st.lists(watch_events, max_size=5),
        "ends": st.sampled_from(["", "", "", "brief", "long", "idle"]),
        "names": st.lists(names, unique=True),
        "version": versions,
        "more": st.sampled_from([None, None, "token"]),
    }
)


def drive(machine: Machine[Settings], outcome: dict[str, Any]) -> list[Event[Settings]]:
    """Carries out one step of the machine, with a random outcome."""
    step = machine.step()
    if isinstance(step, Recover):
        return []
    if outcome["fails"] is not None:
        machine.failed(outcome["fails"], lasted=0.5)
        return []
    match step:
        case ListPage():
            return machine.listed(page(*outcome["names"], version=outcome["version"], more=outcome["more"]))
        case OpenWatch():
            machine.opened()
        case ReadWatch():
            return read(machine, outcome)
    return []


def read(machine: Machine[Settings], outcome: dict[str, Any]) -> list[Event[Settings]]:
    match outcome["ends"]:
        case "":
            return machine.received(outcome["batch"])
        case "idle":
            machine.idled()
        case how:
            machine.ended(lasted=0.0 if how == "brief" else 100.0)
    return []


@settings(max_examples=80)
@given(st.sampled_from([None, True, False]), st.booleans(), st.lists(outcomes, max_size=25))
def test_changes_come_only_after_a_complete_list_and_never_within_one(streaming, any_version, story) -> None:
    machine = Machine(VIEW, streaming=streaming, any_version=any_version, page_size=2)
    is_within = has_listed = False
    for outcome in story:
        for one in drive(machine, outcome):
            match one:
                case Init():
                    is_within = True
                case InitApply():
                    assert is_within
                case InitDone(version):
                    assert is_within
                    assert version
                    is_within, has_listed = False, True
                case Apply() | Delete():
                    assert has_listed
                    assert not is_within


@settings(max_examples=80)
@given(st.sampled_from([None, True, False]), st.lists(outcomes, max_size=25))
def test_the_version_only_goes_back_with_a_list(streaming, story) -> None:
    machine = Machine(VIEW, streaming=streaming)
    for outcome in story:
        before, lists = int(machine.resource_version or 0), machine.lists
        drive(machine, outcome)
        assert machine.lists > lists or int(machine.resource_version or 0) >= before


@settings(max_examples=60)
@given(st.sampled_from([None, True, False]), st.lists(outcomes, max_size=25))
def test_from_any_state_a_working_server_leads_to_a_complete_list_or_an_open_watch(streaming, story) -> None:
    machine = Machine(VIEW, streaming=streaming)
    for outcome in story:
        drive(machine, outcome)
    for _ in range(9):
        match machine.step():
            case ListPage():
                machine.listed(page("a", version="400"))
            case OpenWatch():
                machine.opened()
            case ReadWatch():
                machine.received([bookmark("500", ends=True)])
            case Recover():
                pass
    assert machine.step() == ReadWatch()
    assert (machine.resource_version, machine.failures) == ("500", 0)


def without_events(outcome: dict[str, Any]) -> dict[str, Any]:
    batch = [one.cached if one.type in {"ADDED", "MODIFIED"} else one for one in outcome["batch"]]
    return {**outcome, "batch": batch}


def with_events(seen: list[Any], *, is_within: bool) -> list[Event[Settings]]:
    events: list[Event[Settings]] = []
    for one in seen:
        is_within = isinstance(one, Init) or (is_within and not isinstance(one, InitDone))
        made = InitApply if is_within else Apply
        events.append(made(Item(one, VIEW)) if isinstance(one, CachedObject) else one)
    return events


rising: Any = st.integers(100, 150).map(
    lambda first: [event("MODIFIED", "abc"[number % 3], str(first + number)) for number in range(5)]
)
calm = st.fixed_dictionaries(
    {
        "fails": st.none(),
        "batch": rising | st.just([bookmark("100", ends=True)]) | st.lists(watch_events, max_size=3),
        "ends": st.just(""),
        "names": st.just(["a", "b"]),
        "version": st.just("100"),
        "more": st.none(),
    }
)
