"""From the `request` of a ConversionReview to its `response`: all objects in their order, or none and the reason."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from levelset.errors import LevelsetError
from levelset.webhook.conversion import Conversions

__all__ = ["convert_all"]

_log: Final = logging.getLogger("levelset.webhook")

_AT_ONCE: Final = 100


async def convert_all(conversions: Conversions, request: Mapping[str, Any]) -> dict[str, Any]:
    """The response; a failure names the first object that could not be converted."""
    wanted = request["desiredAPIVersion"]
    made: list[dict[str, Any]] = []
    for index, tree in enumerate(request["objects"]):
        if index % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)  # a long list is no reason to keep other reviews waiting
        try:
            made.append(conversions.convert(tree, wanted))
        except LevelsetError as error:
            place = _place(tree)
            _log.error(
                "a conversion failed", exc_info=error, extra={"object": place, "wanted": wanted, "uid": request["uid"]}
            )
            message = f"{place} (objects[{index}]) cannot become {wanted}: {error}"
            return {"uid": request["uid"], "convertedObjects": [], "result": {"status": "Failure", "message": message}}
    return {"uid": request["uid"], "convertedObjects": made, "result": {"status": "Success"}}


def _place(tree: Mapping[str, Any]) -> str:
    metadata: Mapping[str, Any] = tree["metadata"]
    named = (tree["kind"], metadata.get("namespace"), metadata.get("name") or metadata.get("generateName"))
    return "/".join(str(one) for one in named if one)
