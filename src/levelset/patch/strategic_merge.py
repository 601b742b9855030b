"""Strategic merge patch: applying one, and computing the one between two or three versions of an object.

Which lists are merged, and by which key, comes from the kind's `Shape`. The semantics are those of kube-apiserver, in
particular the order of merged lists: items in the patch are in the patch's order (or in that of `$setElementOrder`),
every other item stays before the items that it preceded. So a new item alone comes first.

Directives are members of a patch that say how to merge: `$patch` selects merge, replace or delete; `$retainKeys` names
all members that may remain; `$setElementOrder/<list>` gives the order of a list; `$deleteFromPrimitiveList/<list>`
removes scalars from one.

Neither argument is ever changed. A result shares the parts of the document that the patch does not touch, and shares
nothing with the patch; copy a result before editing it in place.
"""

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec

from levelset.errors import BadPatch, PatchFailed
from levelset.objects import json_tree
from levelset.objects.json_tree import Tree, copy_tree
from levelset.objects.names import quote
from levelset.patch.json_patch import json_equal
from levelset.patch.merge_schema import Shape

__all__ = [
    "ORDER",
    "PATCH",
    "REMOVE",
    "RETAIN",
    "Directives",
    "Where",
    "apply_strategic",
    "deletes_itself",
    "is_directive",
    "make_strategic",
    "make_strategic_three_way",
    "mode_of",
    "read_directives",
    "scalar_key",
    "stripped",
    "stripped_list",
]

PATCH: Final = "$patch"
RETAIN: Final = "$retainKeys"
ORDER: Final = "$setElementOrder"
REMOVE: Final = "$deleteFromPrimitiveList"

Where = tuple[str | int, ...]
Mode = Literal["merge", "replace", "delete"]
_MODES: Final[dict[str, Mode]] = {"merge": "merge", "replace": "replace", "delete": "delete"}


@dataclass(slots=True)
class Directives:
    """A map of a patch: its mode, its plain members, and its directives."""

    mode: Mode
    members: dict[str, Tree]
    retain: frozenset[str] | None = None
    orders: dict[str, list[Tree]] = field(default_factory=dict[str, list[Tree]])
    removals: dict[str, list[Tree]] = field(default_factory=dict[str, list[Tree]])


def read_directives(patch: dict[str, Tree], where: Where) -> Directives:
    """Splits one map of a patch into members and directives; raises BadPatch for an invalid directive."""
    found = Directives(mode_of(patch, where), {})
    for name, value in patch.items():
        if not isinstance(name, str):
            raise BadPatch(f"a member of {json_tree.format_path(where) or 'the patch'} has a name that is not a string")
        if not is_directive(name):
            found.members[name] = value
        elif name == RETAIN:
            found.retain = _retained(value, where)
        elif name.startswith(ORDER):
            found.orders[_target(name, ORDER, where)] = _list(value, name, where)
        elif name != PATCH:
            found.removals[_target(name, REMOVE, where)] = _list(value, name, where)
    _check_retained(found, where)
    return found


def is_directive(name: str) -> bool:
    """Whether a member's name is reserved for a directive."""
    return name[:1] == "$" and (name in (PATCH, RETAIN) or name.startswith((ORDER, REMOVE)))


def mode_of(patch: dict[str, Tree], where: Where) -> Mode:
    """The mode that `$patch` selects in this map; merge without it."""
    if PATCH not in patch:
        return "merge"
    mode = patch[PATCH]
    known = _MODES.get(mode) if isinstance(mode, str) else None
    if known is not None:
        return known
    name = json_tree.format_path((*where, PATCH))
    raise BadPatch(f"{name} is {quote(mode)}; expected delete, merge or replace", field=name)


def deletes_itself(value: Tree, where: Where) -> bool:
    """Whether a value of a patch is a map with `$patch: delete`."""
    return isinstance(value, dict) and mode_of(value, where) == "delete"


def stripped(value: Tree, where: Where) -> Tree:
    """A patch's value where there is nothing to merge it with: a copy without null members and maps with `$patch`.

    As in kube-apiserver, other directives in it are plain members.
    """
    if isinstance(value, dict):
        return {
            name: stripped(one, (*where, name))
            for name, one in value.items()
            if one is not None and name != PATCH and not _vanishes(one)
        }
    return stripped_list(value, where) if isinstance(value, list) else value


def _vanishes(value: Tree) -> bool:
    """Whether a value is a map with `$patch`, of which nothing is left where there is nothing to merge it with."""
    return isinstance(value, dict) and PATCH in value and value[PATCH] != "merge"


