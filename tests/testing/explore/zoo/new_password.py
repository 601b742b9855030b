"""Makes up a password, writes it in two places, and makes up another one if it is interrupted in between.

Modelled on marmos91/dittofs#1182, zalando/postgres-operator#1115 and cryostatio/cryostat-operator#475: two objects that
must agree, each written from memory. The first of the two is the truth once it is written, and the second is made from
what was read back.
"""

from typing import Any

from levelset import AlreadyExists, Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Database", "broken", "expected", "fixed"]


class Database(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """Wants a password in a secret, and the same one in its configuration."""


async def write_both(database: Database, ctx: Context) -> None:
    password = make_up(ctx)
    await create_once(ctx, config_map(database, "secret", password=password), database)
    await create_once(ctx, config_map(database, "config", password=password), database)


async def write_and_read_back(database: Database, ctx: Context) -> None:
    await create_once(ctx, config_map(database, "secret", password=make_up(ctx)), database)
    secret = await ctx.get(Ref(ConfigMap, "secret", database.namespace), read="live")
    await ctx.apply(config_map(database, "config", password=secret.data["password"]), owner=database)


async def create_once(ctx: Context, child: Any, database: Database) -> None:
    try:
        await ctx.create(child, owner=database)
    except AlreadyExists:
        ctx.log.debug("it is there")


def make_up(ctx: Context) -> str:
    return f"{ctx.now().timestamp():.6f}"  # nobody can guess it, at least not in this zoo


def the_password_opens_the_database(state: State) -> None:
    found = {one.data["password"] for one in state.list(ConfigMap) if "password" in one.data}
    assert len(found) <= 1, "the secret and the configuration have different passwords"


async def scenario(people: Cluster) -> None:
    await people.create(Database.new("users", Spec()))
    await people.settled()


rules = [the_password_opens_the_database]
broken = Exploration(scenario, lambda: [Controller(Database, write_both)], invariants=rules, ignored=["ConfigMap"])
fixed = Exploration(
    scenario, lambda: [Controller(Database, write_and_read_back)], invariants=rules, ignored=["ConfigMap"]
)
expected = Expected("the_password_opens_the_database", "create", "ConfigMap")
