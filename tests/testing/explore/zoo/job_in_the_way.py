"""Runs a check as an object with a fixed name, and cannot start over if an earlier process has left that object.

Modelled on cockroachdb/cockroach-operator#647 (a check job that is left by a crashed operator has to be deleted by
hand). The fix takes the job that is there for its own.
"""

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Database", "broken", "expected", "fixed"]


class DatabaseStatus(Status):
    version: str = ""


class Database(Resource[Spec, DatabaseStatus], api="zoo.example.dev/v1"):
    """A database whose version is found out by a job."""


def job_of(database: Database) -> ConfigMap:
    return config_map(database, f"{database.name}-check", version="7")


async def check_by_create(database: Database, ctx: Context) -> None:
    if database.status is None:
        job = await ctx.create(job_of(database), owner=database)
        await ctx.set_status(database, DatabaseStatus(version=job.data["version"]))
        await ctx.delete(job.ref)


async def check_by_apply(database: Database, ctx: Context) -> None:
    if database.status is None:
        job = await ctx.apply(job_of(database), owner=database)
        await ctx.set_status(database, DatabaseStatus(version=job.data["version"]))
    await ctx.delete(job_of(database).ref)


async def scenario(user: Cluster) -> None:
    await user.create(Database.new("ledger", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Database, check_by_create)])
fixed = Exploration(scenario, lambda: [Controller(Database, check_by_apply)])
expected = Expected("end state", "create", "ConfigMap")