def stripped_list(items: list[Tree], where: Where) -> list[Tree]:
    """The items of a list of a patch that are more than directives, each without null members."""
    return [stripped(item, (*where, index)) for index, item in enumerate(items) if not _vanishes(item)]


def scalar_key(value: Tree) -> Hashable | None:
    """A hashable key of a scalar that distinguishes true from 1; None for null and for containers."""
    if isinstance(value, bool):
        return (bool, value)
    return value if isinstance(value, str | int | float) else None


def _target(name: str, prefix: str, where: Where) -> str:
    head, slash, target = name.partition("/")
    if head == prefix and slash and target:
        return target
    full = json_tree.format_path((*where, name))
    raise BadPatch(f"{full} is not a directive: write {prefix}/ and the name of a list", field=full)


def _list(value: Tree, name: str, where: Where) -> list[Tree]:
    if isinstance(value, list):
        return value
    full = json_tree.format_path((*where, name))
    raise BadPatch(f"{full} must be a list", field=full)


def _retained(value: Tree, where: Where) -> frozenset[str]:
    names = _list(value, RETAIN, where)
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) == len(names):
        return frozenset(texts)
    full = json_tree.format_path((*where, RETAIN))
    raise BadPatch(f"{full} must be a list of names", field=full)


def _check_retained(found: Directives, where: Where) -> None:
    if found.retain is None:
        return
    for name, value in found.members.items():
        if value is not None and name not in found.retain:
            full = json_tree.format_path((*where, name))
            raise BadPatch(f"{full} is set, but {RETAIN} beside it does not retain it", field=full)


