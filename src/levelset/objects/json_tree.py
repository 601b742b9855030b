"""JSON trees: walk, read, change, copy and compare decoded JSON, by JSON pointers.

A tree is changed by making a new one: `set_at`, `add_at` and `remove_at` copy the containers on the path and share the
rest, so the old tree never changes. Nothing here recurses: a tree may be as deep as memory allows.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeGuard

from levelset.errors import BadPointer
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import quote

__all__ = [
    "Path",
    "Pointer",
    "Tree",
    "add_at",
    "copy_tree",
    "format_path",
    "format_pointer",
    "get_at",
    "is_list",
    "is_map",
    "parse_index",
    "parse_pointer",
    "remove_at",
    "same",
    "set_at",
    "walk",
]

Tree: TypeAlias = "bool | int | float | str | list[Tree] | dict[str, Tree] | None"
"""A JSON value: None, a bool, a number, a text, a list of trees, or a dict of trees by name."""

Pointer: TypeAlias = tuple[str, ...]
"""A JSON pointer as the names to follow from the root; () is the root itself."""


def walk(tree: Tree) -> "Iterator[tuple[Path, Tree]]":
    """Every value in the tree with its path: a container before its members, members in order."""
    pending: list[tuple[Path, Tree]] = [(Path(None, ""), tree)]
    while pending:
        path, value = pending.pop()
        yield path, value
        if isinstance(value, dict):
            pending.extend([(Path(path, key), member) for key, member in reversed(value.items())])
        elif isinstance(value, list):
            pending.extend([(Path(path, index), value[index]) for index in reversed(range(len(value)))])


class Path:
    """The path from the root of a tree to a value, as `walk` yields it; prints as `spec.ports[0].name`.

    Each path has only its last step and its parent, so that a walk costs the same per value at any depth.
    """

    __slots__ = ("last", "parent")

    def __init__(self, parent: "Path | None", last: str | int) -> None:
        self.parent = parent
        self.last = last

    @property
    def tokens(self) -> tuple[str | int, ...]:
        """The steps from the root: names of members, and numbers of items."""
        steps: list[str | int] = []
        path = self
        while path.parent is not None:
            steps.append(path.last)
            path = path.parent
        return tuple(reversed(steps))

    def __str__(self) -> str:
        return format_path(self.tokens)

    def __repr__(self) -> str:
        return f"<Path {format_path(self.tokens)}>"


def format_path(tokens: Iterable[str | int]) -> str:
    """The tokens as text: `spec.ports[0].name`, `metadata.annotations[a.b/c]`."""
    text = "".join(
        f".{token}" if isinstance(token, str) and _plain.fullmatch(token) else f"[{token}]" for token in tokens
    )
    return text.removeprefix(".")


def parse_pointer(text: str) -> Pointer:
    """The tokens of an RFC 6901 pointer such as `/spec/ports/0`; raises BadPointer with the position."""
    if not isinstance(text, str):
        raise BadPointer(f"a JSON pointer must be a text, not {quote(text)}")
    if text and not text.startswith("/"):
        raise BadPointer(f"JSON pointer {quote(text)}, position 0: expected '/' or nothing", position=0)
    if wrong := _bad_escape.search(text):
        at = wrong.start()
        raise BadPointer(f"JSON pointer {quote(text)}, position {at}: expected ~0 or ~1 for ~ or /", position=at)
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:])


def format_pointer(tokens: Iterable[str | int]) -> str:
    """The tokens as an RFC 6901 pointer; `format_pointer(parse_pointer(text)) == text`."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def parse_index(token: str) -> int | None:
    """The list index that a token names, or None: only digits without leading zeros are valid."""
    return int(token) if _index.fullmatch(token) else None


def get_at(tree: Tree, tokens: Iterable[str]) -> Tree:
    """The value at these tokens; BadPointer names the step that does not exist."""
    steps = tuple(tokens)
    for depth in range(len(steps)):
        tree = _member(tree, steps, depth)
    return tree


def set_at(tree: Tree, tokens: Iterable[str], value: Tree) -> Tree:
    """A tree with the value at these tokens replaced; a new name in a dict is added.

    Raises BadPointer if the container is missing, or a list has no such item.
    """
    steps = tuple(tokens)
    if not steps:
        return value
    root, parent = _open(tree, steps)
    if isinstance(parent, dict):
        parent[steps[-1]] = value
    else:
        parent[_item(parent, steps, len(steps) - 1)] = value
    return root


