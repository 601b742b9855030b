"""Stands in for `e2e_test.base`, which the official Python clients' suites import and their packages do not carry.

Copied into the package of a client, whose classes it finds relative to itself: `PACKAGE.e2e_test.base`.
"""

import asyncio
import importlib
import inspect
from typing import Any

__all__ = ["get_e2e_configuration"]


def get_e2e_configuration() -> Any:
    """The configuration of the cluster of KUBECONFIG."""
    package = __name__.rpartition(".e2e_test")[0]
    configuration = importlib.import_module(f"{package}.client").Configuration()
    loading = importlib.import_module(f"{package}.config").load_kube_config(client_configuration=configuration)
    if inspect.isawaitable(loading):

        async def load() -> None:
            await loading

        asyncio.run(load())
    return configuration
