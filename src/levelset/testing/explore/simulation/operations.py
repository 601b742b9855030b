"""Operations of users: valid changes of the specs that a scenario has created, generated from their schemas.

After each, the end must equal that of a fresh start with the final spec. A text that names an object is not changed.
Others are changed for good only if they appear in an object that a controller wrote; else they are changed and
restored, since they may refer to something.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from levelset.objects.json_tree import is_list, is_map
from levelset.testing.explore.faults.environment_faults import SpecChanged

__all__ = ["UserObject", "spec_changes", "user_tree"]

UserObject = Mapping[str, Any]
"""An object as a user would create it."""

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_OF_USERS: Final = ("name", "namespace", "labels", "annotations")
_DEEPEST: Final = 4


def user_tree(tree: Mapping[str, Any]) -> UserObject:
    """A stored object as a user would create it: without status and what the server or controllers add."""
    metadata = {name: tree["metadata"][name] for name in _OF_USERS if name in tree["metadata"]}
    return {**{name: value for name, value in tree.items() if name not in {"metadata", "status"}}, "metadata": metadata}


def spec_changes(
    target: str, spec: Mapping[str, Any], schema: Mapping[str, Any], *, may_change: Callable[[str], bool | None]
) -> Iterator[SpecChanged]:
    """The changes of a spec, one field each; `may_change` says whether a text can be changed for good, None: never."""
    for path, value, is_back in _fields(spec, schema, (), may_change):
        yield SpecChanged(target, ".".join(path), "" if value is None else _encode(value).decode(), int(is_back))


Change = tuple[tuple[str, ...], Any, bool]


def _fields(
    value: Mapping[str, Any], schema: Mapping[str, Any], path: tuple[str, ...], may_change: Callable[[str], bool | None]
) -> Iterator[Change]:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: Sequence[str] = schema.get("required") or ()
    for name in sorted(properties):
        of, here = properties[name], (*path, name)
        if "." in name or len(here) > _DEEPEST:
            continue
        if name not in value:
            yield from ((here, one, False) for one in _first_values(of))
        elif is_map(value[name]) and of.get("properties"):
            yield from _fields(value[name], of, here, may_change)
        else:
            yield from _values(value[name], of, here, may_change)
            if name not in required and isinstance(value[name], bool | int) and "default" not in of:
                yield here, None, False


def _first_values(schema: Mapping[str, Any]) -> Iterator[Any]:
    """A value for a field that is not set."""
    match schema.get("type"):
        case "boolean":
            yield not schema.get("default", False)
        case "integer" if "default" in schema:
            yield schema["default"] + 1
        case "string" if schema.get("enum"):
            yield schema["enum"][-1]
        case _:
            return


def _values(
    value: Any, schema: Mapping[str, Any], path: tuple[str, ...], may_change: Callable[[str], bool | None]
) -> Iterator[Change]:
    if isinstance(value, bool):
        yield path, not value, False
    elif isinstance(value, int):
        yield from ((path, one, False) for one in (value - 1, value + 1) if _is_within(one, schema))
    elif isinstance(value, str) and schema.get("enum"):
        yield from ((path, one, False) for one in schema["enum"] if one != value)
    elif isinstance(value, str) and value and not schema.get("format"):
        if (is_for_good := may_change(value)) is not None:
            yield path, f"{value}-2", not is_for_good
    elif is_list(value) and value and len(value) > schema.get("minItems", 0):
        yield path, value[:-1], False
    elif is_map(value) and value and not schema.get("properties"):
        yield path, dict.fromkeys(sorted(value)[-1:]), False


def _is_within(value: int, schema: Mapping[str, Any]) -> bool:
    lowest, highest = schema.get("minimum", 0), schema.get("maximum", value)
    return bool(lowest <= value <= highest)
