"""Reads the package's data files once in a process, so that no request ever waits for the disk."""

import asyncio
from functools import cache

from levelset.apiserver.openapi import openapi_protobuf
from levelset.apiserver.schema import preload
from levelset.apiserver.wire import protobuf
from levelset.patch import builtin_shape
from levelset.re2 import unicode_data

__all__ = ["read_data", "wait_data"]


@cache
def read_data() -> None:
    """Reads the schemas and shapes of the built-in kinds, and the characters; they are still decoded on demand."""
    preload()
    protobuf.preload()
    openapi_protobuf.preload()
    unicode_data.preload()
    builtin_shape("", "v1", "ConfigMap")


async def wait_data() -> None:
    """Has the files read in a thread, unless they are read already."""
    if not read_data.cache_info().currsize:
        await asyncio.to_thread(read_data)
