"""A program: one of several replicas that share ConfigMaps, to be killed. Arguments: URL and token of the server."""

import asyncio
import sys

from levelset import Context, Controller, Manager, Sharding
from levelset.client import Client, Config, Token
from levelset.kinds.core_v1 import ConfigMap

__all__ = ["SHARDS", "controller"]

SHARDS = Sharding(name="maps", lease=24, renew=6.0, retry=1.0, drain=5.0)


async def _reconcile(_: ConfigMap, __: Context) -> None:
    pass


def controller() -> Controller[ConfigMap]:
    """The controller of all replicas."""
    return Controller(ConfigMap, _reconcile, name="maps", namespace="default")


async def _main(url: str, token: str) -> None:
    config = Config(server=url, credentials=Token(token))
    async with await Client.connect(config) as client, Manager(client, shards=SHARDS) as manager:
        manager.add(controller())
        await manager.wait_elected()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
