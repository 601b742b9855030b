"""Changes that wait for the next reconcile, in order, and what becomes of those that cannot be applied."""

from dataclasses import replace

import pytest

from levelset.aio import timing
from levelset.runtime.state import Mishap, MishapKind, StateMap
from tests.runtime.state.things import Run, ref

WEB, DB = ref("web"), ref("db")


class Story:
    """A map with a clock that is set by hand, a list of those it woke, and one of what went wrong."""

    def __init__(self, *, most: int = 1000, patience: float = 300.0, most_orphans: int = 100) -> None:
        self.now = 0.0
        self.woken: list[object] = []
        self.mishaps: list[Mishap] = []
        self.runs: StateMap[object, int, Run] = StateMap(
            most=most,
            patience=patience,
            most_orphans=most_orphans,
            report=self.mishaps.append,
            clock=lambda: self.now,
        )
        self.runs.listen(self.woken.append)

    def note(self, text: str, *, name: str = "web", for_key: int | None = None) -> None:
        options = {} if for_key is None else {"for_key": for_key}
        self.runs.defer(ref(name), lambda run: replace(run, notes=(*run.notes, text)), **options)

    def kinds(self) -> list[MishapKind]:
        return [mishap.kind for mishap in self.mishaps]


def test_a_deferred_change_is_applied_when_it_is_asked_for_and_not_before() -> None:
    story = Story()
    story.runs.keep(WEB, Run("Starting"))
    story.runs.defer(WEB, lambda run: replace(run, phase="Running"))
    assert (story.runs.borrow(WEB), story.runs.has_deferred(WEB), story.runs.deferred) == (Run("Starting"), True, 1)
    assert story.runs.apply_deferred(WEB) == Run("Running") == story.runs.borrow(WEB)
    assert (story.runs.has_deferred(WEB), story.runs.deferred) == (False, 0)


def test_changes_are_applied_once_and_in_order() -> None:
    story = Story()
    story.runs.keep(WEB, Run())
    for text in "abc":
        story.note(text)
    assert story.runs.apply_deferred(WEB) == Run(notes=("a", "b", "c"))
    assert story.runs.apply_deferred(WEB) == Run(notes=("a", "b", "c"))


def test_a_change_is_given_the_state_of_its_moment() -> None:
    story = Story()
    story.runs.keep(WEB, Run("Starting"))
    story.note("exited")
    story.runs.keep(WEB, Run("Running"), key=17)
    assert story.runs.apply_deferred(WEB) == Run("Running", notes=("exited",))
    assert story.runs.key_of(WEB) == 17


def test_nothing_from_a_change_leaves_the_state_as_it_is() -> None:
    story = Story()
    story.runs.keep(WEB, Run("Running"))
    story.runs.defer(WEB, lambda run: None)
    assert story.runs.apply_deferred(WEB) == Run("Running")
    assert story.mishaps == []


def test_deferring_wakes_whoever_listens() -> None:
    story = Story()
    story.runs.keep(WEB, Run())
    also: list[object] = []
    unlisten = story.runs.listen(also.append)
    story.note("a")
    unlisten()
    unlisten()
    story.note("b", name="db")
    assert (story.woken, also) == ([WEB, DB], [WEB])


def test_a_change_waits_for_a_state_that_does_not_exist_yet_and_wakes_when_it_does() -> None:
    story = Story()
    story.note("exited before anybody knew")
    assert story.runs.apply_deferred(WEB) is None
    story.runs.keep(WEB, Run("Starting"))
    assert story.woken == [WEB, WEB]
    assert story.runs.apply_deferred(WEB) == Run("Starting", notes=("exited before anybody knew",))


def test_keeping_a_state_for_which_nothing_waits_wakes_nobody() -> None:
    story = Story()
    story.runs.keep(WEB, Run())
    story.note("a")
    story.runs.keep(WEB, Run("again"))
    assert story.woken == [WEB]


def test_a_change_whose_state_never_comes_expires_and_is_reported() -> None:
    story = Story(patience=60.0)
    story.note("a")
    story.note("b")
    story.now = 59.0
    story.runs.apply_deferred(WEB)
    assert story.runs.deferred == 2
    story.now = 60.0
    story.note("c", name="db")
    assert (story.mishaps, story.runs.deferred) == ([Mishap(WEB, MishapKind.EXPIRED)] * 2, 1)
    story.now = 120.0
    assert story.runs.apply_deferred(DB) is None
    assert (story.mishaps[-1].ref, story.runs.deferred) == (DB, 0)


def test_a_change_whose_state_exists_waits_however_long() -> None:
    story = Story(patience=60.0)
    story.runs.keep(WEB, Run())
    story.note("a")
    story.now = 1e6
    story.note("b", name="db")
    assert story.runs.apply_deferred(WEB) == Run(notes=("a",))
    assert story.mishaps == []


