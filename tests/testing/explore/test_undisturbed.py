"""What is said before anything is disturbed: of a run that is not the same twice, fails, hangs, or does nothing."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from levelset import Context, Controller, GiveUp, ObjectMeta, Ref, Resource, Spec, Status, owns, requeue
from levelset.errors import ConfigError
from levelset.objects import Object
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Finding, State, explore, replay
from levelset.testing.explore.search import Explorer, explore_plans
from tests.testing.explore.mistakes import Order, OrderSpec, Parcel, orders, parcel


def found_in(reconcile: Callable[[Any, Context], Awaitable[Any]], **more: Any) -> list[Finding]:
    return list(Explorer(Exploration(orders, lambda: [Controller(Order, reconcile)], **more)).reference.played.findings)


async def by_uuid(order: Order, ctx: Context) -> None:
    await ctx.apply(parcel(order, f"parcel-{uuid.uuid4()}"))


def test_a_run_that_is_not_the_same_twice_is_a_finding_and_nothing_else_is_played() -> None:
    report = explore(orders, lambda: [Controller(Order, by_uuid)], budget=5)
    assert not report.ok
    assert report.tried == ()
    assert "the same seed gives another run: played twice, this differs: step " in report.story()
    assert "uuid, secrets" in report.story()
    assert report.summary() == "orders: it fails undisturbed; no plan was played"


def test_a_replay_of_what_is_not_the_same_twice_says_so() -> None:
    exploration = Exploration(orders, lambda: [Controller(Order, by_uuid)])
    assert replay(exploration, "reorder:workers:1").findings[0].rule == "unrepeatable"


class Forgets:
    """Counts in memory, and is never made anew."""

    def __init__(self) -> None:
        self.looks = 0

    async def reconcile(self, order: Order, ctx: Context) -> None:
        self.looks += 1
        await ctx.apply(parcel(order, f"parcel-{self.looks}"), owner=order)


def test_controllers_that_remember_must_not_be_given_as_a_list() -> None:
    exploration = Exploration(orders, [Controller(Order, Forgets().reconcile)])
    [finding] = Explorer(exploration).reference.played.findings
    assert finding.rule == "unrepeatable"
    assert finding.sentence.endswith("give a function that makes new ones, not a list")


async def fails(order: Order, ctx: Context) -> None:
    raise ValueError("no such thing")


async def calls_out(order: Order, ctx: Context) -> None:
    await asyncio.open_connection("example.com", 80)


async def hangs(order: Order, ctx: Context) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("reconcile", "rule", "words"),
    [
        (fails, "failing", "look orders/Order/test/first fails each time: ValueError: no such thing"),
        (calls_out, "failing", "RealWork: create_connection('example.com', 80)"),
        (hangs, "hangs", "look orders/Order/test/first has not ended after 600 seconds"),
    ],
)
def test_a_controller_that_never_does_its_work_is_a_finding(reconcile: Any, rule: str, words: str) -> None:
    finding = found_in(reconcile)[0]
    assert finding.rule == rule
    assert words in finding.sentence
    assert finding.step is not None


async def slow(order: Order, ctx: Context) -> None:
    await asyncio.sleep(200)
    await ctx.apply(parcel(order, order.name))


async def gives_up(order: Order, ctx: Context) -> None:
    raise GiveUp("I do not like it")


@pytest.mark.parametrize("reconcile", [slow, gives_up])
def test_one_that_takes_long_or_gives_up_is_none(reconcile: Any) -> None:
    assert found_in(reconcile) == []


def test_one_that_fails_at_one_object_only_is_a_note() -> None:
    async def picky(order: Order, ctx: Context) -> None:
        if order.name == "first":
            raise ValueError("I do not like it")
        await ctx.apply(parcel(order, order.name))

    async def two(people: Cluster) -> None:
        await people.create(Order.new("first", OrderSpec()))
        await people.create(Order.new("second", OrderSpec()))
        await people.settled()

    report = explore(two, lambda: [Controller(Order, picky)], budget=2)
    assert report.ok
    assert report.notes == ("undisturbed, look orders/Order/test/first fails in the end: ValueError: I do not like it",)
    assert f"note: {report.notes[0]}" in report.story()


def test_that_nobody_writes_anything_is_a_note() -> None:
    report = explore(orders, list, budget=2)
    assert "no controller has written anything" in report.notes[0]


def test_a_loop_names_what_is_done_again_and_again() -> None:
    exploration = Exploration(orders, lambda: [Controller(Order, Forgets().reconcile, owns(Parcel))])
    finding = Explorer(exploration).reference.played.findings[0]
    assert finding.rule == "endless loop"
    assert finding.sentence == "look orders/Order/test/first: 1001 times, and no end in sight"
    assert finding.step is not None


async def beats(order: Order, ctx: Context) -> Any:
    await ctx.apply(parcel(order, order.name, at=ctx.now().isoformat()))
    return requeue(30)


async def two_hours(people: Cluster) -> None:
    await people.create(Order.new("first", OrderSpec()))
    await people.advance(2 * 3600)


def test_what_happens_often_because_much_time_passes_is_no_loop() -> None:
    assert Explorer(Exploration(two_hours, lambda: [Controller(Order, beats)])).reference.played.ok


class Lease(Resource[Spec, Status], api="flats.example.dev/v1"):
    """A contract for a flat, which is no Lease of Kubernetes."""


class Contract(Object, api="flats.example.dev/v1", kind="Event"):
    """Something that happens to a flat."""


def test_kinds_that_are_called_event_or_lease_are_disturbed_and_judged() -> None:
    async def reconcile(lease: Lease, ctx: Context) -> None:
        await ctx.create(Contract(metadata=ObjectMeta(generate_name="party-", namespace=lease.namespace)))

    async def sign(people: Cluster) -> None:
        await people.create(Lease.new("attic", Spec()))
        await people.settled()

    def one_party(state: State) -> None:
        assert len(state.list(Contract)) <= 1, "a second party"

    exploration = Exploration(sign, lambda: [Controller(Lease, reconcile)], invariants=[one_party])
    runs = list(explore_plans(Explorer(exploration), budget=3))
    assert runs[0].ok
    assert any(one.plan.id == "crash-after:create.Event/test/party-~#1" and not one.ok for one in runs)


def test_namespaces_that_controllers_make_are_judged() -> None:
    class Room(Object, api="v1", kind="Namespace", scope="Cluster"):
        """Where a tenant lives."""

    async def reconcile(order: Order, ctx: Context) -> None:
        if await ctx.live(Ref(Room, order.name)) is None and not getattr(reconcile, "done", False):
            await ctx.create(Room(metadata=ObjectMeta(name=order.name)))

    report = Explorer(Exploration(orders, lambda: [Controller(Order, reconcile)]))
    assert "Namespace/first" in report.reference.run.end


def test_an_object_that_is_named_after_a_uid_or_a_made_up_name_is_the_same_in_each_run() -> None:
    async def reconcile(order: Order, ctx: Context) -> None:
        made = [one for one in await ctx.client.list(Parcel) if one.metadata.generate_name == f"{order.name}-"]
        volume = made[0] if made else await ctx.create(parcel(order), owner=order)
        await ctx.apply(parcel(order, f"of-{volume.name}"), owner=order)
        await ctx.apply(parcel(order, f"volume-{order.metadata.uid}"), owner=order)

    explorer = Explorer(Exploration(orders, lambda: [Controller(Order, reconcile)]))
    assert {
        "ConfigMap/test/of-first-~",
        "ConfigMap/test/volume-<uid of Order first>",
    } <= explorer.reference.run.end.keys()
    wrong = [one.plan.id for one in explore_plans(explorer, budget=20) if not one.ok]
    assert wrong == []


def test_what_is_no_scenario_or_no_invariant_is_said() -> None:
    def plain(people: Cluster) -> None: ...

    async def waiting(state: State) -> None: ...

    given: Any = plain
    [finding] = Explorer(Exploration(given, list)).reference.played.findings
    assert "write `async def`" in finding.sentence
    assert found_in(gives_up, invariants=[waiting])[0].sentence.endswith("nobody hears what it says; write `def`")
    with pytest.raises(ConfigError, match="cannot be called"):
        Exploration(orders, list, invariants=["nothing"])  # type: ignore[list-item]


def test_what_would_be_passed_over_is_refused() -> None:
    exploration = Exploration(orders, list)
    with pytest.raises(ConfigError, match="takes controllers and invariants from the Exploration"):
        explore(exploration, invariants=[lambda state: True])
    with pytest.raises(ConfigError, match="budget=-1: give how many"):
        explore(exploration, budget=-1)
