"""What comes to rest means: writes without end and fights are found undisturbed, heartbeats and progress are not."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from levelset import Context, Controller, MergePatch, ObjectMeta, Ref, defaults, owns, requeue
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, Finding
from levelset.testing.explore.judging.endless_loops import overridden_fields
from levelset.testing.explore.search import Explorer
from tests.testing.explore.mistakes import Order, OrderSpec, Parcel, parcel


async def one_order(user: Cluster) -> None:
    await user.create(Order.new("first", OrderSpec()))
    await user.settled()


def found_in(make: Callable[[], Sequence[Controller[Any]]], scenario: Any = one_order, **more: Any) -> list[Finding]:
    explored = Exploration(scenario, make, **{"within": 200.0, **more})
    return list(Explorer(explored).reference.played.findings)


def sentence(make: Callable[[], Sequence[Controller[Any]]], **more: Any) -> str:
    findings = found_in(make, **more)
    assert [one.rule for one in findings] == ["endless loop"] * len(findings)
    assert findings, "nothing was found"
    assert findings[0].step is not None
    return findings[0].sentence


def counting(seconds: float) -> list[Controller[Order]]:
    numbers = count()

    async def reconcile(order: Order, ctx: Context) -> Any:
        await ctx.apply(parcel(order, "counter", number=str(next(numbers))))
        return requeue(seconds)

    return [Controller(Order, reconcile)]


def test_one_write_every_two_seconds_for_ever_is_found() -> None:
    assert sentence(lambda: counting(2)).startswith("orders writes ConfigMap/test/counter without end: data.number")


def test_a_write_of_the_time_every_two_seconds_is_found() -> None:
    async def reconcile(order: Order, ctx: Context) -> Any:
        await ctx.apply(parcel(order, "clock", at=ctx.now().isoformat()))
        return requeue(2)

    said = sentence(lambda: [Controller(Order, reconcile)])
    assert said.startswith("orders writes ConfigMap/test/clock again and again, and nothing but times changes")


def test_a_heartbeat_is_rest_and_so_is_a_counter_that_moves_now_and_then() -> None:
    assert found_in(lambda: counting(30)) == []


def test_progress_that_ends_is_rest() -> None:
    def make() -> list[Controller[Order]]:
        numbers = iter(range(50))

        async def reconcile(order: Order, ctx: Context) -> Any:
            number = next(numbers, None)
            if number is None:
                return None
            await ctx.apply(parcel(order, "progress", percent=str(2 * number)))
            return requeue(2)

        return [Controller(Order, reconcile)]

    assert found_in(make) == []


def test_a_child_that_is_deleted_and_created_again_and_again_is_found() -> None:
    async def reconcile(order: Order, ctx: Context) -> None:
        if ctx.cached(Ref(Parcel, "box", order.namespace)) is None:
            await ctx.create(parcel(order, "box"), owner=order)
        else:
            await ctx.delete(Ref(Parcel, "box", order.namespace))

    said = sentence(lambda: [Controller(Order, reconcile, owns(Parcel))])
    assert "orders deletes and creates ConfigMap/test/box again and again" in said


def test_children_with_generated_names_without_end_are_found() -> None:
    async def reconcile(order: Order, ctx: Context) -> None:
        named = ObjectMeta(generate_name="box-", namespace=order.namespace)
        await ctx.create(Parcel(metadata=named), owner=order)

    assert sentence(lambda: [Controller(Order, reconcile, owns(Parcel))]).startswith(
        "orders creates ConfigMap/test/box-~ without end"
    )


def test_children_with_new_names_without_end_are_found() -> None:
    def make() -> list[Controller[Order]]:
        numbers = count()

        async def reconcile(order: Order, ctx: Context) -> None:
            await ctx.create(parcel(order, f"box-{next(numbers)}"), owner=order)

        return [Controller(Order, reconcile, owns(Parcel))]

    assert "creates ConfigMap objects without end" in sentence(make)


def setter(name: str, value: str, *relations: Any, seconds: float | None = None) -> Controller[Order]:
    """A controller that sets a field of a shared object to its own value."""

    async def reconcile(order: Order, ctx: Context) -> Any:
        box = await ctx.live(Ref(Parcel, "box", order.namespace))
        if box is not None and box.data.get("owner") != value:
            await ctx.patch(box.ref, MergePatch({"data": {"owner": value}}))
        return None if seconds is None else requeue(seconds)

    return Controller(Order, reconcile, *relations, name=name)


async def with_a_box(user: Cluster) -> None:
    order = await user.create(Order.new("first", OrderSpec()))
    await user.create(parcel(order, "box", owner="none"))
    await user.settled()


@pytest.mark.parametrize("seconds", [2.0, 25.0])
def test_a_fight_of_two_writers_is_named_at_any_rate(seconds: float) -> None:
    def make() -> list[Controller[Order]]:
        return [setter("red", "red", seconds=seconds), setter("blue", "blue", seconds=seconds)]

    said = sentence(make, scenario=with_a_box)
    assert said.startswith("two writers fight over data.owner of ConfigMap/test/box: blue and red")


def test_two_writers_of_different_fields_do_not_fight() -> None:
    def beat(name: str) -> Controller[Order]:
        async def reconcile(order: Order, ctx: Context) -> Any:
            box = Ref(Parcel, "box", order.namespace)
            await ctx.patch(box, MergePatch({"data": {name: ctx.now().isoformat()}}))
            return requeue(30)

        return Controller(Order, reconcile, name=name)

    assert found_in(lambda: [beat("red"), beat("blue")], with_a_box) == []


def held(box: Parcel) -> Parcel:
    """What the webhook insists on."""
    return Parcel(metadata=box.metadata, data={**box.data, "owner": "webhook"})


@pytest.mark.parametrize("relations", [(), (owns(Parcel),)])
def test_a_fight_of_a_webhook_and_a_controller_is_named(relations: tuple[Any, ...]) -> None:
    said = sentence(
        lambda: [setter("red", "red", *relations, seconds=15)],
        scenario=with_a_box,
        webhooks=[defaults(Parcel, held)],
    )
    assert said.startswith("a webhook and red fight over data.owner of ConfigMap/test/box")


def test_a_webhook_that_changes_a_field_once_is_no_fight() -> None:
    async def reconcile(order: Order, ctx: Context) -> Any:
        await ctx.apply(parcel(order, "box", owner="red"), owner=order)
        return requeue(3600)

    make = [Controller(Order, reconcile, owns(Parcel))]
    assert found_in(lambda: make, webhooks=[defaults(Parcel, held)]) == []


def test_the_fields_that_a_webhook_has_changed_are_those_that_were_sent() -> None:
    sent = b'{"metadata": {"name": "a", "labels": {"a": "1"}}, "spec": {"replicas": 1, "list": [{"a": 1}], "no": null}}'
    stored = b'{"metadata": {"name": "a", "labels": {"a": "2"}}, "spec": {"replicas": 3, "list": [{"a": 1, "b": 2}]}}'
    assert overridden_fields(sent, stored) == ["spec.replicas", "metadata.labels.a"]
    assert overridden_fields(b"[]", stored) == overridden_fields(b"no json", stored) == []