def test_too_many_changes_for_one_object_crowd_out_the_oldest() -> None:
    story = Story(most=3)
    story.runs.keep(WEB, Run())
    for text in "abcde":
        story.note(text)
    assert story.runs.apply_deferred(WEB) == Run(notes=("c", "d", "e"))
    assert story.kinds() == [MishapKind.CROWDED_OUT] * 2


def test_too_many_objects_without_a_state_crowd_out_the_oldest() -> None:
    story = Story(most_orphans=2)
    for name in ["a", "b", "c"]:
        story.note("x", name=name)
    assert (story.mishaps, story.runs.deferred) == ([Mishap(ref("a"), MishapKind.CROWDED_OUT)], 2)


def test_changes_are_forgotten_with_their_object() -> None:
    story = Story()
    story.runs.keep(WEB, Run("old"))
    story.note("for the old one")
    story.runs.forget(WEB)
    story.runs.keep(WEB, Run("new"))
    assert (story.runs.apply_deferred(WEB), story.mishaps) == (Run("new"), [])


def test_a_change_that_raises_is_reported_and_does_not_stop_the_later_ones() -> None:
    story = Story()
    story.runs.keep(WEB, Run())
    error = ValueError("no")

    def broken(run: Run) -> Run:
        raise error

    story.note("a")
    story.runs.defer(WEB, broken)
    story.note("b")
    assert story.runs.apply_deferred(WEB) == Run(notes=("a", "b"))
    assert story.mishaps == [Mishap(WEB, MishapKind.FAILED, error)]
    assert str(story.mishaps[0]) == "a deferred change of Executable/default/web has failed: ValueError('no')"


def test_a_change_that_gives_a_state_which_could_change_is_reported() -> None:
    story = Story()
    story.runs.keep(WEB, Run())
    story.runs.defer(WEB, lambda run: [run])  # type: ignore[arg-type,return-value]
    assert (story.runs.apply_deferred(WEB), story.kinds()) == (Run(), [MishapKind.FAILED])


def test_a_change_may_use_the_map_and_what_it_defers_is_for_the_next_time() -> None:
    story = Story()
    story.runs.keep(WEB, Run())

    def chatty(run: Run) -> Run:
        story.runs.keep(DB, Run("made by a change"))
        story.note("later")
        return replace(run, phase="Running")

    story.runs.defer(WEB, chatty)
    assert story.runs.apply_deferred(WEB) == Run("Running")
    assert story.runs.borrow(DB) == Run("made by a change")
    assert story.runs.apply_deferred(WEB) == Run("Running", notes=("later",))


def test_a_change_may_forget_its_object() -> None:
    story = Story()
    story.runs.keep(WEB, Run())
    story.runs.defer(WEB, lambda run: story.runs.forget(WEB))
    story.note("too late")
    assert (story.runs.apply_deferred(WEB), len(story.runs), story.runs.deferred) == (None, 0, 0)


def test_a_change_for_a_key_that_was_replaced_is_dropped() -> None:
    story = Story()
    story.runs.keep(WEB, Run("Running"), key=17)
    story.note("17 exited", for_key=17)
    story.note("18 is up", for_key=18)
    story.runs.keep(WEB, Run("Restarted"), key=18)
    assert story.runs.apply_deferred(WEB) == Run("Restarted", notes=("18 is up",))
    assert story.mishaps == []


def test_a_listener_that_raises_disturbs_nobody() -> None:
    story = Story()
    error = RuntimeError("deaf")

    def deaf(_: object) -> None:
        raise error

    woken: list[object] = []
    story.runs.listen(deaf)
    story.runs.listen(woken.append)
    story.note("a")
    assert (woken, story.mishaps) == ([WEB], [Mishap(WEB, MishapKind.DEAF, error)])


def test_mishaps_go_to_the_log_unless_somebody_wants_them(caplog: pytest.LogCaptureFixture) -> None:
    runs: StateMap[object, int, Run] = StateMap(most=1, clock=lambda: 0.0)
    runs.defer(WEB, lambda run: run)
    runs.defer(WEB, lambda run: run)
    assert [record.message for record in caplog.records] == [
        "a deferred change of Executable/default/web has crowded out"
    ]


async def test_the_clock_is_the_loops_unless_given() -> None:
    mishaps: list[Mishap] = []
    runs: StateMap[object, int, Run] = StateMap(patience=5.0, report=mishaps.append)
    runs.defer(WEB, lambda run: run)
    await timing.sleep(5.0)
    runs.apply_deferred(WEB)
    assert mishaps == [Mishap(WEB, MishapKind.EXPIRED)]
