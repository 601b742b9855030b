"""Whatever a server does, the events of the machine are a story that makes sense."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.client.watching import WatchEvent
from levelset.errors import BadRequest, Expired, Invalid, NotFound, ServerFailed, Unreachable
from levelset.watching.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.watching.machine import ListPage, Machine, OpenWatch, ReadWatch, Setback
from tests.watching.scripted import VIEW, bookmark, error, event, page
from tests.watching.world import Settings

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
    """One step of the machine, with what the server makes of it."""
    step = machine.step()
    if isinstance(step, Setback):
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
def test_the_version_goes_back_only_with_a_list(streaming, story) -> None:
    machine = Machine(VIEW, streaming=streaming)
    for outcome in story:
        before, lists = int(machine.resource_version or 0), machine.lists
        drive(machine, outcome)
        assert machine.lists > lists or int(machine.resource_version or 0) >= before


@settings(max_examples=60)
@given(st.sampled_from([None, True, False]), st.lists(outcomes, max_size=25))
def test_from_everywhere_a_server_that_works_leads_to_a_complete_list_or_an_open_watch(streaming, story) -> None:
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
            case Setback():
                pass
    assert machine.step() == ReadWatch()
    assert (machine.resource_version, machine.failures) == ("500", 0)
