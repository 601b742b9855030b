"""Why an applied configuration is not an object of its kind, in the words of Kubernetes' structured merge.

Server-side apply checks types, and not values: undeclared fields, values of another type, and items of lists that have
no identity. Paths name the items of keyed lists by their keys. Upstream lists the errors in no order; here they have
that of the configuration.
"""

import json
from typing import Final

from levelset.apiserver.schema import numbers
from levelset.apiserver.schema.embedded_metadata import METADATA
from levelset.apiserver.schema.prune_and_default import Resolve
from levelset.apiserver.schema.schema_nodes import MAX_DEPTH, Node, Tree, as_list, as_map
from levelset.patch.merge_schema import OBJECT_META, Shape

__all__ = ["TypedErrors"]

_UNDECLARED: Final = "field not declared in schema"
_IDENTITY: Final = frozenset({"apiVersion", "kind"})


class TypedErrors:
    """Collects the errors of one object."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self.errors: list[str] = []

    def check_object(self, node: Node, shape: Shape, tree: dict[str, Tree]) -> None:
        """Checks an object of a kind, whose metadata have a schema of their own; its lists are keyed by its shape."""
        self._check_members(self._resolve(node), shape, tree, "", 0, is_object=True)

    def _check(self, node: Node, shape: Shape, value: Tree, path: str, depth: int) -> None:
        node = self._resolve(node)
        if value is None or depth > MAX_DEPTH:
            return
        if node.int_or_string:
            return  # as upstream, which takes anything for it
        if node.is_any_scalar or node.type == "quantity":
            if isinstance(value, (dict, list)):
                self._add(path, f"expected any scalar, got &{{{_printed(value)}}}")
        elif node.type == "object":
            members = as_map(value)
            if members is None:
                self._add(path, f"expected map, got &{{{_printed(value)}}}")
            else:
                self._check_members(node, shape, members, path, depth, is_object=node.embedded)
        elif node.type == "array":
            items = as_list(value)
            if items is None:
                self._add(path, f"expected list, got &{{{_printed(value)}}}")
            else:
                self._check_items(node, shape, items, path, depth)
        else:
            self._check_scalar(node.type, value, path)

    def _check_members(
        self, node: Node, shape: Shape, members: dict[str, Tree], path: str, depth: int, *, is_object: bool
    ) -> None:
        for name, value in members.items():
            child = node.child(name)
            if is_object and name in _IDENTITY:
                if value is not None:
                    self._check_scalar("string", value, f"{path}.{name}")
                continue
            if is_object and name == "metadata":
                self._check(METADATA, OBJECT_META, value, f"{path}.metadata", depth + 1)
            elif child is not None:
                self._check(child, shape.member(name), value, f"{path}.{name}", depth + 1)
            elif node.additional is None and not node.preserve:
                self._add(f"{path}.{name}", _UNDECLARED)

    def _check_items(self, node: Node, shape: Shape, items: list[Tree], path: str, depth: int) -> None:
        seen: set[str] = set()
        for at, item in enumerate(items):
            element, problem = _element(shape, at, item)
            if problem:
                self._add(path, f"element {at}: {problem}")
                return  # as upstream: the items behind it are not checked
            if element in seen:
                self._add(path, f"duplicate entries for key {element}")
            seen.add(element)
            if node.items is not None:
                self._check(node.items, shape.item(), item, f"{path}{element}", depth + 1)

    def _check_scalar(self, kind: str, value: Tree, path: str) -> None:
        if kind == "string" and not isinstance(value, str):
            self._add(path, f"expected string, got &value.valueUnstructured{{Value:{_in_go(value)}}}")
        elif kind in ("integer", "number") and not numbers.is_number(value):
            self._add(path, f"expected numeric (int or float), got {_go_type(value)}")
        elif kind == "boolean" and not isinstance(value, bool):
            self._add(path, f"expected boolean, got &{{{_printed(value)}}}")

    def _add(self, path: str, problem: str) -> None:
        self.errors.append(f"{path}: {problem}")


def _element(shape: Shape, at: int, item: Tree) -> tuple[str, str]:
    """The part of a path that names an item, and why there is none."""
    if shape.list_type == "set":
        return _value_element(item)
    if shape.list_type != "map":
        return f"[{at}]", ""
    members = as_map(item)
    if members is None:
        what = "a null element" if item is None else "non-map elements"
        return "", f"associative list with keys may not have {what}"
    known = {**shape.defaults, **members}
    found = {key: known[key] for key in sorted(shape.keys) if key in known}
    if not found:
        keys = " ".join(json.dumps(one) for one in shape.keys)
        reason = "(and doesn't have default values for any key fields)"
        return "", f"associative list with keys has an element that omits all key fields [{keys}] {reason}"
    return f"[{','.join(f'{key}={_written(value)}' for key, value in found.items())}]", ""


def _value_element(item: Tree) -> tuple[str, str]:
    if isinstance(item, dict):
        return "", "associative list without keys has an element that's a map type"
    if isinstance(item, list):
        return "", "not supported: associative list with lists as elements"
    if item is None:
        return "", "associative list without keys has an element that's an explicit null"
    return f"[={_written(item)}]", ""


def _written(value: Tree) -> str:
    """The value in the name of an item."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else _printed(value)


def _printed(value: Tree) -> str:
    """The value as Go prints it with %v."""
    members, items = as_map(value), as_list(value)
    if members is not None:
        return f"map[{' '.join(f'{name}:{_printed(members[name])}' for name in sorted(members))}]"
    if items is not None:
        return f"[{' '.join(_printed(one) for one in items)}]"
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else json.dumps(value)


def _go_type(value: Tree) -> str:
    if isinstance(value, (dict, list)):
        return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"
    return "bool" if isinstance(value, bool) else "string"


def _in_go(value: Tree) -> str:
    """The value in the syntax of Go, as %#v writes it."""
    members, items = as_map(value), as_list(value)
    if members is not None:
        inner = ", ".join(f"{json.dumps(name)}:{_in_go(members[name])}" for name in sorted(members))
        return f"map[string]interface {{}}{{{inner}}}"
    if items is not None:
        return f"[]interface {{}}{{{', '.join(_in_go(one) for one in items)}}}"
    return "interface {}(nil)" if value is None else json.dumps(value, ensure_ascii=False)
