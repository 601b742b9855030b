"""Pruning and defaulting of objects by their schema, in place.

The order is that of Kubernetes: unknown fields are removed, then nulls that the schema neither allows nor replaces,
then defaults are set. Under a recursive schema, trees deeper than MAX_DEPTH are left unchanged; the validation that
follows rejects them.
"""

import base64
from collections.abc import Callable

from levelset.apiserver.schema.embedded_metadata import METADATA, drop_empty
from levelset.apiserver.schema.formats import TIME_IN_SECONDS, text_format
from levelset.apiserver.schema.json_values import copy_tree, join
from levelset.apiserver.schema.schema_nodes import MAX_DEPTH, Node, Tree, as_list, as_map
from levelset.objects.timestamps import format_time, parse_time

__all__ = ["IDENTITY", "Resolve", "decode_as_go", "fill", "prune", "without_nulls"]

IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
"""The members that every object has, whatever its schema declares."""

Resolve = Callable[[Node], Node]
"""Resolves a reference to the schema it names; returns a schema without a reference unchanged."""


def prune(node: Node, tree: Tree, *, resolve: Resolve, resource: bool, has_keys: bool = True) -> list[str]:
    """Removes unknown fields from the tree; returns their paths, in the order of the tree.

    Without `has_keys`, the keys of maps are left out of the paths.
    """
    pruner = _Pruner(resolve, has_keys=has_keys)
    if resource:
        pruner.resource(resolve(node), tree)
    else:
        pruner.value(node, tree, "", 0)
    return pruner.dropped


class _Pruner:
    def __init__(self, resolve: Resolve, *, has_keys: bool) -> None:
        self.resolve, self.has_keys = resolve, has_keys
        self.dropped: list[str] = []

    def resource(self, node: Node, tree: Tree) -> None:
        """Prunes the root of a custom resource; apiVersion, kind and metadata are handled by the server."""
        members = as_map(tree)
        if members is not None:
            self.members(node, members, "", 0, preserved=IDENTITY, free=node.preserve)

    def value(self, node: Node | None, tree: Tree, path: str, depth: int, *, free: bool = False) -> None:
        """Prunes a value; `free` is inherited by the items of a list whose schema preserves unknown fields."""
        if depth > MAX_DEPTH or not isinstance(tree, (dict, list)):
            return
        if node is not None:
            node = self.resolve(node)
            free = free or node.preserve
        members = as_map(tree)
        if members is None:
            self.items(node, as_list(tree) or [], path, depth, free=free)
        elif node is None:
            self.dropped.extend(join(path, name) for name in members)
            members.clear()
        elif node.embedded:
            self.members(node, members, path, depth, preserved=IDENTITY, free=free)
            if members.get("metadata", {}) is None:
                members["metadata"] = {}
            self.value(METADATA, members.get("metadata"), join(path, "metadata"), depth + 1)
            metadata = as_map(members.get("metadata"))
            if metadata:
                drop_empty(metadata)
                decode_as_go(METADATA, metadata, resolve=_itself)
                _write_times(metadata)
        else:
            self.members(node, members, path, depth, preserved=frozenset(), free=free)

    def members(
        self, node: Node, members: dict[str, Tree], path: str, depth: int, *, preserved: frozenset[str], free: bool
    ) -> None:
        for name in list(members):
            if name in preserved:
                continue
            if name in node.properties:
                self.value(node.properties[name], members[name], join(path, name), depth + 1)
            elif node.additional is not None:
                known = node.additional if isinstance(node.additional, Node) else None
                self.value(known, members[name], join(path, name) if self.has_keys else path, depth + 1)
            elif not free:
                self.dropped.append(join(path, name))
                del members[name]

    def items(self, node: Node | None, items: list[Tree], path: str, depth: int, *, free: bool) -> None:
        inner = node.items if node is not None else None
        if free and inner is None:
            return
        for at, one in enumerate(items):
            self.value(inner, one, f"{path}[{at}]", depth + 1, free=free)


_ZEROS: dict[str, Tree] = {"object": {}, "string": "", "integer": 0, "number": 0, "boolean": False, "quantity": "0"}


