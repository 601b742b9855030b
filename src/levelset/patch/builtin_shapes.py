"""The shapes of Kubernetes' built-in kinds, read from the facts that ship with the package.

The facts (`builtin_shapes.json`, written by `scripts/generate_shapes.py`) are read when the first kind is asked for,
once per process; a kind's own part is worked out when that kind is asked for.
"""

from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from levelset.patch.shapes import Shape, ShapeReader

__all__ = ["builtin_shape"]


def builtin_shape(group: str, version: str, kind: str) -> Shape | None:
    """The shape of a built-in kind (`builtin_shape("apps", "v1", "Deployment")`); None for kinds that are not built in.

    The core group is `""`. The same kind always gives the same shape.
    """
    facts = _facts()
    name = facts.kinds.get(f"{group}/{version}/{kind}")
    if name is None:
        return None
    with facts.reading:
        return facts.reader.read({"$ref": name})


class _Facts:
    """The file's content: which kind is which definition, and a reader of definitions."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.kinds: dict[str, str] = content["kinds"]
        self.reader = ShapeReader(content["definitions"])
        self.reading = Lock()  # a shape that is being read is already known, but not yet whole


@cache
def _facts() -> _Facts:
    content = Path(__file__).with_name("builtin_shapes.json").read_bytes()
    return _Facts(msgspec.json.decode(content))
