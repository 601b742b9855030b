"""JSON patch (RFC 6902): applying a list of operations, all or none, and computing the patch between two documents.

The document is never changed. A result shares the parts of the document that no operation touched, and shares nothing
with the operations; copy a result before editing it in place.

`diff_operations` gives short patches for small changes, also inside long lists: lists are aligned by the items that
occur once on each side, using the longest run of them in the same order, and what lies between is compared pair by
pair. That takes O(n log n).
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from operator import is_
from typing import Any, Final, NamedTuple

import msgspec

from levelset.errors import BadPatch, BadPointer, PatchFailed
from levelset.objects import json_tree
from levelset.objects.json_tree import Pointer, Tree
from levelset.objects.names import quote

__all__ = ["COPY_SIZE_LIMIT", "apply_operations", "diff_operations", "json_equal"]

COPY_SIZE_LIMIT: Final = 3 * 1024 * 1024
"""How many characters of JSON the `copy` operations of one patch may add; the limit of kube-apiserver."""


def apply_operations(
    document: Any, operations: Any, *, like_kubernetes: bool = False, copy_size_limit: int = COPY_SIZE_LIMIT
) -> Any:
    """The document after all operations; raises PatchFailed, naming the operation, if one cannot be applied.

    BadPatch means that the patch itself is invalid: without a `field` it is not a list of objects (kube-apiserver
    responds with 400), with a `field` such as `[2].path` one operation is malformed (kube-apiserver responds with
    422, as it does for PatchFailed). The whole patch is parsed before the first operation is applied.

    `like_kubernetes` allows what kube-apiserver allows beyond the RFC: `replace` may add a member to a map,
    `copy` of a missing member copies null, a missing member passes the `test` for null, and an operation without
    a value has null. All `copy` operations
    together may add `copy_size_limit` characters of JSON, so that a small patch cannot make a huge document.
    """
    parsed = _read_all(operations, lenient=like_kubernetes)
    editor = _Editor(document, lenient=like_kubernetes, copy_size_limit=copy_size_limit)
    for operation in parsed:
        try:
            _OPERATIONS[operation.op](editor, operation)
        except RecursionError as error:
            raise _failed(operation, "reaches a value that is nested too deeply") from error
    return editor.root


def _read_all(operations: Tree, *, lenient: bool) -> "list[_ParsedOperation]":
    if not isinstance(operations, list):
        raise BadPatch(f"a JSON patch is a list of operations, not {_kind(operations)}")
    return [_read(operation, index, lenient=lenient) for index, operation in enumerate(operations)]


Container = dict[str, Tree] | list[Tree]


class _ParsedOperation(NamedTuple):
    """One operation of a patch, parsed."""

    number: int
    op: str
    path: Pointer
    source: Pointer = ()
    value: Tree = None


def _read(operation: Tree, index: int, *, lenient: bool) -> _ParsedOperation:
    if not isinstance(operation, dict):
        raise BadPatch(f"operation {index} of the JSON patch is {_kind(operation)}, not an object")
    op = operation.get("op")
    if not isinstance(op, str) or op not in _OPERATIONS:
        known = ", ".join(sorted(_OPERATIONS))
        problem = f"has the unknown op {_shown(op)}" if "op" in operation else "has no op"
        raise _malformed(index, "op", f"{problem}; expected one of {known}")
    path = _pointer(operation, "path", index)
    if op in ("move", "copy"):
        return _ParsedOperation(index, op, path, source=_pointer(operation, "from", index))
    if op == "remove":
        return _ParsedOperation(index, op, path)
    if "value" not in operation and not lenient:
        raise _malformed(index, "value", f"({op}) has no value")
    return _ParsedOperation(index, op, path, value=operation.get("value"))


def _pointer(operation: dict[str, Tree], member: str, index: int) -> Pointer:
    text = operation.get(member)
    if not isinstance(text, str):
        problem = f"has a {member} that is {_kind(text)}, not a string" if member in operation else f"has no {member}"
        raise _malformed(index, member, problem)
    try:
        return json_tree.parse_pointer(text)
    except BadPointer as error:
        raise _malformed(index, member, f"has a {member} that is not a JSON pointer: {error}") from error


class _Editor:
    """A document being patched; containers are copied before they are first written to."""

    def __init__(self, document: Tree, *, lenient: bool, copy_size_limit: int) -> None:
        self.root = document
        self.lenient = lenient
        self._copy_size_left = copy_size_limit
        self._own: dict[int, Container] = {}  # by id; holds the object so that its id is not reused

    def add(self, operation: _ParsedOperation) -> None:
        self._insert(operation, json_tree.copy_tree(operation.value))

    def remove(self, operation: _ParsedOperation) -> None:
        self._take(operation, operation.path)

    def replace(self, operation: _ParsedOperation) -> None:
        value = json_tree.copy_tree(operation.value)
        if not operation.path:
            self.root = value
            return
        parent = self._parent(operation, operation.path)
        if not (self.lenient and isinstance(parent, dict)):
            _child(operation, parent, operation.path, len(operation.path) - 1)
        _store(parent, operation.path[-1], value)

    def move(self, operation: _ParsedOperation) -> None:
        if operation.path == operation.source:
            self._find(operation, operation.source, lenient=False)
            return
        if operation.path[: len(operation.source)] == operation.source:
            raise _failed(operation, f"moves {_where(operation.source)} into its own child")
        self._insert(operation, self._take(operation, operation.source))

    def copy(self, operation: _ParsedOperation) -> None:
        value = self._find(operation, operation.source, lenient=self.lenient)
        self._copy_size_left -= _json_size(value, self._copy_size_left)
        if self._copy_size_left < 0:
            raise _failed(operation, "copies more than all copies of one patch may; send the values themselves")
        self._insert(operation, json_tree.copy_tree(value))

    def test(self, operation: _ParsedOperation) -> None:
        found = self._find(operation, operation.path, lenient=self.lenient)
        if not json_tree.same(found, operation.value):
            raise _failed(operation, f"finds {_shown(found)}, not {_shown(operation.value)}")

    def _insert(self, operation: _ParsedOperation, value: Tree) -> None:
        if not operation.path:
            self.root = value
            return
        parent, last = self._parent(operation, operation.path), operation.path[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif last == "-":
            parent.append(value)
        else:
            parent.insert(_number(operation, operation.path, len(operation.path) - 1, most=len(parent)), value)

    def _take(self, operation: _ParsedOperation, path: Pointer) -> Tree:
        if not path:
            raise _failed(operation, "would remove the whole document; replace it instead")
        parent = self._parent(operation, path)
        value = _child(operation, parent, path, len(path) - 1)
        if isinstance(parent, dict):
            del parent[path[-1]]
        else:
            del parent[int(path[-1])]
        return value

    def _find(self, operation: _ParsedOperation, path: Pointer, *, lenient: bool) -> Tree:
        """The value at `path`, which must be there; with `lenient`, a missing last member is null."""
        node = self.root
        for depth in range(len(path)):
            if lenient and depth == len(path) - 1 and isinstance(node, dict):
                return node.get(path[-1])
            node = _child(operation, node, path, depth)
        return node

    def _parent(self, operation: _ParsedOperation, path: Pointer) -> Container:
        """The container above the end of `path`, as a copy that may be written to."""
        node = self.root = self._owned(self.root)
        for depth in range(len(path) - 1):
            child = _child(operation, node, path, depth)
            mine = self._owned(child)
            if mine is not child:
                _store(node, path[depth], mine)
            node = mine
        if isinstance(node, (dict, list)):
            return node
        raise _failed(operation, f"looks for {_where(path)} inside {_kind(node)}")

    def _owned(self, node: Tree) -> Tree:
        """The node itself if it is already a copy or a scalar, otherwise a shallow copy of it."""
        if not isinstance(node, (dict, list)) or id(node) in self._own:
            return node
        fresh = node.copy()
        self._own[id(fresh)] = fresh
        return fresh


_OPERATIONS: Final[dict[str, Callable[[_Editor, _ParsedOperation], None]]] = {
    "add": _Editor.add,
    "remove": _Editor.remove,
    "replace": _Editor.replace,
    "move": _Editor.move,
    "copy": _Editor.copy,
    "test": _Editor.test,
}


def _child(operation: _ParsedOperation, node: Tree, path: Pointer, depth: int) -> Tree:
    """The member or item of `node` that the token at `depth` names, which must be there."""
    if isinstance(node, dict):
        if path[depth] in node:
            return node[path[depth]]
        raise _failed(operation, f"looks for {_where(path[: depth + 1])}, which does not exist")
    if isinstance(node, list):
        return node[_number(operation, path, depth, most=len(node) - 1)]
    raise _failed(operation, f"looks for {_where(path[: depth + 1])} inside {_kind(node)}")


def _store(node: Tree, token: str, value: Tree) -> None:
    """Sets the member or item that `_child` found, or adds a member to a map."""
    if isinstance(node, dict):
        node[token] = value
    elif isinstance(node, list):
        node[int(token)] = value


def _number(operation: _ParsedOperation, path: Pointer, depth: int, *, most: int) -> int:
    """The list index in the token at `depth`."""
    index = json_tree.parse_index(path[depth])
    if index is None:
        raise _failed(operation, f"has {quote(path[depth])} for an index at {_where(path[: depth + 1])}")
    if index > most:
        raise _failed(operation, f"has an index out of range at {_where(path[: depth + 1])}")
    return index


def _json_size(value: Tree, enough: int) -> int:
    """The approximate length of the value's JSON; counting stops soon after `enough`."""
    total = 0
    waiting = [value]
    while waiting and total <= enough:
        node = waiting.pop()
        if isinstance(node, str):
            total += len(node) + 2
        elif isinstance(node, dict):
            total += 2 + sum(len(name) + 4 for name in node)
            waiting += node.values()
        elif isinstance(node, list):
            total += 2 + len(node)
            waiting += node
        else:
            total += 4
    return total


