"""The examples in examples/dcp work."""

import asyncio
from pathlib import Path
from typing import Any

import yaml

from levelset import Client, Ref, open_local
from levelset.objects import Unstructured
from levelset_dcp.kinds import Executable, Service
from levelset_dcp.system import KINDS, Options, dcp_system
from systems.dcp.tests.support.sessions import WITHIN, lines_of, until_state

EXAMPLES = Path(__file__).parents[3] / "examples" / "dcp"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8")))


async def apply(client: Client, name: str, env: dict[str, str] | None = None) -> None:
    """Applies a manifest; paths of programs are made absolute, as a test may run in any directory."""
    for tree in await asyncio.to_thread(documents, name):
        spec = tree["spec"].get("template", tree).get("spec", {})
        spec.update({"args": [str(EXAMPLES / Path(one).name) for one in spec["args"]]} if "args" in spec else {})
        if tree["metadata"]["name"] == "customer":
            spec["env"] += [{"name": word, "value": value} for word, value in (env or {}).items()]
        await client.create(Unstructured(tree))


async def test_the_customer_finds_the_shop() -> None:
    async with open_local(dcp_system(Options(grace=0.3))) as local:
        await apply(local.client, "shop.yaml", {"VISITS": "2"})
        done = await until_state(local.client, "customer", "Finished")
        assert done.status is not None
        assert done.status.exit_code == 0
        shop = await local.client.wait(
            Ref(Executable, "shop"),
            lambda one: bool(one.status and one.status.health_status == "Healthy"),
            within=WITHIN,
        )
        assert shop.status is not None
        lines = [one for one in await lines_of(local.client, "customer") if not one.startswith("the shop is closed")]
        assert lines == [f"apple, pear, says process {shop.status.pid}"] * 2


async def test_more_shops_and_the_database_are_valid() -> None:
    async with open_local(dcp_system(Options(grace=0.3))) as local:
        await apply(local.client, "more-shops.yaml")
        await apply(local.client, "database.yaml")
        assert len(await local.client.list(Service)) == 1
        assert {one.__name__ for one in KINDS} >= {"Container", "ExecutableReplicaSet"}
