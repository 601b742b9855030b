"""All parts of a tree, one after the other."""

from collections.abc import Iterator

from levelset.cel.tree import Bind, Call, Fold, ListOf, Logic, MapOf, Node, OptMap, Select, Struct

__all__ = ["walk"]


def walk(tree: Node) -> Iterator[Node]:
    """The tree and everything in it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in _children(node) if child is not None)


def _children(node: Node) -> list[Node | None]:
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [node.target, *node.arguments]
        case Logic():
            return [*node.operands]
        case ListOf():
            return [*node.elements]
        case MapOf():
            return [each for entry in node.entries for each in (entry.key, entry.value)]
        case Struct():
            return [entry.value for entry in node.entries]
        case Fold():
            return [node.over, node.when, node.body]
        case Bind():
            return [node.value, node.body]
        case OptMap():
            return [node.target, node.body]
        case _:
            return []
