"""Deferred changes: applied in order by the next reconcile, or reported if they cannot be applied."""

from dataclasses import replace

import pytest

from levelset.aio import timing
from levelset.runtime.state import DeferFailure, DeferFailureKind, StateMap
from tests.runtime.state.runs import Run, ref

WEB, DB = ref("web"), ref("db")


class Scenario:
    """A map with a clock that is set by hand, a list of the refs it woke, and one of the failures."""

    def __init__(self, *, limit: int = 1000, orphan_timeout: float = 300.0, orphan_limit: int = 100) -> None:
        self.now = 0.0
        self.woken: list[object] = []
        self.failures: list[DeferFailure] = []
        self.runs: StateMap[object, int, Run] = StateMap(
            limit=limit,
            orphan_timeout=orphan_timeout,
            orphan_limit=orphan_limit,
            report=self.failures.append,
            clock=lambda: self.now,
        )
        self.runs.listen(self.woken.append)

    def note(self, text: str, *, name: str = "web", for_key: int | None = None) -> None:
        options = {} if for_key is None else {"for_key": for_key}
        self.runs.defer(ref(name), lambda run: replace(run, notes=(*run.notes, text)), **options)

    def kinds(self) -> list[DeferFailureKind]:
        return [failure.kind for failure in self.failures]


def test_a_deferred_change_is_applied_by_apply_deferred_and_not_before() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run("Starting"))
    scenario.runs.defer(WEB, lambda run: replace(run, phase="Running"))
    assert (scenario.runs.get(WEB), scenario.runs.has_deferred(WEB), scenario.runs.deferred) == (
        Run("Starting"),
        True,
        1,
    )
    assert scenario.runs.apply_deferred(WEB) == Run("Running") == scenario.runs.get(WEB)
    assert (scenario.runs.has_deferred(WEB), scenario.runs.deferred) == (False, 0)


def test_changes_are_applied_once_and_in_order() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run())
    for text in "abc":
        scenario.note(text)
    assert scenario.runs.apply_deferred(WEB) == Run(notes=("a", "b", "c"))
    assert scenario.runs.apply_deferred(WEB) == Run(notes=("a", "b", "c"))


def test_a_change_is_called_with_the_state_at_that_time() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run("Starting"))
    scenario.note("exited")
    scenario.runs.put(WEB, Run("Running"), key=17)
    assert scenario.runs.apply_deferred(WEB) == Run("Running", notes=("exited",))
    assert scenario.runs.key_of(WEB) == 17


def test_a_change_that_returns_none_leaves_the_state_unchanged() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run("Running"))
    scenario.runs.defer(WEB, lambda run: None)
    assert scenario.runs.apply_deferred(WEB) == Run("Running")
    assert scenario.failures == []


def test_deferring_wakes_listeners() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run())
    also: list[object] = []
    unlisten = scenario.runs.listen(also.append)
    scenario.note("a")
    unlisten()
    unlisten()
    scenario.note("b", name="db")
    assert (scenario.woken, also) == ([WEB, DB], [WEB])


def test_a_change_waits_for_a_missing_state_and_wakes_listeners_when_it_exists() -> None:
    scenario = Scenario()
    scenario.note("exited before it was known")
    assert scenario.runs.apply_deferred(WEB) is None
    scenario.runs.put(WEB, Run("Starting"))
    assert scenario.woken == [WEB, WEB]
    assert scenario.runs.apply_deferred(WEB) == Run("Starting", notes=("exited before it was known",))


def test_putting_a_state_without_deferred_changes_wakes_no_listener() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run())
    scenario.note("a")
    scenario.runs.put(WEB, Run("again"))
    assert scenario.woken == [WEB]


def test_a_change_without_a_state_expires_and_is_reported() -> None:
    scenario = Scenario(orphan_timeout=60.0)
    scenario.note("a")
    scenario.note("b")
    scenario.now = 59.0
    scenario.runs.apply_deferred(WEB)
    assert scenario.runs.deferred == 2
    scenario.now = 60.0
    scenario.note("c", name="db")
    assert (scenario.failures, scenario.runs.deferred) == ([DeferFailure(WEB, DeferFailureKind.EXPIRED)] * 2, 1)
    scenario.now = 120.0
    assert scenario.runs.apply_deferred(DB) is None
    assert (scenario.failures[-1].ref, scenario.runs.deferred) == (DB, 0)


def test_a_change_with_a_state_never_expires() -> None:
    scenario = Scenario(orphan_timeout=60.0)
    scenario.runs.put(WEB, Run())
    scenario.note("a")
    scenario.now = 1e6
    scenario.note("b", name="db")
    assert scenario.runs.apply_deferred(WEB) == Run(notes=("a",))
    assert scenario.failures == []


