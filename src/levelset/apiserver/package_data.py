"""Loads the package's data files once per process, so that no request waits for the disk."""

import asyncio
from functools import cache

from levelset.apiserver.controllers import bootstrap_roles
from levelset.apiserver.openapi import builtin_enums, openapi_protobuf
from levelset.apiserver.registry import time_zones
from levelset.apiserver.registry.builtin import written_members
from levelset.apiserver.schema import preload
from levelset.apiserver.wire import protobuf
from levelset.patch import builtin_shape
from levelset.re2 import unicode_data

__all__ = ["load_package_data", "wait_package_data"]


@cache
def load_package_data() -> None:
    """Reads the schemas and shapes of the built-in kinds, Unicode tables and time zones; decoded on demand."""
    preload()
    protobuf.preload()
    openapi_protobuf.preload()
    builtin_enums.preload()
    unicode_data.preload()
    bootstrap_roles.preload()
    written_members.preload()
    time_zones.preload()
    builtin_shape("", "v1", "ConfigMap")


async def wait_package_data() -> None:
    """Loads the files in a thread, unless they are loaded already."""
    if not load_package_data.cache_info().currsize:
        await asyncio.to_thread(load_package_data)