def add_at(tree: Tree, tokens: Iterable[str], value: Tree) -> Tree:
    """A tree with this value added: inserted into a list, where `-` is the end, or set in a dict.

    Raises BadPointer if the container is missing, or the index is beyond the end of the list.
    """
    steps = tuple(tokens)
    if not steps:
        return value
    root, parent = _open(tree, steps)
    if isinstance(parent, dict):
        parent[steps[-1]] = value
        return root
    place = len(parent) if steps[-1] == "-" else parse_index(steps[-1])
    if place is None or place > len(parent):
        raise _nowhere(steps, len(steps) - 1, f"this list takes 0 to {len(parent)} and -")
    parent.insert(place, value)
    return root


def remove_at(tree: Tree, tokens: Iterable[str]) -> Tree:
    """A tree without the value at these tokens, or None for the root; BadPointer if there is no such value."""
    steps = tuple(tokens)
    if not steps:
        return None
    root, parent = _open(tree, steps)
    _member(parent, steps, len(steps) - 1)
    if isinstance(parent, dict):
        del parent[steps[-1]]
    else:
        del parent[_item(parent, steps, len(steps) - 1)]
    return root


def copy_tree(tree: Tree) -> Tree:
    """A deep copy of the tree."""
    if not isinstance(tree, dict | list):
        return tree
    root = tree.copy()
    pending: list[dict[str, Tree] | list[Tree]] = [root]
    while pending:
        container = pending.pop()
        if isinstance(container, dict):
            for key, member in container.items():
                if isinstance(member, (dict, list)):
                    container[key] = child = member.copy()  # an existing key: allowed while iterating
                    pending.append(child)
        else:
            for index, member in enumerate(container):
                if isinstance(member, (dict, list)):
                    container[index] = child = member.copy()
                    pending.append(child)
    return root


def same(one: Tree, other: Tree) -> bool:
    """Whether two trees are the same JSON: 1 is 1.0 but not true, and the order of members makes no difference."""
    pending = [(one, other)]
    while pending:
        left, right = pending.pop()
        if isinstance(left, dict):
            if not isinstance(right, dict) or left.keys() != right.keys():
                return False
            pending.extend([(member, right[key]) for key, member in left.items()])
        elif isinstance(left, list):
            if not isinstance(right, list) or len(left) != len(right):
                return False
            pending.extend(zip(left, right, strict=True))
        elif left != right or isinstance(left, bool) != isinstance(right, bool):
            return False
    return True


def is_map(tree: Any) -> TypeGuard[dict[str, Any]]:
    """Whether this is a JSON object."""
    return isinstance(tree, dict)


def is_list(tree: Any) -> TypeGuard[list[Any]]:
    """Whether this is a JSON array."""
    return isinstance(tree, list)


_plain = Pattern(r"[A-Za-z_$][-A-Za-z0-9_$]*")
_bad_escape = Pattern(r"~(?![01])")
_index = Pattern(r"0|[1-9][0-9]{0,17}")  # more digits than any list can need


def _member(tree: Tree, steps: Pointer, depth: int) -> Tree:
    if isinstance(tree, dict):
        if steps[depth] not in tree:
            raise _nowhere(steps, depth, "there is no such member")
        return tree[steps[depth]]
    if isinstance(tree, list):
        return tree[_item(tree, steps, depth)]
    raise _nowhere(steps, depth, "what is above it is neither an object nor a list")


def _item(items: list[Tree], steps: Pointer, depth: int) -> int:
    index = parse_index(steps[depth])
    if index is None:
        raise _nowhere(steps, depth, "a list is counted 0, 1, 2 and so on")
    if index >= len(items):
        raise _nowhere(steps, depth, f"the list above it has {len(items)} items")
    return index


def _open(tree: Tree, steps: Pointer) -> tuple[Tree, dict[str, Tree] | list[Tree]]:
    """A copy of the root and, inside it, of the last container, which the caller may change; the rest is shared."""
    root = parent = _container(tree, steps, 0)
    for depth in range(len(steps) - 1):
        child = _container(_member(parent, steps, depth), steps, depth + 1)
        if isinstance(parent, dict):
            parent[steps[depth]] = child
        else:
            parent[int(steps[depth])] = child
        parent = child
    return root, parent


def _container(tree: Tree, steps: Pointer, depth: int) -> dict[str, Tree] | list[Tree]:
    if isinstance(tree, dict | list):
        return tree.copy()
    raise _nowhere(steps, depth, "what is above it is neither an object nor a list")


def _nowhere(steps: Pointer, depth: int, problem: str) -> BadPointer:
    place = format_pointer(steps[: depth + 1])
    return BadPointer(
        f"JSON pointer {quote(format_pointer(steps))} leads nowhere at {quote(place)}: {problem}",
        field=format_path(steps[: depth + 1]),
    )
