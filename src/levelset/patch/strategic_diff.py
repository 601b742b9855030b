"""The difference of two objects as a strategic merge patch, and of three as a client-side apply needs it."""

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Any

from levelset.errors import BadPatch
from levelset.objects import trees
from levelset.objects.trees import Tree
from levelset.patch.alike import alike
from levelset.patch.directives import ORDER, PATCH, REMOVE, RETAIN, Where, is_directive, scalar_key
from levelset.patch.shapes import Shape

__all__ = ["make_strategic", "make_strategic_three_way"]

Map = dict[str, Tree]


def make_strategic(before: Any, after: Any, shape: Shape) -> dict[str, Any]:
    """A patch that leads from `before` to `after` when `apply_strategic` applies it; empty if the two are the same.

    It shares nothing with either. BadPatch, with the field, for what no strategic merge
    patch can say: a new null member, also inside a list that has to be sent, and members that are named like a
    directive. Lists that are not what their shape says (two items with one key, a set with an item twice) are
    replaced as a whole.
    """
    return _made(_Maker(exact=True), before, after, before, shape)


def make_strategic_three_way(original: Any, modified: Any, current: Any, shape: Shape) -> dict[str, Any]:
    """A patch that brings `current` to `modified`, taking away only what `original` had and `modified` has not.

    `original` is what was applied the last time (None the first time), `modified` what is applied now, `current` what
    the server has. What others added to `current` stays. A null member of `modified` asks for the member's removal.
    """
    return _made(_Maker(exact=False), {} if original is None else original, modified, current, shape)


def _made(maker: "_Maker", original: Tree, modified: Tree, current: Tree, shape: Shape) -> Map:
    if not (isinstance(original, dict) and isinstance(modified, dict) and isinstance(current, dict)):
        raise BadPatch("a strategic merge patch is the difference of objects; one of these is none")
    try:
        return maker.map_patch(original, modified, current, shape, ())
    except RecursionError as error:
        raise BadPatch("the documents are nested too deeply to be compared") from error


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes patches; an exact one refuses the nulls that it cannot express, otherwise they mean removal."""

    exact: bool

    def map_patch(
        self, original: Map, modified: Map, current: Map, shape: Shape, where: Where, *, retain: bool = False
    ) -> Map:
        """What to send for one map; empty for nothing."""
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
        """The members of the patch that bring one member of a map, which is there, to what is wanted."""
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
        if alike(wanted, have):
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
            past, target, present = (_maps(items, shape.merge_key) for items in (was, wanted, have))
            patch = self._items_patch(past, target, present, shape, where)
        if patch is None:
            return {str(where[-1]): [{PATCH: "replace"}, *self._sent_list(wanted, where)]}
        return patch

    def _set_patch(self, was: list[Tree], wanted: list[Tree], have: list[Tree], name: str) -> Map | None:
        """The new scalars of a set, those to remove, and the order of all; None if one of the lists is no set."""
        past, target, present = _scalars(was), _scalars(wanted), _scalars(have)
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
        """The changed items, those to delete, and the order of all; None if the items cannot be told apart."""
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
        """A copy of a value that a patch can carry whole."""
        if isinstance(value, list):
            return self._sent_list(value, where)
        if isinstance(value, dict):
            return self._sent_map(value, where)
        if value is None and self.exact and isinstance(where[-1], str):
            full = trees.format_path(where)
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
    """Says whether the keys that both have stand in another order."""
    return [key for key in present if key in target] != [key for key in target if key in present]


def _scalars(items: list[Tree]) -> dict[Hashable, Tree] | None:
    """The items of a set by what they are found by, each once; None if one is no scalar."""
    found: dict[Hashable, Tree] = {}
    for item in items:
        key = scalar_key(item)
        if key is None:
            return None
        found.setdefault(key, item)
    return found


def _maps(items: list[Tree], merge_key: str) -> dict[Hashable, Map] | None:
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
        raise BadPatch(f"{trees.format_path(where)} has a name that is no text")
    if is_directive(name):
        full = trees.format_path(where)
        raise BadPatch(f"{full} cannot be part of an object: the name is a directive of strategic merge", field=full)
