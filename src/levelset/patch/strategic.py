"""Strategic merge patch: a merge patch that knows which lists are merged, by which key.

What merges how comes from the kind's `Shape`. The semantics are those of Kubernetes' server, in particular the order
of merged lists: what the patch names stands in the patch's order (or in that of `$setElementOrder`), every other item
keeps its place before the items that it stood before. So a new item alone comes first.

Trees are values here: neither argument is ever changed. A result shares the parts of the document that the patch
leaves alone, and shares nothing with the patch; who wants to edit a result in place copies it first.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple

from levelset.errors import BadPatch, PatchFailed
from levelset.objects import trees
from levelset.objects.trees import Tree
from levelset.patch.directives import (
    ORDER,
    REMOVE,
    Where,
    deletes_itself,
    mode_of,
    read_directives,
    scalar_key,
    stripped,
    stripped_list,
    stripped_map,
)
from levelset.patch.shapes import Shape

__all__ = ["apply_strategic"]


def apply_strategic(document: Any, patch: Any, shape: Shape) -> dict[str, Any]:
    """The document with the patch merged in; a document of None is an empty one.

    BadPatch, with the field, is a patch that makes no sense for this shape: an unknown directive, an item without its
    merge key, an order that does not name what the patch sets. PatchFailed is a sound patch on a document where a
    list or map is something else. A Kubernetes server answers 500 to both; 400 and 422 say better whose fault it is.

    Two things are kinder than there: `$patch: merge` is allowed and says what happens anyway, and `$patch: replace`
    on a map that is not there sets it instead of dropping it. An item of a list that says `$patch: replace` makes the
    other items replace the whole list, and is itself left out, as there.
    """
    tree: Tree = {} if document is None else document
    change: Tree = patch
    if not isinstance(change, dict):
        raise BadPatch("a strategic merge patch must be an object")
    if not isinstance(tree, dict):
        raise PatchFailed("a strategic merge patch needs a document that is an object")
    try:
        return _merged_map(tree, change, shape, ())
    except RecursionError as error:
        raise BadPatch("the strategic merge patch is nested too deeply to be applied") from error


def _merged_map(document: dict[str, Tree], patch: dict[str, Tree], shape: Shape, where: Where) -> dict[str, Tree]:
    said = read_directives(patch, where)
    if said.mode == "delete":
        return {}
    if said.mode == "replace":
        return stripped_map(patch, where)
    result = document.copy()
    if said.retain is not None:
        result = {name: value for name, value in document.items() if name in said.retain}
    for name, change in said.members.items():
        inner = (*where, name)
        _merge_member(result, change, shape.member(name), inner, order=said.orders.get(name))
    for name, order in said.orders.items():
        if name in result and name not in said.members:
            result[name] = _reordered(result[name], order, shape.member(name), (*where, name))
    for name, gone in said.removals.items():
        if isinstance(items := result.get(name), list):
            result[name] = _without(items, gone, (*where, f"{REMOVE}/{name}"))
    return result


def _merge_member(
    result: dict[str, Tree], change: Tree, shape: Shape, where: Where, *, order: list[Tree] | None
) -> None:
    """Merges one change into `result`, the map above the member that `where` ends with."""
    name = str(where[-1])
    old = result.get(name)
    if change is None:
        result.pop(name, None)
    elif order is not None:
        result[name] = _ordered_list(old, change, order, shape, where)
    elif isinstance(change, dict) and isinstance(old, dict) and "replace" not in shape.strategies:
        result[name] = _merged_map(old, change, shape, where)
    elif isinstance(change, list) and isinstance(old, list) and "merge" in shape.strategies:
        entries = _merged_list(old, change, shape, where)
        order_of_change = [] if _replaces(change, where) else _patch_keys(change, shape, where)
        result[name] = _arranged(entries, order_of_change, shape)
    elif deletes_itself(change, where):
        result.pop(name, None)
    else:
        result[name] = stripped(change, where)


class _Entry(NamedTuple):
    """An item of a list, and where it stood in the document; None if it is new."""

    item: Tree
    place: int | None


def _merged_list(old: list[Tree], change: list[Tree], shape: Shape, where: Where) -> list[_Entry]:
    """The document's items and the patch's, merged, not yet in order."""
    if _replaces(change, where):
        return [_Entry(item, None) for item in stripped_list(change, where)]
    if shape.merge_key is None:
        return _merged_set(old, change, where)
    keys = [_item_key(item, shape.merge_key, (*where, index)) for index, item in enumerate(change)]
    gone = {key for key, item in zip(keys, change, strict=True) if deletes_itself(item, where)}
    entries: list[_Entry] = []
    known: dict[Hashable, int] = {}
    for place, item in enumerate(old):
        key = _found_key(item, shape.merge_key)
        if key is None or key not in gone:
            known.setdefault(key, len(entries))
            entries.append(_Entry(item, place))
    for index, (key, item) in enumerate(zip(keys, change, strict=True)):
        inner = (*where, index)
        if deletes_itself(item, inner) or key is None:
            continue
        if key in known:
            entry = entries[known[key]]
            entries[known[key]] = entry._replace(item=_merged_item(entry.item, item, shape.item(), inner))
        else:
            known[key] = len(entries)
            entries.append(_Entry(stripped(item, inner), None))
    return entries


def _replaces(change: list[Tree], where: Where) -> bool:
    """Says whether an item directs that the others replace the list; BadPatch if one directs nonsense."""
    modes = {mode_of(item, (*where, index)) for index, item in enumerate(change) if isinstance(item, dict)}
    return "replace" in modes


def _merged_item(old: Tree, change: Tree, shape: Shape, where: Where) -> Tree:
    if isinstance(old, dict) and isinstance(change, dict):
        return _merged_map(old, change, shape, where)
    return stripped(change, where)


def _merged_set(old: list[Tree], change: list[Tree], where: Where) -> list[_Entry]:
    """Two lists of scalars as one set."""
    entries: list[_Entry] = []
    known: set[Hashable] = set()
    places: list[int | None] = [*range(len(old)), *([None] * len(change))]
    for item, place in zip([*old, *change], places, strict=True):
        key = scalar_key(item)
        if key is None and place is None:
            raise BadPatch(f"{trees.format_path(where)} is a set of scalars; the patch has something else in it")
        if key is None or key not in known:
            known.add(key)
            entries.append(_Entry(item, place))
    return entries


def _ordered_list(old: Tree, change: Tree, order: list[Tree], shape: Shape, where: Where) -> list[Tree]:
    """A list that comes with `$setElementOrder`."""
    if not isinstance(change, list):
        raise BadPatch(
            f"{trees.format_path(where)} has an element order, but is no list", field=trees.format_path(where)
        )
    wanted = _order_keys(order, shape, where)
    _check_order(wanted, _patch_keys(change, shape, where), where)
    if old is not None and "merge" in shape.strategies:
        items = _old_list(old, where)
        entries = _with_freed_places(_merged_list(items, change, shape, where), len(items))
    else:
        entries = [_Entry(item, None) for item in stripped_list(change, where)]
    return _arranged(entries, wanted, shape)


def _with_freed_places(entries: list[_Entry], length: int) -> list[_Entry]:
    """Lets as many new items as were deleted count as standing at the end of the document's list.

    Kubernetes deletes and appends in place, and then asks the same list for its order; its tests pin the outcome.
    """
    new = [entry for entry in entries if entry.place is None]
    kept = [entry for entry in entries if entry.place is not None]
    freed = length - len(kept)
    return [*kept, *(entry._replace(place=length + index) for index, entry in enumerate(new[:freed])), *new[freed:]]


def _reordered(old: Tree, order: list[Tree], shape: Shape, where: Where) -> list[Tree]:
    """A list of the document of which the patch gives the order only."""
    entries = [_Entry(item, place) for place, item in enumerate(_old_list(old, where))]
    return _arranged(entries, _order_keys(order, shape, where), shape)


def _arranged(entries: list[_Entry], order: list[Hashable], shape: Shape) -> list[Tree]:
    """The items in their order: those that `order` names as it says, the others before what they stood before."""
    ranks: dict[Hashable, int] = {}
    for key in order:
        ranks.setdefault(key, len(ranks))
    named: list[tuple[int, _Entry]] = []
    others: list[_Entry] = []
    for entry in entries:
        rank = ranks.get(_found_key(entry.item, shape.merge_key))
        if rank is None:
            others.append(entry)
        else:
            named.append((rank, entry))
    named.sort(key=lambda pair: pair[0])
    others.reverse()
    result: list[Tree] = []
    for _, entry in named:
        while others and entry.place is not None and _place(others[-1]) < entry.place:
            result.append(others.pop().item)
        result.append(entry.item)
    return [*result, *(entry.item for entry in reversed(others))]


def _place(entry: _Entry) -> float:
    return float("inf") if entry.place is None else entry.place


def _patch_keys(change: list[Tree], shape: Shape, where: Where) -> list[Hashable]:
    """What the items of a patch are found by, without those that only direct."""
    keys: list[Hashable] = []
    for index, item in enumerate(change):
        if not isinstance(item, dict) or mode_of(item, (*where, index)) == "merge":
            key = _found_key(item, shape.merge_key)
            keys += [] if key is None else [key]
    return keys


def _order_keys(order: list[Tree], shape: Shape, where: Where) -> list[Hashable]:
    place = (*where[:-1], f"{ORDER}/{where[-1]}")
    keys: list[Hashable] = []
    for index, item in enumerate(order):
        key = _found_key(item, shape.merge_key)
        if key is None:
            full = trees.format_path((*place, index))
            by = f"an object with {shape.merge_key}" if shape.merge_key else "a scalar, for the list has no merge key"
            raise BadPatch(f"{full} must be {by}", field=full)
        keys.append(key)
    return keys


def _check_order(order: list[Hashable], keys: list[Hashable], where: Where) -> None:
    """Every item that the patch sets must be in the order, and they must follow each other as they do there."""
    waiting = iter(order)
    for key in keys:
        if key not in waiting:
            full = trees.format_path(where)
            raise BadPatch(f"{full} sets an item out of the order that {ORDER}/{where[-1]} gives", field=full)


def _item_key(item: Tree, merge_key: str, where: Where) -> Hashable:
    """The merge key's value of an item of a patch; None for an item that is nothing but `$patch: merge`."""
    full = trees.format_path(where)
    if not isinstance(item, dict):
        raise BadPatch(f"{full} must be an object with {merge_key}, the list's merge key", field=full)
    key = _found_key(item, merge_key)
    if key is None and item != {"$patch": "merge"}:
        raise BadPatch(f"{full} has no {merge_key}, the list's merge key", field=full)
    return key


def _found_key(item: Tree, merge_key: str | None) -> Hashable | None:
    """What an item is found by: its merge key's value, or itself in a list without one; None if that is no scalar."""
    if merge_key is None:
        return scalar_key(item)
    return scalar_key(item.get(merge_key)) if isinstance(item, dict) else None


def _old_list(old: Tree, where: Where) -> list[Tree]:
    if isinstance(old, list):
        return old
    path = trees.format_pointer(where)
    raise PatchFailed(f"the patch orders {trees.format_path(where)}, which is no list in the document", path=path)


def _without(items: list[Tree], gone: list[Tree], where: Where) -> list[Tree]:
    keys = {scalar_key(item) for item in gone}
    if None in keys:
        raise BadPatch(f"{trees.format_path(where)} must be a list of scalars", field=trees.format_path(where))
    return [item for item in items if scalar_key(item) not in keys]
