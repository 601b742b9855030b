"""The encoding of stored objects, and responses from stored bytes without decoding them.

A stored object is compact JSON that begins with `{"apiVersion":...,"kind":...,"metadata":{` and has no resourceVersion,
which is the revision of the item. So most reads copy bytes: only the head is rewritten, with the requested version and
the resourceVersion. Objects older than the current schema, and kinds with a conversion, are decoded (`conversion.py`).
"""

from collections.abc import Iterable
from typing import Any, Final, cast

from levelset.apiserver.registry import conversion
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import copy_tree
from levelset.storage import Item

__all__ = [
    "check_depth",
    "encode_for_storage",
    "list_document",
    "list_item_bytes",
    "served_bytes",
    "served_tree",
    "set_resource_version",
    "stored_bytes_with_version",
]

_QUOTE: Final = 0x22
_CONTAINERS: Final = (dict, list)
_MAX_DEPTH: Final = 250
"""The deepest nesting of an object: it must remain decodable, also as YAML, from any depth of the call stack."""


def encode_for_storage(served: ServedResource, tree: Tree) -> bytes:
    """Encodes an object of the served version for storage; does not modify the tree. See `check_depth`."""
    stored = tree
    # Most objects already have the stored form and order, and new ones have no resourceVersion.
    if "resourceVersion" in tree["metadata"]:
        metadata = tree["metadata"].copy()
        del metadata["resourceVersion"]
        stored = {**tree, "metadata": metadata}
    if next(iter(tree)) != "apiVersion" or not served.stored_as_served:
        stored = _stored(served, stored)
    value = encode_tree(stored)
    if not value.startswith(served.stored_head):
        stored = _stored(served, stored)
        value = encode_tree(stored)
    return value


def check_depth(tree: Tree, value: bytes) -> None:
    """Raises Undecodable if the object, which is encoded as this value, is nested too deeply; may take 50 ms."""
    # Every level takes two brackets: an object of few bytes cannot be deep.
    size = len(value)
    if size > 2 * _MAX_DEPTH:
        # `replace` is three times as fast as `count`, because it searches many bytes at a time.
        brackets = 2 * size - len(value.replace(b"{", b"")) - len(value.replace(b"[", b""))
        if brackets > _MAX_DEPTH and _is_deep(tree):
            raise Undecodable(f"the object is nested too deeply: the limit is {_MAX_DEPTH} levels")


def _stored(served: ServedResource, tree: Tree) -> Tree:
    """The tree in the stored version and order."""
    metadata = tree["metadata"]
    # The head fields come first, wherever they were; the rest keeps its order.
    ordered: Tree = {"apiVersion": served.storage_api_version, "kind": served.kind, "metadata": metadata}
    ordered.update(tree)
    ordered["metadata"], ordered["kind"] = metadata, served.kind
    if served.to_stored is not None or served.version != served.storage_version:
        ordered = cast("Tree", copy_tree(ordered))  # the conversion modifies nested values that the caller shares
        conversion.to_stored(served, ordered)
    ordered["apiVersion"] = served.storage_api_version
    return ordered


def stored_bytes_with_version(item: Item) -> bytes:
    """The object in the stored version, with its resourceVersion."""
    value = item.value
    start = value.index(b"{", 1) + 1  # the metadata: apiVersion and kind before it contain no bracket
    return b'%b"resourceVersion":"%d"%b%b' % (value[:start], item.revision, _comma(value, start), value[start:])


def served_bytes(served: ServedResource, item: Item) -> bytes:
    """The object in the served version, with its resourceVersion; decoded only if it must be converted."""
    if item.revision < served.since or served.from_stored is not None:
        return encode_tree(served_tree(served, item))
    value = item.value
    start = value.index(b"{", 1) + 1  # as above
    if value[start] == _QUOTE:  # nearly always: metadata has at least a name
        return b'%b%d",%b' % (served.head, item.revision, value[start:])
    return served.head + b'%d"%b' % (item.revision, _comma(value, start)) + value[start:]


def list_item_bytes(served: ServedResource, items: Iterable[Item]) -> list[bytes]:
    """The objects as items of a list; those of built-in kinds omit apiVersion and kind, as in Kubernetes."""
    head = b'{"metadata":{"resourceVersion":"%d"'
    if served.custom:
        names = f'{{"apiVersion":"{served.api_version}","kind":"{served.kind}",'.encode().replace(b"%", b"%%")
        head = names + head[1:]
    encoded: list[bytes] = []
    for item in items:
        if item.revision < served.since or served.from_stored is not None:
            encoded.append(_converted_list_item(served, item))
            continue
        value = item.value
        start = value.index(b"{", 1) + 1  # as above
        encoded.append(head % item.revision + _comma(value, start) + value[start:])
    return encoded


def served_tree(served: ServedResource, item: Item) -> Tree:
    """The object in the served version, with its resourceVersion; the tree is not shared."""
    tree: Tree = decode_tree(item.value)
    revision = item.revision
    # Most objects are stored in the requested version and under the current schema: nothing to convert.
    if tree.get("apiVersion") != served.api_version or revision < served.since or served.from_stored is not None:
        conversion.to_served(served, tree, revision)
    tree["metadata"]["resourceVersion"] = str(revision)
    return tree


def set_resource_version(tree: Tree, revision: int) -> Tree:
    """The same tree with its resourceVersion set, in place."""
    tree["metadata"]["resourceVersion"] = str(revision)
    return tree


def list_document(served: ServedResource, items: list[bytes], *, metadata: Tree) -> bytes:
    """The list response around encoded items."""
    head = encode_tree({"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(items))


def _is_deep(tree: Tree) -> bool:
    level: list[Any] = [tree]
    for _ in range(_MAX_DEPTH):
        # `isinstance` and not `is_map`: a call of ours for each of 100,000 values would take 20 ms of the event loop.
        members = [node.values() if isinstance(node, dict) else node for node in level]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON trees
        level = [one for each in members for one in each if isinstance(one, _CONTAINERS)]  # pyright: ignore[reportUnknownVariableType] - JSON trees
        if not level:
            return False
    return True


def _converted_list_item(served: ServedResource, item: Item) -> bytes:
    tree = served_tree(served, item)
    if not served.custom:
        tree.pop("kind", None)
        tree.pop("apiVersion", None)
    return encode_tree(tree)


def _comma(value: bytes, start: int) -> bytes:
    """The separator between the resourceVersion and the next member, if there is one."""
    return b"" if value[start] == 0x7D else b","