def _write_times(metadata: dict[str, Tree]) -> None:
    check = text_format("date-time")
    for name in ("creationTimestamp", "deletionTimestamp"):
        value = metadata.get(name)
        if isinstance(value, str) and check is not None and check(value):
            metadata[name] = format_time(parse_time(value))


def _itself(node: Node) -> Node:
    return node


def decode_as_go(node: Node, tree: Tree, *, resolve: Resolve, depth: int = 0) -> None:
    """Decodes the values of a built-in kind in place, as Go does.

    Null items of lists and null values of maps become zero values, base64 loses its line breaks, and times become those
    of whole seconds in UTC.
    """
    node = resolve(node)
    members, items = as_map(tree), as_list(tree)
    if depth > MAX_DEPTH:
        return
    if members is not None:
        for name, value in members.items():
            child = node.child(name)
            if child is None:
                continue
            if isinstance(value, str) or (value is not None and resolve(child).format == "bytes"):
                members[name] = _as_go_writes(resolve(child), value)
            elif value is not None:
                decode_as_go(child, value, resolve=resolve, depth=depth + 1)
            elif name not in node.properties and (zero := _ZEROS.get(resolve(child).type)) is not None:
                members[name] = copy_tree(zero)
    elif items is not None and node.items is not None:
        zero = _ZEROS.get(resolve(node.items).type)
        for at, one in enumerate(items):
            if one is not None:
                decode_as_go(node.items, one, resolve=resolve, depth=depth + 1)
            elif zero is not None:
                items[at] = copy_tree(zero)


def _bytes_of(items: list[Tree]) -> str | None:
    """The base64 of a list of bytes, which Go takes for one; None if it is another list."""
    numbers = [one or 0 for one in items if one is None or (isinstance(one, int) and one in range(256))]
    return base64.b64encode(bytes(numbers)).decode() if len(numbers) == len(items) else None


def _as_go_writes(node: Node, value: Tree) -> Tree:
    if not isinstance(value, str):
        items = as_list(value)
        written = None if items is None else _bytes_of(items)
        return value if written is None else written
    if node.format == "bytes":
        return value.replace("\r", "").replace("\n", "")
    check = text_format("date-time")
    is_time = node.format == TIME_IN_SECONDS and check is not None and check(value)
    return format_time(parse_time(value)) if is_time else value


def without_nulls(node: Node, tree: Tree, *, resolve: Resolve, depth: int = 0) -> None:
    """Removes null members for which the schema neither allows null nor has a default."""
    node = resolve(node)
    members = as_map(tree)
    if depth > MAX_DEPTH:
        return
    if members is not None:
        for name in list(members):
            child = node.child(name)
            if child is None:
                continue
            value, inner = members[name], resolve(child)
            if value is None and not _takes_null(inner, child):
                del members[name]
            else:
                without_nulls(child, members[name], resolve=resolve, depth=depth + 1)
    elif node.items is not None:
        for one in as_list(tree) or []:
            without_nulls(node.items, one, resolve=resolve, depth=depth + 1)


def _takes_null(node: Node, outer: Node) -> bool:
    return node.nullable or outer.nullable or outer.default is not None


def fill(node: Node, tree: Tree, *, resolve: Resolve, depth: int = 0) -> None:
    """Sets defaults for members that are missing, or null where null is not allowed."""
    node = resolve(node)
    if depth > MAX_DEPTH:
        return
    members = as_map(tree)
    if members is not None:
        for name, child in node.properties.items():
            if child.default is None or (name in members and (members[name] is not None or child.nullable)):
                continue
            members[name] = copy_tree(child.default)
        for name, one in members.items():
            known = node.child(name)
            if known is not None:
                members[name] = _filled(known, one, resolve, depth)
    elif node.items is not None:
        items = as_list(tree) or []
        for at, one in enumerate(items):
            items[at] = _filled(node.items, one, resolve, depth)


def _filled(node: Node, tree: Tree, resolve: Resolve, depth: int) -> Tree:
    if tree is None and not node.nullable:
        tree = copy_tree(node.default)
    fill(node, tree, resolve=resolve, depth=depth + 1)
    return tree