def apply_strategic(document: Any, patch: Any, shape: Shape) -> dict[str, Any]:
    """The document with the patch merged in; a document of None is an empty one.

    Raises BadPatch, with the field, for a patch that is invalid for this shape: an unknown directive, an item without
    its merge key, an order that does not contain what the patch sets. Raises PatchFailed for a valid patch on a
    document whose list or map is something else. kube-apiserver responds to both with 500; 400 and 422 are used here.

    One thing is more lenient than in kube-apiserver: `$patch: merge` is allowed and is the default. As there, a map
    with another `$patch` is left out where the document has none, and an item of a list with `$patch: replace` makes
    the other items replace the whole list.
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
    mode = mode_of(patch, where)
    if mode == "delete":
        return {}
    if mode == "replace":
        return {name: copy_tree(value) for name, value in patch.items() if name != PATCH}
    said = read_directives(patch, where)
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
        if shape.opaque and mode_of(change, where) == "merge":
            _check_opaque(old, change)
        result[name] = _merged_map(old, change, shape, where)
    elif isinstance(change, list) and isinstance(old, list) and "merge" in shape.strategies:
        entries = _merged_list(old, change, shape, where)
        order_of_change = [] if _replaces(change, where) else _patch_keys(change, shape, where)
        result[name] = _arranged(entries, order_of_change, shape)
    elif change.__class__ is old.__class__ and isinstance(change, dict | list):
        # Replaced as a whole: as in kube-apiserver, directives and nulls in it are plain members.
        result[name] = copy_tree(change)
    elif _vanishes(change):
        result.pop(name, None)
    else:
        result[name] = stripped(change, where)


def _check_opaque(old: dict[str, Tree], change: dict[str, Tree]) -> None:
    """Refuses, as upstream does, to merge containers inside of a value whose members have no types."""
    for name, value in change.items():
        if isinstance(value, dict | list) and value.__class__ is old.get(name).__class__:
            raise BadPatch(f'unable to find api field in struct RawExtension for the json field "{name}"', field=name)


class _Entry(NamedTuple):
    """An item of a list, and its index in the document; None if it is new."""

    item: Tree
    place: int | None


def _merged_list(old: list[Tree], change: list[Tree], shape: Shape, where: Where) -> list[_Entry]:
    """The document's items and the patch's, merged, not yet in order."""
    if _replaces(change, where):
        rest = [item for item in change if not (isinstance(item, dict) and PATCH in item)]
        return [_Entry(copy_tree(item), None) for item in rest]
    if shape.merge_key is None:
        return _merged_set(old, change, where)
    _check_maps(change, shape.merge_key, where)
    keys = [_key_of(item, shape.merge_key) for item in change]
    gone = {key for key, item in zip(keys, change, strict=True) if deletes_itself(item, where)}
    entries: list[_Entry] = []
    known: dict[Hashable, int] = {}
    for place, item in enumerate(old):
        key = _key_of(item, shape.merge_key)
        if key is None or key not in gone:
            known.setdefault(key, len(entries))
            entries.append(_Entry(item, place))
    for index, (key, item) in enumerate(zip(keys, change, strict=True)):
        inner = (*where, index)
        if key is None:
            _check_key(item, shape.merge_key, inner)
        if deletes_itself(item, inner) or key is None:
            continue
        if key in known:
            entry = entries[known[key]]
            entries[known[key]] = entry._replace(item=_merged_item(entry.item, item, shape.item(), inner))
        else:
            known[key] = len(entries)
            entries.append(_Entry(copy_tree(item), None))
    return entries


def _replaces(change: list[Tree], where: Where) -> bool:
    """Whether an item has `$patch: replace`, so that the others replace the list; raises BadPatch if one is invalid."""
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
            raise BadPatch(f"{json_tree.format_path(where)} is a set of scalars; the patch contains something else")
        if key is None or key not in known:
            known.add(key)
            entries.append(_Entry(item, place))
    return entries


def _ordered_list(old: Tree, change: Tree, order: list[Tree], shape: Shape, where: Where) -> list[Tree]:
    """A list that comes with `$setElementOrder`."""
    if not isinstance(change, list):
        raise BadPatch(
            f"{json_tree.format_path(where)} has an element order but is not a list",
            field=json_tree.format_path(where),
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
    """Treats as many new items as were deleted as if they were at the end of the document's list.

    Kubernetes deletes and appends in place, and then uses the same list for its order; its tests pin the outcome.
    """
    new = [entry for entry in entries if entry.place is None]
    old = [entry for entry in entries if entry.place is not None]
    freed = length - len(old)
    return [*old, *(entry._replace(place=length + index) for index, entry in enumerate(new[:freed])), *new[freed:]]


def _reordered(old: Tree, order: list[Tree], shape: Shape, where: Where) -> list[Tree]:
    """A list of the document for which the patch contains only an order."""
    entries = [_Entry(item, place) for place, item in enumerate(_old_list(old, where))]
    return _arranged(entries, _order_keys(order, shape, where), shape)


def _arranged(entries: list[_Entry], order: list[Hashable], shape: Shape) -> list[Tree]:
    """The items in their order: those in `order` as it says, the others before the items that they preceded."""
    ranks: dict[Hashable, int] = {}
    for key in order:
        ranks.setdefault(key, len(ranks))
    named: list[tuple[int, _Entry]] = []
    others: list[_Entry] = []
    for entry in entries:
        rank = ranks.get(_key_of(entry.item, shape.merge_key))
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
    """The keys of the items of a patch, without those that are only directives."""
    keys: list[Hashable] = []
    for index, item in enumerate(change):
        if not isinstance(item, dict) or mode_of(item, (*where, index)) == "merge":
            key = _key_of(item, shape.merge_key)
            keys += [] if key is None else [key]
    return keys


def _order_keys(order: list[Tree], shape: Shape, where: Where) -> list[Hashable]:
    place = (*where[:-1], f"{ORDER}/{where[-1]}")
    keys: list[Hashable] = []
    for index, item in enumerate(order):
        key = _key_of(item, shape.merge_key)
        if key is None:
            full = json_tree.format_path((*place, index))
            by = f"an object with {shape.merge_key}" if shape.merge_key else "a scalar: the list has no merge key"
            raise BadPatch(f"{full} must be {by}", field=full)
        keys.append(key)
    return keys


def _check_order(order: list[Hashable], keys: list[Hashable], where: Where) -> None:
    """Checks that every item that the patch sets is in the order, in the same sequence."""
    waiting = iter(order)
    for key in keys:
        if key not in waiting:
            full = json_tree.format_path(where)
            raise BadPatch(f"{full} sets an item out of the order that {ORDER}/{where[-1]} gives", field=full)


def _check_maps(items: list[Tree], merge_key: str, where: Where) -> None:
    """Refuses the items of a patch if one is no map, before any is merged."""
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            full = json_tree.format_path((*where, index))
            raise BadPatch(f"{full} must be an object with {merge_key}, the list's merge key", field=full)
        if deletes_itself(item, (*where, index)):
            _check_key(item, merge_key, (*where, index))


def _check_key(item: Tree, merge_key: str, where: Where) -> None:
    """Refuses an item of a patch without the merge key, unless it is nothing but `$patch: merge`."""
    if _key_of(item, merge_key) is None and item != {"$patch": "merge"}:
        full = json_tree.format_path(where)
        raise BadPatch(f"{full} has no {merge_key}, the list's merge key", field=full)


def _key_of(item: Tree, merge_key: str | None) -> Hashable | None:
    """The key of an item: its merge key's value, or itself in a list without one; None if that is not a scalar."""
    if merge_key is None:
        return scalar_key(item)
    return scalar_key(item.get(merge_key)) if isinstance(item, dict) else None


