"""JSON patch (RFC 6902): a list of operations, applied in order, all of them or none.

Trees are values here: the document is never changed. A result shares the parts of the document that no operation
touched, and shares nothing with the operations; who wants to edit a result in place copies it first.

A quick answer to whether two trees are the same JSON, for differences, where most parts are.

The difference of two trees as a JSON patch: short for small changes, also inside long lists.

Lists are lined up by the items that occur once on each side and stand in the same order (the longest such row). What
lies between is compared pair by pair. That takes n log n steps, never n squared, however long the lists are.
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

__all__ = ["COPIES_WITHIN", "alike", "apply_operations", "diff_operations"]

COPIES_WITHIN: Final = 3 * 1024 * 1024
"""How much JSON, in characters, the `copy` operations of one patch may add: what Kubernetes allows."""


def apply_operations(
    document: Any, operations: Any, *, like_kubernetes: bool = False, copies_within: int = COPIES_WITHIN
) -> Any:
    """The document after all operations; if one does not fit, PatchFailed names it and nothing has happened.

    BadPatch means that the patch is none, whatever the document: without a `field` it is not a list of objects (a
    Kubernetes server answers 400), with a `field` such as `[2].path` one operation is malformed (such a server
    answers 422, as it does for PatchFailed). The whole patch is read before the first operation is applied.

    `like_kubernetes` allows what a Kubernetes server allows beyond the RFC: `replace` may add a member to a map,
    `copy` of a missing member copies null, and a missing member passes the `test` for null. All `copy` operations
    together may add `copies_within` characters of JSON, so that a small patch cannot make a huge document.
    """
    steps = _read_all(operations)
    editor = _Editor(document, lenient=like_kubernetes, copies_within=copies_within)
    for step in steps:
        try:
            _VERBS[step.verb](editor, step)
        except RecursionError as error:
            raise _failed(step, "reaches a value that is nested too deeply") from error
    return editor.root


def _read_all(operations: Tree) -> "list[_Step]":
    if not isinstance(operations, list):
        raise BadPatch(f"a JSON patch is a list of operations, not {_kind(operations)}")
    return [_read(operation, index) for index, operation in enumerate(operations)]


Container = dict[str, Tree] | list[Tree]


class _Step(NamedTuple):
    """One operation, read."""

    number: int
    verb: str
    path: Pointer
    source: Pointer = ()
    value: Tree = None


def _read(operation: Tree, index: int) -> _Step:
    if not isinstance(operation, dict):
        raise BadPatch(f"operation {index} of the JSON patch is {_kind(operation)}, not an object")
    words = operation
    verb = words.get("op")
    if not isinstance(verb, str) or verb not in _VERBS:
        known = ", ".join(sorted(_VERBS))
        problem = f"has the unknown op {_shown(verb)}" if "op" in words else "has no op"
        raise _bad(index, "op", f"{problem}; known are {known}")
    path = _pointer(words, "path", index)
    if verb in ("move", "copy"):
        return _Step(index, verb, path, source=_pointer(words, "from", index))
    if verb == "remove":
        return _Step(index, verb, path)
    if "value" not in words:
        raise _bad(index, "value", f"({verb}) has no value")
    return _Step(index, verb, path, value=words["value"])


def _pointer(words: dict[str, Tree], word: str, index: int) -> Pointer:
    text = words.get(word)
    if not isinstance(text, str):
        problem = f"has a {word} that is {_kind(text)}, not a text" if word in words else f"has no {word}"
        raise _bad(index, word, problem)
    try:
        return json_tree.parse_pointer(text)
    except BadPointer as error:
        raise _bad(index, word, f"has a {word} that is no JSON pointer: {error}") from error


class _Editor:
    """A document under change; containers are copied the first time they are written to."""

    def __init__(self, document: Tree, *, lenient: bool, copies_within: int) -> None:
        self.root = document
        self.lenient = lenient
        self._copies_left = copies_within
        self._own: dict[int, Container] = {}  # by id, holding the object so that its id stays its own

    def add(self, step: _Step) -> None:
        self._insert(step, json_tree.copy_tree(step.value))

    def remove(self, step: _Step) -> None:
        self._take(step, step.path)

    def replace(self, step: _Step) -> None:
        value = json_tree.copy_tree(step.value)
        if not step.path:
            self.root = value
            return
        parent = self._parent(step, step.path)
        if not (self.lenient and isinstance(parent, dict)):
            _child(step, parent, step.path, len(step.path) - 1)
        _store(parent, step.path[-1], value)

    def move(self, step: _Step) -> None:
        if step.path == step.source:
            self._find(step, step.source, lenient=False)
            return
        if step.path[: len(step.source)] == step.source:
            raise _failed(step, f"moves {_where(step.source)} into its own child")
        self._insert(step, self._take(step, step.source))

    def copy(self, step: _Step) -> None:
        value = self._find(step, step.source, lenient=self.lenient)
        self._copies_left -= _weight(value, self._copies_left)
        if self._copies_left < 0:
            raise _failed(step, "copies more than all copies of one patch may; send the values themselves")
        self._insert(step, json_tree.copy_tree(value))

    def test(self, step: _Step) -> None:
        found = self._find(step, step.path, lenient=self.lenient)
        if not json_tree.same(found, step.value):
            raise _failed(step, f"finds {_shown(found)}, not {_shown(step.value)}")

    def _insert(self, step: _Step, value: Tree) -> None:
        if not step.path:
            self.root = value
            return
        parent, last = self._parent(step, step.path), step.path[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif last == "-":
            parent.append(value)
        else:
            parent.insert(_number(step, step.path, len(step.path) - 1, most=len(parent)), value)

    def _take(self, step: _Step, path: Pointer) -> Tree:
        if not path:
            raise _failed(step, "would take away the whole document; replace it instead")
        parent = self._parent(step, path)
        value = _child(step, parent, path, len(path) - 1)
        if isinstance(parent, dict):
            del parent[path[-1]]
        else:
            del parent[int(path[-1])]
        return value

    def _find(self, step: _Step, path: Pointer, *, lenient: bool) -> Tree:
        """The value at `path`, which must be there; a lenient look takes a missing last member for null."""
        node = self.root
        for depth in range(len(path)):
            if lenient and depth == len(path) - 1 and isinstance(node, dict):
                return node.get(path[-1])
            node = _child(step, node, path, depth)
        return node

    def _parent(self, step: _Step, path: Pointer) -> Container:
        """The container above the end of `path`, ours to write to."""
        node = self.root = self._owned(self.root)
        for depth in range(len(path) - 1):
            child = _child(step, node, path, depth)
            mine = self._owned(child)
            if mine is not child:
                _store(node, path[depth], mine)
            node = mine
        if isinstance(node, (dict, list)):
            return node
        raise _failed(step, f"looks for {_where(path)} inside {_kind(node)}")

    def _owned(self, node: Tree) -> Tree:
        """The node itself if it is a copy of ours or a scalar, otherwise a new copy of this one container."""
        if not isinstance(node, (dict, list)) or id(node) in self._own:
            return node
        fresh = node.copy()
        self._own[id(fresh)] = fresh
        return fresh


_VERBS: Final[dict[str, Callable[[_Editor, _Step], None]]] = {
    "add": _Editor.add,
    "remove": _Editor.remove,
    "replace": _Editor.replace,
    "move": _Editor.move,
    "copy": _Editor.copy,
    "test": _Editor.test,
}


def _child(step: _Step, node: Tree, path: Pointer, depth: int) -> Tree:
    """The member or item of `node` that the token at `depth` names, which must be there."""
    if isinstance(node, dict):
        if path[depth] in node:
            return node[path[depth]]
        raise _failed(step, f"looks for {_where(path[: depth + 1])}, which is not there")
    if isinstance(node, list):
        return node[_number(step, path, depth, most=len(node) - 1)]
    raise _failed(step, f"looks for {_where(path[: depth + 1])} inside {_kind(node)}")


def _store(node: Tree, token: str, value: Tree) -> None:
    """Puts a value where `_child` found one, or where a map has room for it."""
    if isinstance(node, dict):
        node[token] = value
    elif isinstance(node, list):
        node[int(token)] = value


def _number(step: _Step, path: Pointer, depth: int, *, most: int) -> int:
    """The list index that the token at `depth` is."""
    index = json_tree.parse_index(path[depth])
    if index is None:
        raise _failed(step, f"has {quote(path[depth])} for an index at {_where(path[: depth + 1])}")
    if index > most:
        raise _failed(step, f"has an index out of range at {_where(path[: depth + 1])}")
    return index


def _weight(value: Tree, enough: int) -> int:
    """About the length of the value's JSON; counting ends soon after `enough`."""
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


