"""How the value of a mutating policy's expression changes an object: laid over it, or applied as a JSON patch; pure."""

from collections.abc import Iterator
from typing import Any, Final, cast

from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree
from levelset.cel import Made, plain_value
from levelset.errors import BadPatch, LevelsetError, PatchFailed
from levelset.objects.trees import copy_tree, is_list, is_map
from levelset.patch import Shape, apply_operations
from levelset.patch.overlay import overlay

__all__ = ["NotChanged", "apply_configuration", "apply_patch"]

_ROOT: Final = ("apiVersion", "kind")


class NotChanged(LevelsetError):
    """What an expression gave cannot be done to the object."""


def apply_configuration(served: Served, tree: Tree, value: Any) -> Tree:
    """The object with the value of `Object{...}` laid over it; what the value does not mention stays as it is."""
    _check_names(value, ["Object"])
    wanted = {**_tree(value), "apiVersion": tree.get("apiVersion"), "kind": tree.get("kind")}
    _check_fields(served, wanted)
    shape = served.shape()
    whole = list(_wholes(wanted, shape, ""))
    if whole:
        problem = f"may not mutate atomic arrays, maps or structs: {', '.join(whole)}"
        raise NotChanged(f"error applying patch: invalid ApplyConfiguration: {problem}")
    try:
        return cast("Tree", copy_tree(overlay(tree, wanted, shape)))
    except BadPatch as error:
        raise NotChanged(f"error applying patch: failed to merge patch: {error}") from error


def apply_patch(tree: Tree, value: Any) -> Tree:
    """The object after the operations that are the value; unchanged if one of their tests fails."""
    operations = [_operation(one) for one in value]
    try:
        made = apply_operations(tree, operations, like_kubernetes=True)
    except PatchFailed as error:
        if error.index is not None and operations[error.index].get("op") == "test":
            return tree
        raise NotChanged(f"JSONPath: {error}") from error
    except BadPatch as error:
        raise NotChanged(f"JSONPath: {error}") from error
    if not is_map(made):
        raise NotChanged("JSONPath: the patch leaves no object")
    return cast("Tree", copy_tree(made))


def _operation(value: Any) -> Tree:
    if isinstance(value.get("value"), Made):
        _check_names(value["value"], value["value"].name.split("."))
    made = _tree(value)
    if "value" not in value and made.get("op") in ("add", "replace", "test"):
        made["value"] = None
    return made if made.get("from") else {word: one for word, one in made.items() if word != "from"}


def _check_names(value: Any, path: list[str]) -> None:
    """Makes sure that what was written as `Object.spec{...}` stands at `spec`."""
    if isinstance(value, Made):
        wanted = ".".join(path)
        if value.name != wanted:
            tail = "which matches field name path from root Object type"
            raise NotChanged(f'type mismatch: unexpected type name "{value.name}", expected "{wanted}", {tail}')
    if is_map(value):
        for name, member in value.items():
            _check_names(member, [*path, str(name)])
    elif is_list(value):
        for member in value:
            _check_names(member, path)


def _tree(value: Any) -> Tree:
    try:
        made = plain_value(value)
    except LevelsetError as error:
        raise NotChanged(f"the value of the expression is no JSON: {error}") from error
    if not is_map(made):
        raise NotChanged("the value of the expression is no object")
    return made


def _check_fields(served: Served, wanted: Tree) -> None:
    schema = served.schema()
    unknown = [] if schema is None else schema.prune(cast("Tree", copy_tree(wanted)))
    if not unknown:
        return
    told = [f".{path}: field not declared in schema" for path in unknown]
    text = told[0] if len(told) == 1 else "\n  ".join(["errors:", *told])
    raise NotChanged(f"error applying patch: failed to convert patch object to typed object: {text}")


def _wholes(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Where the value has something that can only be replaced as a whole."""
    if is_map(value):
        if shape.atomic:
            yield path
        for name, member in value.items():
            if path or name not in _ROOT:
                yield from _wholes(member, shape.member(name), f"{path}.{name}")
    elif is_list(value):
        if shape.list_type == "atomic":
            yield path
        for index, member in enumerate(value):
            yield from _wholes(member, shape.item(), f"{path}[{index}]")