def _old_list(old: Tree, where: Where) -> list[Tree]:
    if isinstance(old, list):
        return old
    path = json_tree.format_pointer(where)
    raise PatchFailed(
        f"the patch orders {json_tree.format_path(where)}, which is not a list in the document", path=path
    )


def _without(items: list[Tree], gone: list[Tree], where: Where) -> list[Tree]:
    keys = {scalar_key(item) for item in gone}
    if None in keys:
        raise BadPatch(f"{json_tree.format_path(where)} must be a list of scalars", field=json_tree.format_path(where))
    return [item for item in items if scalar_key(item) not in keys]


Map = dict[str, Tree]


def make_strategic(before: Any, after: Any, shape: Shape) -> dict[str, Any]:
    """A patch that leads from `before` to `after` when `apply_strategic` applies it; empty if the two are the same.

    It shares nothing with either. Raises BadPatch, with the field, for what a strategic merge patch cannot express: a
    new null member, also inside a list that has to be sent, and members that are named like a directive. Lists that
    violate their shape (two items with one key, a set with an item twice) are replaced as a whole.
    """
    return _build(_PatchBuilder(exact=True), before, after, before, shape)


def make_strategic_three_way(original: Any, modified: Any, current: Any, shape: Shape) -> dict[str, Any]:
    """A patch that brings `current` to `modified`, removing only what is in `original` and not in `modified`.

    `original` is what was applied last time (None the first time), `modified` what is applied now, `current` the live
    object. What other writers added to `current` stays. A null member of `modified` removes the member.
    """
    return _build(_PatchBuilder(exact=False), {} if original is None else original, modified, current, shape)


def _build(builder: "_PatchBuilder", original: Tree, modified: Tree, current: Tree, shape: Shape) -> Map:
    if not (isinstance(original, dict) and isinstance(modified, dict) and isinstance(current, dict)):
        raise BadPatch("a strategic merge patch is the difference of objects; one of these is not an object")
    try:
        return builder.map_patch(original, modified, current, shape, ())
    except RecursionError as error:
        raise BadPatch("the documents are nested too deeply to be compared") from error


