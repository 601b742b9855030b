"""What the `scale` subresource of a definition reads of a custom resource has to be numbers and a text."""

from typing import Any, Final

import msgspec

from levelset.apiserver.resources.served_resource import Object, ScalePaths
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.json_tree import is_list, is_map

__all__ = ["ScaleValues"]

_MAX_REPLICAS: Final = 2**31 - 1
_MAP: Final = "map[string]interface {}"
_TYPES: Final[dict[type, str]] = {
    type(None): "<nil>",
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: _MAP,
}


class ScaleValues(msgspec.Struct, frozen=True, eq=False):
    """The rules of the values at the paths of a `scale` subresource."""

    paths: ScalePaths

    def validate(self, new: Object, _old: Object | None) -> list[Cause]:
        """The causes in an object."""
        return [*_check_replicas(new, self.paths.spec), *self._check_status(new)]

    def validate_part(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """The causes in an object that is updated through a subresource."""
        return self._check_status(new) if subresource == "status" else self.validate(new, old)

    def _check_status(self, new: Object) -> list[Cause]:
        causes = _check_replicas(new, self.paths.status)
        if self.paths.selector is not None:
            _, problem = _read(new, self.paths.selector, str)
            if problem:
                causes.append(field_errors.invalid(self.paths.selector, "", problem))
        return causes


def _check_replicas(tree: Object, path: str) -> list[Cause]:
    count, problem = _read(tree, path, int)
    if problem:
        return [field_errors.invalid(path, 0, problem)]
    if count is not None and count < 0:
        return [field_errors.invalid(path, count, "should be a non-negative integer")]
    if count is not None and count > _MAX_REPLICAS:
        return [field_errors.invalid(path, count, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def _read(tree: Any, path: str, expected: type) -> tuple[Any, str]:
    """The value at a path, None if there is none, and what is wrong with its type, in the words of Go."""
    at = ""
    for name in path[1:].split("."):
        at += f".{name}"
        if tree is None:
            return None, ""
        if tree.__class__ is not dict:
            return None, _accessor_error(at, tree, "map[string]interface{}")
        if name not in tree:
            return None, ""
        tree = tree[name]
    return (tree, "") if tree.__class__ is expected else (None, _accessor_error(at, tree, _TYPES[expected]))


def _accessor_error(at: str, value: Any, expected: str) -> str:
    return f"{at} accessor error: {_shown(value)} is of the type {_TYPES[value.__class__]}, expected {expected}"


def _shown(value: Any) -> str:
    """A JSON value as Go prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_list(value):
        return f"[{' '.join(map(_shown, value))}]"
    if is_map(value):
        return f"map[{' '.join(f'{name}:{_shown(value[name])}' for name in sorted(value))}]"
    return str(value)