def test_too_many_changes_of_one_object_evict_the_oldest() -> None:
    scenario = Scenario(limit=3)
    scenario.runs.put(WEB, Run())
    for text in "abcde":
        scenario.note(text)
    assert scenario.runs.apply_deferred(WEB) == Run(notes=("c", "d", "e"))
    assert scenario.kinds() == [DeferFailureKind.EVICTED] * 2


def test_too_many_orphans_evict_the_oldest() -> None:
    scenario = Scenario(orphan_limit=2)
    for name in ["a", "b", "c"]:
        scenario.note("x", name=name)
    assert (scenario.failures, scenario.runs.deferred) == ([DeferFailure(ref("a"), DeferFailureKind.EVICTED)], 2)


def test_changes_are_forgotten_with_their_object() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run("old"))
    scenario.note("for the old one")
    scenario.runs.forget(WEB)
    scenario.runs.put(WEB, Run("new"))
    assert (scenario.runs.apply_deferred(WEB), scenario.failures) == (Run("new"), [])


def test_a_change_that_raises_is_reported_and_does_not_stop_the_later_ones() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run())
    error = ValueError("no")

    def broken(run: Run) -> Run:
        raise error

    scenario.note("a")
    scenario.runs.defer(WEB, broken)
    scenario.note("b")
    assert scenario.runs.apply_deferred(WEB) == Run(notes=("a", "b"))
    assert scenario.failures == [DeferFailure(WEB, DeferFailureKind.FAILED, error)]
    assert str(scenario.failures[0]) == "deferred change of Executable/default/web: failed: ValueError('no')"


def test_a_change_that_returns_a_mutable_state_is_reported() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run())
    scenario.runs.defer(WEB, lambda run: [run])  # type: ignore[arg-type,return-value]
    assert (scenario.runs.apply_deferred(WEB), scenario.kinds()) == (Run(), [DeferFailureKind.FAILED])


def test_a_change_may_use_the_map_and_what_it_defers_is_applied_next_time() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run())

    def chatty(run: Run) -> Run:
        scenario.runs.put(DB, Run("made by a change"))
        scenario.note("later")
        return replace(run, phase="Running")

    scenario.runs.defer(WEB, chatty)
    assert scenario.runs.apply_deferred(WEB) == Run("Running")
    assert scenario.runs.get(DB) == Run("made by a change")
    assert scenario.runs.apply_deferred(WEB) == Run("Running", notes=("later",))


def test_a_change_may_forget_its_object() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run())
    scenario.runs.defer(WEB, lambda run: scenario.runs.forget(WEB))
    scenario.note("too late")
    assert (scenario.runs.apply_deferred(WEB), len(scenario.runs), scenario.runs.deferred) == (None, 0, 0)


def test_a_change_for_a_key_that_was_replaced_is_dropped() -> None:
    scenario = Scenario()
    scenario.runs.put(WEB, Run("Running"), key=17)
    scenario.note("17 exited", for_key=17)
    scenario.note("18 is up", for_key=18)
    scenario.runs.put(WEB, Run("Restarted"), key=18)
    assert scenario.runs.apply_deferred(WEB) == Run("Restarted", notes=("18 is up",))
    assert scenario.failures == []


def test_a_listener_that_raises_is_reported() -> None:
    scenario = Scenario()
    error = RuntimeError("deaf")

    def deaf(_: object) -> None:
        raise error

    woken: list[object] = []
    scenario.runs.listen(deaf)
    scenario.runs.listen(woken.append)
    scenario.note("a")
    assert (woken, scenario.failures) == ([WEB], [DeferFailure(WEB, DeferFailureKind.LISTENER_FAILED, error)])


def test_failures_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    runs: StateMap[object, int, Run] = StateMap(limit=1, clock=lambda: 0.0)
    runs.defer(WEB, lambda run: run)
    runs.defer(WEB, lambda run: run)
    assert [record.message for record in caplog.records] == ["deferred change of Executable/default/web: evicted"]


async def test_the_clock_is_the_loops_unless_given() -> None:
    failures: list[DeferFailure] = []
    runs: StateMap[object, int, Run] = StateMap(orphan_timeout=5.0, report=failures.append)
    runs.defer(WEB, lambda run: run)
    await timing.sleep(5.0)
    runs.apply_deferred(WEB)
    assert failures == [DeferFailure(WEB, DeferFailureKind.EXPIRED)]
