"""Has a server serve the kinds of a project as their classes are now, and tells what that changes."""

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from levelset.cli.gathering import Gathered
from levelset.client.client import Client
from levelset.codegen.crd import crds_of
from levelset.manager.definitions import DEFINITION, is_established
from levelset.objects import Ref, Unstructured
from levelset.objects.yamltext import write_yaml

__all__ = ["define"]

_MANAGER: Final = "levelset"


async def define(client: Client, found: Gathered) -> Sequence[str]:
    """Applies the definitions that differ from what is served; gives the differences, line by line.

    Also those of kinds that are somebody else's: this server has nobody else.
    """
    told: list[str] = []
    # In a thread, since it reads the classes' source files.
    for wanted in await asyncio.to_thread(crds_of, found.followed_kinds, hubs=found.hubs):
        ref: Ref[Unstructured] = Ref(DEFINITION, wanted["metadata"]["name"])
        there = await client.find(ref)
        applied = await client.apply(wanted, force=True, manager=_MANAGER)
        await client.wait(ref, is_established)
        if there is None:
            told.append(f"serves      {ref.name}")
        else:
            told += _difference(ref.name, there.tree, applied.tree)
    return told


def _difference(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = (write_yaml([one["spec"]]).splitlines() for one in (before, after))
    lines = list(difflib.unified_diff(old, new, f"{name} (served before)", f"{name} (as it is now)", lineterm="", n=2))
    return [f"  {line}" for line in lines]
