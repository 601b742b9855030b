"""Relations by a shared value (`matches`), and the indexes of watched kinds."""

from collections.abc import Hashable

import pytest

from levelset.errors import ConfigError
from levelset.objects import Object, ObjectMeta
from levelset.runtime.cache import Index
from levelset.runtime.controller import Context, Controller, matches, watches
from levelset.testing import Cluster

__all__: list[str] = []


class Flag(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


class Account(Object, api="v1", kind="ServiceAccount"):
    pass


def wanted(account: Account) -> list[Hashable]:
    color = account.metadata.labels.get("color")
    return [] if color is None else [(account.namespace, color)]


def offered(flag: Flag) -> list[Hashable]:
    return [(flag.namespace, color) for color in flag.data]


def account(name: str, color: str) -> Account:
    return Account(metadata=ObjectMeta(name=name, namespace="test", labels={"color": color}))


def flag(*colors: str) -> Flag:
    return Flag(metadata=ObjectMeta(name="flag", namespace="test"), data=dict.fromkeys(colors, "x"))


async def test_objects_that_share_a_value_before_or_after_a_change_are_reconciled(cluster: Cluster) -> None:
    async def reconcile(one: Account, ctx: Context) -> None:
        pass

    accounts = Controller(Account, reconcile, matches(Flag, ours=wanted, theirs=offered), namespace="test")
    for one in (account("a", "red"), account("b", "blue"), account("c", "green")):
        await cluster.create(one)
    async with cluster.running(accounts):
        await cluster.settled()
        seen: list[list[str]] = []
        for colors in (("red", "blue"), ("blue", "green"), ()):
            before = len(cluster.reconciles())
            await cluster.apply(flag(*colors), force=True)
            await cluster.settled()
            seen.append(sorted(one.outcome.ref.name for one in cluster.reconciles()[before:]))
    assert seen == [["a", "b"], ["a", "b", "c"], ["b", "c"]]


async def test_an_index_of_a_watched_kind_can_be_used_by_the_reconciler(cluster: Cluster) -> None:
    colors = Index(Flag, offered)
    found: list[str] = []

    async def reconcile(one: Account, ctx: Context) -> None:
        for value in wanted(one):
            found.extend(each.name for each in await ctx.list(Flag, index=(colors, value)))

    accounts = Controller(Account, reconcile, watches(Flag, to=lambda _: [], indexes=[colors]), namespace="test")
    await cluster.create(flag("red"))
    await cluster.create(account("a", "red"))
    await cluster.create(account("b", "blue"))
    async with cluster.running(accounts):
        await cluster.settled()
    assert found == ["flag"]


def test_anything_but_a_function_raises_a_config_error() -> None:
    nothing: object = None
    with pytest.raises(ConfigError, match="ours=None is not a function"):
        matches(Flag, ours=nothing, theirs=offered)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="theirs=None is not a function"):
        matches(Flag, ours=wanted, theirs=nothing)  # type: ignore[arg-type]
