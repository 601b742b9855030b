"""Findings and notes of the undisturbed run: nondeterministic, failing, hanging or idle controllers."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from levelset import Conflict, Context, Controller, GiveUp, ObjectMeta, Ref, Resource, Spec, Status, owns, requeue
from levelset.errors import ConfigError
from levelset.objects import Object
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Finding, State, explore, replay
from levelset.testing.explore.reports.report import junit
from levelset.testing.explore.search import Explorer, explore_plans
from tests.testing.explore.mistakes import Order, OrderSpec, Parcel, orders, parcel


def found_in(reconcile: Callable[[Any, Context], Awaitable[Any]], **more: Any) -> list[Finding]:
    return list(Explorer(Exploration(orders, lambda: [Controller(Order, reconcile)], **more)).reference.played.findings)


async def by_uuid(order: Order, ctx: Context) -> None:
    await ctx.apply(parcel(order, f"parcel-{uuid.uuid4()}"))


def test_a_nondeterministic_run_is_a_finding_and_no_plan_runs() -> None:
    report = explore(orders, lambda: [Controller(Order, by_uuid)], budget=5)
    assert not report.ok
    assert report.tried == ()
    assert "the same seed gives a different run: two runs with the same seed differ: step " in report.story()
    assert "uuid, secrets" in report.story()
    assert report.summary() == "orders: the undisturbed run fails; no plan was run"


def test_a_replay_of_a_nondeterministic_run_reports_it() -> None:
    exploration = Exploration(orders, lambda: [Controller(Order, by_uuid)])
    assert replay(exploration, "reorder:workers:1").findings[0].rule == "unrepeatable"


class Forgets:
    """Counts in memory, and is never recreated."""

    def __init__(self) -> None:
        self.count = 0

    async def reconcile(self, order: Order, ctx: Context) -> None:
        self.count += 1
        await ctx.apply(parcel(order, f"parcel-{self.count}"), owner=order)


def test_stateful_controllers_must_not_be_passed_as_a_list() -> None:
    exploration = Exploration(orders, [Controller(Order, Forgets().reconcile)])
    [finding] = Explorer(exploration).reference.played.findings
    assert finding.rule == "unrepeatable"
    assert finding.sentence.endswith("pass a function that creates new ones, not a list")


async def fails(order: Order, ctx: Context) -> None:
    raise ValueError("no such thing")


async def calls_out(order: Order, ctx: Context) -> None:
    await asyncio.open_connection("example.com", 80)


async def hangs(order: Order, ctx: Context) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("reconcile", "rule", "words"),
    [
        (fails, "failing", "reconcile orders/Order/test/first fails each time: ValueError: no such thing"),
        (calls_out, "failing", "RealWork: create_connection('example.com', 80)"),
        (hangs, "hangs", "reconcile orders/Order/test/first has not finished after 600 seconds"),
    ],
)
def test_a_controller_that_always_fails_or_hangs_is_a_finding(reconcile: Any, rule: str, words: str) -> None:
    finding = found_in(reconcile)[0]
    assert finding.rule == rule
    assert words in finding.sentence
    assert finding.step is not None


async def slow(order: Order, ctx: Context) -> None:
    await asyncio.sleep(200)
    await ctx.apply(parcel(order, order.name))


def test_a_slow_controller_is_not_a_finding() -> None:
    assert found_in(slow) == []


async def gives_up(order: Order, ctx: Context) -> None:
    raise GiveUp("rejected")


async def conflicts_once(order: Order, ctx: Context) -> None:
    await ctx.apply(parcel(order, order.name))
    if not ctx.attempt and len(ctx.reasons) == 1 and str(ctx.reasons[0]) == "it has changed":
        raise Conflict("another writer was first")


async def fails_at_first(order: Order, ctx: Context) -> None:
    await ctx.apply(parcel(order, order.name))
    if ctx.attempt == 0:
        raise ValueError("not yet")


@pytest.mark.parametrize(
    ("reconcile", "words"),
    [
        (gives_up, "reconcile orders/Order/test/first fails each time: GiveUp: rejected; if the scenario expects that"),
        (fails_at_first, "reconcile orders/Order/test/first fails: ValueError: not yet; if the scenario expects that"),
    ],
)
def test_a_reconcile_that_gives_up_or_fails_once_is_a_finding_unless_it_is_expected(reconcile: Any, words: str) -> None:
    finding = found_in(reconcile)[0]
    assert finding.rule == "failing"
    assert words in finding.sentence
    for expected in (True, (GiveUp, ValueError)):
        assert found_in(reconcile, expected_errors=expected) == []
    assert found_in(reconcile, expected_errors=KeyError) != []


def test_a_conflict_is_no_failure() -> None:
    assert found_in(conflicts_once) == []


async def picky(order: Order, ctx: Context) -> None:
    if order.name == "first":
        raise ValueError("rejected")
    await ctx.apply(parcel(order, order.name))


async def two(user: Cluster) -> None:
    await user.create(Order.new("first", OrderSpec()))
    await user.create(Order.new("second", OrderSpec()))
    await user.settled()


def test_a_controller_that_fails_for_one_object_is_a_finding() -> None:
    report = explore(two, lambda: [Controller(Order, picky)], budget=2)
    assert not report.ok
    assert report.tried == ()
    assert "fails each time: ValueError: rejected" in report.story()


def test_an_expected_failure_that_stays_is_a_note() -> None:
    report = explore(Exploration(two, lambda: [Controller(Order, picky)], expected_errors=ValueError), budget=2)
    assert report.ok
    assert report.notes == (
        "in the undisturbed run reconcile orders/Order/test/first fails at the end: ValueError: rejected",
    )
    assert f"note: {report.notes[0]}" in report.story()


async def idle(order: Any, ctx: Context) -> None:
    ctx.now()


class Nothing(Resource[Spec, Status], api="shop.example.dev/v1"):
    """A kind of which the scenario makes no object."""


class Cloud:
    """A world outside that counts."""

    def __init__(self) -> None:
        self.calls = 0

    def call(self) -> None:
        self.calls += 1


def test_a_controller_that_changes_nothing_is_a_warning_in_every_report() -> None:
    report = explore(orders, lambda: [Controller(Order, idle)], budget=2)
    [warning] = report.warnings
    assert warning.startswith("orders wrote nothing and touched nothing outside in the undisturbed run")
    assert report.summary().splitlines()[1] == f"warning: {warning}"
    assert f"warning: {warning}" in report.story()
    assert report.to_tree()["warnings"] == [warning]
    assert f"warning: {warning}" in junit([report])


def test_a_controller_without_objects_and_no_controller_at_all_are_warnings() -> None:
    several: list[Controller[Any]] = [Controller(Nothing, idle), Controller(Order, keeps_one)]
    report = explore(orders, several, budget=0)
    assert report.warnings == ("nothings reconciled nothing in the undisturbed run: the scenario has no object for it",)
    nothing: list[Controller[Any]] = []
    assert explore(orders, nothing, budget=0).warnings == ("there are no controllers: the exploration shows nothing",)


async def keeps_one(order: Order, ctx: Context) -> None:
    await ctx.apply(parcel(order, "only"))


def test_a_controller_that_only_touches_the_outside_is_no_warning() -> None:
    def make(cloud: Cloud) -> list[Controller[Order]]:
        async def reconcile(order: Order, ctx: Context) -> None:
            cloud.call()

        return [Controller(Order, reconcile)]

    assert explore(Exploration(orders, make, outside=Cloud), budget=0).warnings == ()


async def never_waits(order: Order, ctx: Context) -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 -- the mistake that is tested
            await asyncio.sleep(0)

    ctx.background(spin)


def test_a_task_that_never_waits_is_a_finding_and_not_a_hang() -> None:
    [finding] = found_in(never_waits)
    assert finding.rule == "endless loop"
    assert "never_waits.<locals>.spin (test_search_undisturbed.py:" in finding.sentence


def test_an_endless_loop_names_the_repeated_step() -> None:
    exploration = Exploration(orders, lambda: [Controller(Order, Forgets().reconcile, owns(Parcel))])
    finding = Explorer(exploration).reference.played.findings[0]
    assert finding.rule == "endless loop"
    assert finding.sentence == "orders creates ConfigMap objects without end: 1000 in 0 s for Order/test/first"
    assert finding.step is not None


async def beats(order: Order, ctx: Context) -> Any:
    await ctx.apply(parcel(order, order.name, at=ctx.now().isoformat()))
    return requeue(30)


async def two_hours(user: Cluster) -> None:
    await user.create(Order.new("first", OrderSpec()))
    await user.advance(2 * 3600)


def test_a_heartbeat_over_a_long_time_is_not_a_loop() -> None:
    assert Explorer(Exploration(two_hours, lambda: [Controller(Order, beats)])).reference.played.ok


class Lease(Resource[Spec, Status], api="flats.example.dev/v1"):
    """A lease of a flat, not a Kubernetes Lease."""


class Contract(Object, api="flats.example.dev/v1", kind="Event"):
    """An event of a flat, not a Kubernetes Event."""


def test_custom_kinds_named_event_or_lease_are_disturbed_and_judged() -> None:
    async def reconcile(lease: Lease, ctx: Context) -> None:
        await ctx.create(Contract(metadata=ObjectMeta(generate_name="party-", namespace=lease.namespace)))

    async def sign(user: Cluster) -> None:
        await user.create(Lease.new("attic", Spec()))
        await user.settled()

    def one_party(state: State) -> None:
        assert len(state.list(Contract)) <= 1, "a second party"

    exploration = Exploration(sign, lambda: [Controller(Lease, reconcile)], invariants=[one_party])
    runs = list(explore_plans(Explorer(exploration), budget=3))
    assert runs[0].ok
    assert any(one.plan.id == "crash-after:create.Event/test/party-~#1" and not one.ok for one in runs)


def test_namespaces_created_by_controllers_are_judged() -> None:
    class Tenant(Object, api="v1", kind="Namespace", scope="Cluster"):
        """The namespace of a tenant."""

    async def reconcile(order: Order, ctx: Context) -> None:
        if await ctx.live(Ref(Tenant, order.name)) is None and not getattr(reconcile, "done", False):
            await ctx.create(Tenant(metadata=ObjectMeta(name=order.name)))

    report = Explorer(Exploration(orders, lambda: [Controller(Order, reconcile)]))
    assert "Namespace/first" in report.reference.run.end


def test_an_object_named_after_a_uid_or_generated_name_is_normalized() -> None:
    async def reconcile(order: Order, ctx: Context) -> None:
        made = [one for one in await ctx.client.list(Parcel) if one.metadata.generate_name == f"{order.name}-"]
        volume = made[0] if made else await ctx.create(parcel(order), owner=order)
        await ctx.apply(parcel(order, f"of-{volume.name}"), owner=order)
        await ctx.apply(parcel(order, f"volume-{order.metadata.uid}"), owner=order)

    explorer = Explorer(
        Exploration(
            orders, lambda: [Controller(Order, reconcile, owns(Parcel))], allowed=["not healed", "created twice"]
        )
    )
    assert {
        "ConfigMap/test/of-first-~",
        "ConfigMap/test/volume-<uid of Order first>",
    } <= explorer.reference.run.end.keys()
    wrong = [one.plan.id for one in explore_plans(explorer, budget=20) if not one.ok]
    assert wrong == []


def test_an_invalid_scenario_or_invariant_is_reported() -> None:
    def plain(user: Cluster) -> None: ...

    async def waiting(state: State) -> None: ...

    given: Any = plain
    [finding] = Explorer(Exploration(given, list)).reference.played.findings
    assert "write `async def`" in finding.sentence
    assert found_in(gives_up, invariants=[waiting])[0].sentence.endswith("invariants are not awaited; write `def`")
    with pytest.raises(ConfigError, match="cannot be called"):
        Exploration(orders, list, invariants=["nothing"])  # type: ignore[list-item]


def test_arguments_that_would_be_ignored_are_refused() -> None:
    exploration = Exploration(orders, list)
    with pytest.raises(ConfigError, match="takes controllers and invariants from the Exploration"):
        explore(exploration, invariants=[lambda state: True])
    with pytest.raises(ConfigError, match="budget=-1: pass the maximum"):
        explore(exploration, budget=-1)