def _bad(index: int, word: str, problem: str) -> BadPatch:
    return BadPatch(f"operation {index} of the JSON patch {problem}", field=f"[{index}].{word}")


def _failed(step: _Step, problem: str) -> PatchFailed:
    path = json_tree.format_pointer(step.path)
    return PatchFailed(
        f"operation {step.number} ({step.verb} {path or 'root'}) {problem}", path=path, index=step.number
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
            return "a text"
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


def alike(one: Tree, other: Tree) -> bool:
    """As `trees.same`, and many times faster for equal lists: equality and encoding run in C.

    Python's equality alone would take true for 1; trees that it calls equal and that encode alike are the same. What
    it cannot decide (1 and 1.0, another order of members, trees too deep for it) is left to `trees.same`.
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
    """Whether two maps have the very same members in the same order: many were copied for the sake of one change."""
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
    elif not alike(before, after):
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
    if alike(before, after):
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
    """What turns the items `old`, of which the first stands at `position`, into `new`."""
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
    while start < shorter and alike(before[start], after[start]):
        start += 1
    end = 0
    while end < shorter - start and alike(before[-1 - end], after[-1 - end]):
        end += 1
    return start, end


def _anchors(old: list[Tree], new: list[Tree]) -> list[tuple[int, int]]:
    """Pairs of positions of equal items that may stay where they are, rising on both sides."""
    if not old or not new:
        return []
    old_places, new_places = _single_places(old), _single_places(new)
    pairs = [(place, new_places[key]) for key, place in old_places.items() if key in new_places]
    return _longest_rise(pairs)


def _single_places(items: list[Tree]) -> dict[Hashable, int]:
    """Where each item stands that occurs only once, in the order of the list."""
    places: dict[Hashable, int] = {}
    for place, item in enumerate(items):
        key = _key(item)
        places[key] = -1 if key in places else place
    return {key: place for key, place in places.items() if place >= 0}


def _longest_rise(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, already rising on the left, that also rises on the right."""
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
    """Something to find an item by: equal for items that are the same JSON."""
    if isinstance(item, dict):
        return (dict, frozenset((name, _key(one)) for name, one in item.items()))
    if isinstance(item, list):
        return (list, tuple(_key(one) for one in item))
    # bool is an int to Python, but true is not 1 in JSON.
    return (bool, item) if isinstance(item, bool) else item


def _operation(verb: str, path: Path, value: Tree) -> Operation:
    return {"op": verb, "path": json_tree.format_pointer(path), "value": json_tree.copy_tree(value)}
