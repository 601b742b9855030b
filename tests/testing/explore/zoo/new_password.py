"""Generates a password, writes it into two objects, and generates another one if it is interrupted in between.

Modelled on marmos91/dittofs#1182, zalando/postgres-operator#1115 and cryostatio/cryostat-operator#475: two objects that
must agree are written from memory. The fix writes the second object from the stored first one.
"""

from typing import Any

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.errors import AlreadyExists
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Database", "broken", "expected", "fixed"]


class Database(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """A database with the same password in its secret and its configuration."""


async def write_both(database: Database, ctx: Context) -> None:
    password = generate_password(ctx)
    await create_once(ctx, config_map(database, "secret", password=password), database)
    await create_once(ctx, config_map(database, "config", password=password), database)


async def write_and_read_back(database: Database, ctx: Context) -> None:
    await create_once(ctx, config_map(database, "secret", password=generate_password(ctx)), database)
    secret = await ctx.get(Ref(ConfigMap, "secret", database.namespace), read="live")
    await ctx.apply(config_map(database, "config", password=secret.data["password"]), owner=database)


async def create_once(ctx: Context, child: Any, database: Database) -> None:
    try:
        await ctx.create(child, owner=database)
    except AlreadyExists:
        ctx.log.debug("it exists")


def generate_password(ctx: Context) -> str:
    return f"{ctx.now().timestamp():.6f}"  # deterministic, unlike a real password


def both_passwords_are_equal(state: State) -> None:
    found = {one.data["password"] for one in state.list(ConfigMap) if "password" in one.data}
    assert len(found) <= 1, "the secret and the configuration have different passwords"


async def scenario(user: Cluster) -> None:
    await user.create(Database.new("users", Spec()))
    await user.settled()


rules = [both_passwords_are_equal]
broken = Exploration(scenario, lambda: [Controller(Database, write_both)], invariants=rules, ignored=["ConfigMap"])
fixed = Exploration(
    scenario, lambda: [Controller(Database, write_and_read_back)], invariants=rules, ignored=["ConfigMap"]
)
expected = Expected("both_passwords_are_equal", "create", "ConfigMap")
