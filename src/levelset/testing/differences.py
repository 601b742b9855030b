"""What is different between two JSON trees, one short sentence for each place; pure."""

import json
from collections.abc import Iterator
from typing import Any, Final, cast

__all__ = ["differences"]

_LONGEST: Final = 60


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Each place that was added, removed or changed, in the order of the tree: `spec.replicas: 1 -> 3`."""
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _entry(old, new, key, f"{path}.{key}" if path else key)
    elif before != after:
        yield f"{path}: {_short(before)} -> {_short(after)}"


def _entry(before: dict[str, Any], after: dict[str, Any], key: str, path: str) -> Iterator[str]:
    if key not in after:
        yield f"{path} removed (was {_short(before[key])})"
    elif key not in before:
        yield f"{path} = {_short(after[key])}"
    else:
        yield from differences(before[key], after[key], path)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