def _malformed(index: int, member: str, problem: str) -> BadPatch:
    return BadPatch(f"operation {index} of the JSON patch {problem}", field=f"[{index}].{member}")


def _failed(operation: _ParsedOperation, problem: str) -> PatchFailed:
    path = json_tree.format_pointer(operation.path)
    return PatchFailed(
        f"operation {operation.number} ({operation.op} {path or 'root'}) {problem}", path=path, index=operation.number
    )


def _where(path: Pointer) -> str:
    return json_tree.format_pointer(path) or "the document"


def _kind(value: Tree) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case _:
            return "null"


def _shown(value: Tree) -> str:
    """A value in a message, as JSON, if it is short."""
    match value:
        case str():
            return quote(value)
        case bool():
            return "true" if value else "false"
        case int() if value.bit_length() > 64:
            return "a huge number"  # repr refuses thousands of digits
        case int() | float():
            return repr(value)
        case _:
            return _kind(value)


def json_equal(one: Tree, other: Tree) -> bool:
    """Whether two trees are the same JSON; as `json_tree.same`, and many times faster for equal lists.

    Equality and encoding run in C. Python's equality alone would take true for 1; trees that it calls equal and that
    encode alike are the same. What it cannot decide (1 and 1.0, another order of members, trees that are too deep) is
    left to `json_tree.same`.
    """
    if one is other:
        return True
    try:
        if one != other:
            return False
        if isinstance(one, str) or _is_copy(one, other) or _encode(one) == _encode(other):
            return True
    except (RecursionError, TypeError, ValueError, OverflowError):
        pass
    return json_tree.same(one, other)


