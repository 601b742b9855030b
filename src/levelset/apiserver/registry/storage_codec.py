"""Objects between the store and the wire: bytes are handed on as they are whenever that is possible.

What is stored is compact JSON that begins with `{"apiVersion":...,"kind":...,"metadata":{` and has no resourceVersion,
because that is the revision of the item. So most reads need no decoding: the head is written anew, with the version
that was asked for and the resourceVersion, and the rest follows unseen. Objects that are older than today's schema,
and views that rename fields, are decoded (`conversion`).
"""

from collections.abc import Iterable
from typing import Any, Final, cast

from levelset.apiserver.registry import conversion
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import copy_tree, is_list, is_map
from levelset.storage import Item

__all__ = [
    "bytes_with_version",
    "join_list",
    "listed_bytes",
    "served_bytes",
    "served_tree",
    "store_bytes",
    "with_version",
]

_FIRST: Final = ["apiVersion", "kind", "metadata"]
_METADATA: Final = b'"metadata":{'
_QUOTE: Final = 0x22
_DEEPEST: Final = 250
"""The most levels of an object. Whatever is stored must be readable later, as YAML too, from any depth of the stack."""


def store_bytes(served: ServedResource, tree: Tree) -> bytes:
    """What is stored for an object of the served version; the tree itself is left as it is.

    Raises Undecodable for one that is nested too deeply.
    """
    stored = tree
    # Most objects have the form and the order already, and new ones no resourceVersion either.
    if (
        not served.stored_as_served
        or list(tree)[:3] != _FIRST
        or tree["apiVersion"] != served.api_version
        or tree["kind"] != served.kind
    ):
        stored = _stored(served, tree)
    elif "resourceVersion" in tree["metadata"]:
        metadata = tree["metadata"].copy()
        del metadata["resourceVersion"]
        stored = {**tree, "metadata": metadata}
    value = encode_tree(stored)
    # Counting the brackets is all that most objects need: those that have few cannot be deep. This is three times as
    # fast as `count`, because it searches many bytes at a time.
    brackets = 2 * len(value) - len(value.replace(b"{", b"")) - len(value.replace(b"[", b""))
    if brackets > _DEEPEST and _is_deep(stored):
        raise Undecodable(f"the object is nested too deeply: {_DEEPEST} levels are the most")
    return value


def _stored(served: ServedResource, tree: Tree) -> Tree:
    """The tree in the form and the order in which it is stored."""
    metadata = tree["metadata"]
    if "resourceVersion" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    # The first three come first, wherever they stood; the rest follows in its order.
    ordered: Tree = {"apiVersion": served.storage_api_version, "kind": served.kind, "metadata": metadata}
    ordered.update(tree)
    ordered["metadata"], ordered["kind"] = metadata, served.kind
    if served.to_stored is not None or served.version != served.storage_version:
        ordered = cast("Tree", copy_tree(ordered))  # the conversion reaches into what the caller still holds
    conversion.store(served, ordered)
    return ordered


def bytes_with_version(item: Item) -> bytes:
    """The object as it is stored, with its resourceVersion."""
    value = item.value
    start = value.index(_METADATA) + 12
    return b'%b"resourceVersion":"%d"%b%b' % (value[:start], item.revision, _comma(value, start), value[start:])


def served_bytes(served: ServedResource, item: Item) -> bytes:
    """The object in the served version, with its resourceVersion; decoded only if its content must change."""
    if item.revision < served.since or served.from_stored is not None:
        return encode_tree(served_tree(served, item))
    value = item.value
    start = value.index(_METADATA) + 12
    if value[start] == _QUOTE:  # all but always: metadata has at least a name
        return b'%b%d",%b' % (served.head, item.revision, value[start:])
    return served.head + b'%d"%b' % (item.revision, _comma(value, start)) + value[start:]


def listed_bytes(served: ServedResource, items: Iterable[Item]) -> list[bytes]:
    """The objects as items of a list: those of built-in kinds leave out what the list says already."""
    head = b'{"metadata":{"resourceVersion":"%d"'
    if served.custom:
        names = f'{{"apiVersion":"{served.api_version}","kind":"{served.kind}",'.encode().replace(b"%", b"%%")
        head = names + head[1:]
    made: list[bytes] = []
    for item in items:
        if item.revision < served.since or served.from_stored is not None:
            made.append(_listed(served, item))
            continue
        value = item.value
        start = value.index(_METADATA) + 12
        made.append(head % item.revision + _comma(value, start) + value[start:])
    return made


def served_tree(served: ServedResource, item: Item) -> Tree:
    """The object in the served version, with its resourceVersion, decoded for this caller alone."""
    tree: Tree = decode_tree(item.value)
    revision = item.revision
    # Most objects are stored in the version that is asked for, and under today's schema: there is nothing to convert.
    if tree.get("apiVersion") != served.api_version or revision < served.since or served.from_stored is not None:
        conversion.serve(served, tree, revision)
    tree["metadata"]["resourceVersion"] = str(revision)
    return tree


def with_version(tree: Tree, revision: int) -> Tree:
    """The same tree, told which resourceVersion it has."""
    tree["metadata"]["resourceVersion"] = str(revision)
    return tree


def join_list(served: ServedResource, items: list[bytes], *, metadata: Tree) -> bytes:
    """The list document around items that are JSON already."""
    head = encode_tree({"kind": served.list_kind, "apiVersion": served.api_version, "metadata": metadata})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(items))


def _is_deep(tree: Tree) -> bool:
    level: list[Any] = [tree]
    for _ in range(_DEEPEST):
        level = [
            one for node in level for one in (node.values() if is_map(node) else node) if is_map(one) or is_list(one)
        ]
        if not level:
            return False
    return True


def _listed(served: ServedResource, item: Item) -> bytes:
    tree = served_tree(served, item)
    if not served.custom:
        tree.pop("kind", None)
        tree.pop("apiVersion", None)
    return encode_tree(tree)


def _comma(value: bytes, start: int) -> bytes:
    """What stands between the resourceVersion and the next member, if there is one."""
    return b"" if value[start] == 0x7D else b","
