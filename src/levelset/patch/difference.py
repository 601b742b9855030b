"""The difference of two trees as a JSON patch: short for small changes, also inside long lists.

Lists are lined up by the items that occur once on each side and stand in the same order (the longest such row). What
lies between is compared pair by pair. That takes n log n steps, never n squared, however long the lists are.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from typing import Any

from levelset.errors import BadPatch
from levelset.objects import trees
from levelset.objects.trees import Tree
from levelset.patch.alike import alike

__all__ = ["diff_operations"]

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
            yield {"op": "remove", "path": trees.format_pointer((*path, name))}
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
    gone: Operation = {"op": "remove", "path": trees.format_pointer((*path, str(position + paired)))}
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
    return {"op": verb, "path": trees.format_pointer(path), "value": trees.copy_tree(value)}