class _PatchBuilder(msgspec.Struct, frozen=True):
    """Builds patches; with `exact`, a null that cannot be expressed raises BadPatch, otherwise it means removal."""

    exact: bool

    def map_patch(
        self, original: Map, modified: Map, current: Map, shape: Shape, where: Where, *, retain: bool = False
    ) -> Map:
        """The patch for one map; empty if nothing changes."""
        patch: Map = {}
        for name, wanted in modified.items():
            inner = (*where, name)
            _check_name(name, inner)
            if wanted is None and not self.exact:
                patch |= {name: None} if name in current else {}
            elif name not in current:
                patch[name] = self._sent(wanted, inner)
            elif wanted is not current[name]:
                patch |= self._member_patch(original.get(name), wanted, current[name], shape.member(name), inner)
        for name in original:
            if name not in modified and name in current:
                patch[name] = None
        if retain and modified and (patch or current.keys() - modified.keys()):
            names = sorted(name for name, value in modified.items() if self.exact or value is not None)
            patch[RETAIN] = list[Tree](names)
        return patch

    def _member_patch(self, was: Tree, wanted: Tree, have: Tree, shape: Shape, where: Where) -> Map:
        """The members of the patch that change one existing member of a map to the wanted value."""
        name = str(where[-1])
        if isinstance(wanted, dict) and isinstance(have, dict) and "replace" not in shape.strategies:
            inner = self.map_patch(
                was if isinstance(was, dict) else {},
                wanted,
                have,
                shape,
                where,
                retain="retainKeys" in shape.strategies,
            )
            return {name: inner} if inner else {}
        if json_equal(wanted, have):
            return {}
        if isinstance(wanted, list) and isinstance(have, list) and "merge" in shape.strategies:
            past = was if isinstance(was, list) else []
            return self._list_patch(past, wanted, have, shape, where)
        return {name: self._sent(wanted, where)}

    def _list_patch(self, was: list[Tree], wanted: list[Tree], have: list[Tree], shape: Shape, where: Where) -> Map:
        """The members of the patch for a list that is merged."""
        patch: Map | None
        if shape.merge_key is None:
            patch = self._set_patch(was, wanted, have, str(where[-1]))
        else:
            past, target, present = (_by_merge_key(items, shape.merge_key) for items in (was, wanted, have))
            patch = self._items_patch(past, target, present, shape, where)
        if patch is None:
            return {str(where[-1]): [{PATCH: "replace"}, *self._sent_list(wanted, where)]}
        return patch

    def _set_patch(self, was: list[Tree], wanted: list[Tree], have: list[Tree], name: str) -> Map | None:
        """The new scalars of a set, those to remove, and the order of all; None if one of the lists is not a set."""
        past, target, present = _by_scalar(was), _by_scalar(wanted), _by_scalar(have)
        if target is None or present is None:
            return None
        staying = [item for item in have if scalar_key(item) in target]
        if self.exact and (len(target) < len(wanted) or len(staying) > len(target.keys() & present.keys())):
            return None
        patch: Map = {}
        if added := [item for key, item in target.items() if key not in present]:
            patch[name] = added
        if gone := [item for key, item in (past or {}).items() if key in present and key not in target]:
            patch[f"{REMOVE}/{name}"] = gone
        if target and present and (patch or _moved(target, present)):
            patch[f"{ORDER}/{name}"] = list(target.values())
        return patch

    def _items_patch(
        self,
        past: dict[Hashable, Map] | None,
        target: dict[Hashable, Map] | None,
        present: dict[Hashable, Map] | None,
        shape: Shape,
        where: Where,
    ) -> Map | None:
        """The changed items, those to delete, and the order of all; None if the items have no unique keys."""
        if target is None or present is None or shape.merge_key is None:
            return None
        name, by = str(where[-1]), shape.merge_key
        items: list[Tree] = []
        for index, (key, item) in enumerate(target.items()):
            inner = (*where, index)
            if key not in present:
                items.append(self._sent(item, inner))
                continue
            before = (past or {}).get(key, {})
            retain = "retainKeys" in shape.strategies
            change = self.map_patch(before, item, present[key], shape.item(), inner, retain=retain)
            items += [{by: item[by], **change}] if change else []
        gone = (item for key, item in (past or {}).items() if key in present and key not in target)
        items += [{PATCH: "delete", by: item[by]} for item in gone]
        patch: Map = {name: items} if items else {}
        if target and present and (patch or _moved(target, present)):
            patch[f"{ORDER}/{name}"] = [{by: item[by]} for item in target.values()]
        return patch

    def _sent(self, value: Tree, where: Where) -> Tree:
        """A copy of a value that is sent as a whole."""
        if isinstance(value, list):
            return self._sent_list(value, where)
        if isinstance(value, dict):
            return self._sent_map(value, where)
        if value is None and self.exact and isinstance(where[-1], str):
            full = json_tree.format_path(where)
            raise BadPatch(f"a strategic merge patch cannot set {full} to null; leave it out", field=full)
        return value

    def _sent_list(self, items: list[Tree], where: Where) -> list[Tree]:
        return [self._sent(item, (*where, index)) for index, item in enumerate(items)]

    def _sent_map(self, value: Map, where: Where) -> Map:
        result: Map = {}
        for name, one in value.items():
            _check_name(name, (*where, name))
            if one is not None or self.exact:
                result[name] = self._sent(one, (*where, name))
        return result


def _moved(target: Collection[Hashable], present: Collection[Hashable]) -> bool:
    """Whether the keys that both have are in a different order."""
    return [key for key in present if key in target] != [key for key in target if key in present]


def _by_scalar(items: list[Tree]) -> dict[Hashable, Tree] | None:
    """The items of a set by key, without duplicates; None if one is not a scalar."""
    found: dict[Hashable, Tree] = {}
    for item in items:
        key = scalar_key(item)
        if key is None:
            return None
        found.setdefault(key, item)
    return found


def _by_merge_key(items: list[Tree], merge_key: str) -> dict[Hashable, Map] | None:
    """The items of a list by their merge key; None if one has none, or two have the same."""
    found: dict[Hashable, Map] = {}
    for item in items:
        key = scalar_key(item.get(merge_key)) if isinstance(item, dict) else None
        if not isinstance(item, dict) or key is None or key in found:
            return None
        found[key] = item
    return found


def _check_name(name: str, where: Where) -> None:
    if not isinstance(name, str):
        raise BadPatch(f"{json_tree.format_path(where)} has a name that is not a string")
    if is_directive(name):
        full = json_tree.format_path(where)
        raise BadPatch(f"{full} cannot be part of an object: the name is a directive of strategic merge", field=full)