def _is_copy(one: Tree, other: Tree) -> bool:
    """Whether two maps have the very same members in the same order, as a shallow copy made for one change has."""
    if not isinstance(one, dict) or not isinstance(other, dict) or list(one) != list(other):
        return False
    return all(map(is_, one.values(), other.values()))


_encode = msgspec.json.Encoder().encode


Path = tuple[str, ...]
Operation = dict[str, Any]


def diff_operations(before: Any, after: Any) -> list[Operation]:
    """Operations that lead from `before` to `after` when `apply_operations` applies them; none if the two are the same.

    Only add, remove and replace are used. The operations share nothing with either tree. BadPatch is raised only for
    trees too deep to be walked.
    """
    try:
        return list(_changes(before, after, ()))
    except RecursionError as error:
        raise BadPatch("the documents are nested too deeply to be compared") from error


def _changes(before: Tree, after: Tree, path: Path) -> Iterator[Operation]:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _map_changes(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_changes(before, after, path)
    elif not json_equal(before, after):
        yield _operation("replace", path, after)


def _map_changes(before: dict[str, Tree], after: dict[str, Tree], path: Path) -> Iterator[Operation]:
    if before and after and not before.keys() & after.keys():
        yield _operation("replace", path, after)
        return
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": json_tree.format_pointer((*path, name))}
    for name, new in after.items():
        if name in before:
            yield from _changes(before[name], new, (*path, name))
        else:
            yield _operation("add", (*path, name), new)


def _list_changes(before: list[Tree], after: list[Tree], path: Path) -> Iterator[Operation]:
    if json_equal(before, after):
        return
    start, end = _common_ends(before, after)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    position = start
    done_old = done_new = 0
    for next_old, next_new in [*_anchors(old, new), (len(old), len(new))]:
        yield from _gap_changes(old[done_old:next_old], new[done_new:next_new], path, position)
        position += next_new - done_new + 1
        done_old, done_new = next_old + 1, next_new + 1


def _gap_changes(old: list[Tree], new: list[Tree], path: Path, position: int) -> Iterator[Operation]:
    """The operations that turn the items `old`, the first of which is at `position`, into `new`."""
    paired = min(len(old), len(new))
    for offset in range(paired):
        yield from _changes(old[offset], new[offset], (*path, str(position + offset)))
    gone: Operation = {"op": "remove", "path": json_tree.format_pointer((*path, str(position + paired)))}
    for _ in old[paired:]:
        yield gone.copy()
    for offset in range(paired, len(new)):
        yield _operation("add", (*path, str(position + offset)), new[offset])


def _common_ends(before: list[Tree], after: list[Tree]) -> tuple[int, int]:
    """How many items both lists have in common at the start, and how many of the rest at the end."""
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and json_equal(before[start], after[start]):
        start += 1
    end = 0
    while end < shorter - start and json_equal(before[-1 - end], after[-1 - end]):
        end += 1
    return start, end


def _anchors(old: list[Tree], new: list[Tree]) -> list[tuple[int, int]]:
    """Pairs of positions of equal items that need not move, increasing on both sides."""
    if not old or not new:
        return []
    old_places, new_places = _unique_positions(old), _unique_positions(new)
    pairs = [(place, new_places[key]) for key, place in old_places.items() if key in new_places]
    return _longest_increasing_run(pairs)


def _unique_positions(items: list[Tree]) -> dict[Hashable, int]:
    """The positions of the items that occur only once, in the order of the list."""
    places: dict[Hashable, int] = {}
    for place, item in enumerate(items):
        key = _key(item)
        places[key] = -1 if key in places else place
    return {key: place for key, place in places.items() if place >= 0}


def _longest_increasing_run(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, already increasing on the left, that also increases on the right."""
    ends: list[int] = []  # the smallest right side that ends a run of each length
    tails: list[int] = []  # the pair it belongs to
    previous: list[int] = []
    for number, (_, right) in enumerate(pairs):
        length = bisect_left(ends, right)
        previous.append(tails[length - 1] if length else -1)
        ends[length : length + 1] = [right]
        tails[length : length + 1] = [number]
    run: list[tuple[int, int]] = []
    number = tails[-1] if tails else -1
    while number >= 0:
        run.append(pairs[number])
        number = previous[number]
    return run[::-1]


def _key(item: Tree) -> Hashable:
    """A hashable key of an item, equal for items that are the same JSON."""
    if isinstance(item, dict):
        return (dict, frozenset((name, _key(one)) for name, one in item.items()))
    if isinstance(item, list):
        return (list, tuple(_key(one) for one in item))
    # bool is an int to Python, but true is not 1 in JSON.
    return (bool, item) if isinstance(item, bool) else item


def _operation(op: str, path: Path, value: Tree) -> Operation:
    return {"op": op, "path": json_tree.format_pointer(path), "value": json_tree.copy_tree(value)}
