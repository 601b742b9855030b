"""Recovers an interrupted conversion from a journal, and deletes the journal first: a second crash loses the data.

Modelled on HarperFast/harper#2634 (a recovery truncates the marker that it needs, and a crash then leaves a half-purged
database without it) and marmos91/dittofs#833. The fix deletes the journal last.
"""

from collections.abc import Awaitable, Callable

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Table", "broken", "expected", "fixed"]


class TableSpec(Spec):
    format: int = 1


class Table(Resource[TableSpec, Status], api="zoo.example.dev/v1"):
    """A table, which is stored in a format."""


Recover = Callable[[Table, ConfigMap, Context], Awaitable[None]]


def data_of(table: Table) -> Ref[ConfigMap]:
    return Ref(ConfigMap, table.name, table.namespace)


def journal_of(table: Table) -> Ref[ConfigMap]:
    return Ref(ConfigMap, f"{table.name}-journal", table.namespace)


async def convert(table: Table, ctx: Context, recover: Recover) -> None:
    if journal := await ctx.live(journal_of(table)):
        await recover(table, journal, ctx)
    data = await ctx.live(data_of(table))
    if data is None:
        await ctx.create(config_map(table, table.name, rows="none", format=table.spec.format))
    elif data.data["format"] != str(table.spec.format):
        journal = await ctx.create(config_map(table, f"{table.name}-journal", rows=data.data["rows"]))
        await ctx.delete(data)
        await write_rows(table, journal, ctx)
        await ctx.delete(journal)


async def write_rows(table: Table, journal: ConfigMap, ctx: Context) -> None:
    await ctx.apply(config_map(table, table.name, rows=journal.data["rows"], format=table.spec.format))


async def recover_from_memory(table: Table, journal: ConfigMap, ctx: Context) -> None:
    await ctx.delete(journal)
    await write_rows(table, journal, ctx)


async def recover_from_journal(table: Table, journal: ConfigMap, ctx: Context) -> None:
    await write_rows(table, journal, ctx)
    await ctx.delete(journal)


async def scenario(user: Cluster) -> None:
    table = await user.create(Table.new("orders", TableSpec()))
    await user.until(data_of(table))
    await user.patch(data_of(table), MergePatch({"data": {"rows": "1,2,3"}}))
    await user.patch(table.ref, MergePatch({"spec": {"format": 2}}))
    await user.until(data_of(table), lambda one: one.data["format"] == "2")


def exploration(recover: Recover) -> Exploration:
    async def reconcile(table: Table, ctx: Context) -> None:
        await convert(table, ctx, recover)

    # Rows that another writer deletes are lost, and tables are not dropped.
    return Exploration(
        scenario, lambda: [Controller(Table, reconcile)], allowed=["not watched: ConfigMap", "leaked: ConfigMap"]
    )


broken = exploration(recover_from_memory)
fixed = exploration(recover_from_journal)
expected = Expected("end state", "delete", "ConfigMap")
