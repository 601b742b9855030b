"""Webhooks are active in every plan: what they enforce holds under all disturbances."""

from contextlib import suppress
from dataclasses import replace

import pytest

from levelset import Context, Controller, Denied, MergePatch, defaults, owns, validates
from levelset.errors import ConfigError, Forbidden
from levelset.runtime.webhook import AdmissionHook
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State, explore
from tests.testing.explore.mistakes import Order, OrderSpec, Parcel, parcel

MOST = 10


def labelled(order: Order) -> Order:
    return order if order.spec.label else order.with_spec(label="plain")


def sensible(order: Order) -> None:
    if order.spec.size > MOST:
        raise Denied(f"at most {MOST}", field="spec.size")


async def careless(user: Cluster) -> None:
    """Creates orders without a label and with an invalid size."""
    with suppress(Forbidden):
        await user.create(Order.new("much", OrderSpec(size=99)))
    made = await user.create(Order.new("some", OrderSpec(size=2)))
    await user.settled()
    with suppress(Forbidden):
        await user.patch(made.ref, MergePatch({"spec": {"size": 99}}))
    await user.settled()


async def send(order: Order, ctx: Context) -> None:
    await ctx.apply(parcel(order, order.name, size=str(order.spec.size), label=order.spec.label), owner=order)


def orders_are_labelled(state: State) -> None:
    assert all(one.spec.label for one in state.list(Order)), "an order has no label"


def orders_are_small(state: State) -> None:
    assert all(one.spec.size <= MOST for one in state.list(Order)), "an order is too large"


EXPLORATION = Exploration(
    careless,
    lambda: [Controller(Order, send, owns(Parcel))],
    invariants=[orders_are_labelled, orders_are_small],
    webhooks=[defaults(Order, labelled), [validates(Order, sensible)]],
)


def test_what_webhooks_enforce_holds_in_every_plan() -> None:
    report = explore(EXPLORATION, budget=25)
    assert (report.ok, len(report.tried)) == (True, 25), report.story()


@pytest.mark.parametrize(
    ("webhook", "broken"),
    [(defaults(Order, labelled), "orders_are_small"), (validates(Order, sensible), "orders_are_labelled")],
    ids=["without the check", "without the defaults"],
)
def test_without_one_of_them_an_invariant_breaks(webhook: AdmissionHook, broken: str) -> None:
    report = explore(replace(EXPLORATION, webhooks=[webhook]), budget=1)
    assert [one.rule for one in report.undisturbed.findings] == [broken]


def test_a_value_that_is_not_a_webhook_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a webhook: pass the results of defaults, validates or converts"):
        replace(EXPLORATION, webhooks=[sensible])  # type: ignore[list-item]  # the mistake
