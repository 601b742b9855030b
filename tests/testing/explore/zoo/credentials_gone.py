"""Needs a secret of the namespace to clean up, which is deleted first when the namespace is.

Modelled on rabbitmq/messaging-topology-operator#277 (a user is stuck in deletion because its secret has been deleted
already) and SAP/sap-btp-service-operator#331. The fix records what the cleanup needs before it creates anything.
"""

from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.objects import ObjectMeta
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected

__all__ = ["Account", "broken", "expected", "fixed"]


class Broker:
    """A message broker with accounts."""

    def __init__(self) -> None:
        self.logins: set[str] = set()

    async def add(self, login: str) -> None:
        self.logins.add(login)

    async def remove(self, login: str) -> None:
        self.logins.discard(login)


class AccountStatus(Status):
    login: str = ""


class Account(Resource[Spec, AccountStatus], api="zoo.example.dev/v1"):
    """An account of a broker, whose login is in a secret."""


async def read_login(account: Account, ctx: Context) -> str:
    secret = await ctx.get(ConfigMap, f"{account.name}-login", namespace=account.namespace, read="live")
    return secret.data["login"]


def reading_again(broker: Broker) -> list[Controller[Any]]:
    async def reconcile(account: Account, ctx: Context) -> None:
        await broker.add(await read_login(account, ctx))

    async def cleanup(account: Account, ctx: Context) -> None:
        await broker.remove(await read_login(account, ctx))

    return [Controller(Account, reconcile, cleanup=cleanup)]


def recording(broker: Broker) -> list[Controller[Any]]:
    async def reconcile(account: Account, ctx: Context) -> None:
        login = account.status.login if account.status else await read_login(account, ctx)
        await ctx.set_status(account, AccountStatus(login=login))
        await broker.add(login)

    async def cleanup(account: Account, ctx: Context) -> None:
        if account.status is not None:
            await broker.remove(account.status.login)

    return [Controller(Account, reconcile, cleanup=cleanup)]


async def scenario(user: Cluster) -> None:
    await user.create(ConfigMap(metadata=ObjectMeta(name="shop-login"), data={"login": "shop"}))
    await user.create(Account.new("shop", Spec()))
    await user.settled()


broken = Exploration(scenario, reading_again, outside=Broker, kinds=[ConfigMap])
fixed = Exploration(scenario, recording, outside=Broker, kinds=[ConfigMap])
expected = Expected("stuck", "patch", "Account")
