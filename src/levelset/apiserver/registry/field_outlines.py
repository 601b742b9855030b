"""The fields that the writer of a new object owns: all of them, so they depend on the outline of the object only.

An outline tells which members an object has, how they nest, the keys of its list items, and which members are empty
that Go would leave out. Objects of one kind have few outlines, so the fields of an outline are cached. It is taken in
one walk over the object, by a type of its own that joins the merge schema and the written members of a kind.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

from levelset.apiserver.registry.builtin.pods import pod_outline
from levelset.apiserver.registry.builtin.written_members import Members, without_structs, without_zeros
from levelset.objects import encode_tree
from levelset.patch.field_paths import is_granular
from levelset.patch.field_sets import FieldSet, all_fields, print_fields
from levelset.patch.managed_fields import NEVER_TRACKED
from levelset.patch.merge_schema import Shape

__all__ = ["compute_fields", "new_object_fields"]

_CONTAINERS: Final = frozenset({dict, list})
_known: Final[dict[tuple[Any, ...], dict[str, Any] | None]] = {}
_UNKNOWN: Final[Any] = object()
_MAX_KNOWN: Final = 4096
_MAX_PLANS: Final = 256
_KNOWN_BYTES: Final = 8 * 1024
_pod_specs: Final[dict[tuple["_OutlineType", bytes], tuple[Any, ...]]] = {}
_MAX_POD_SPECS: Final = 256


def new_object_fields(tracked: dict[str, Any], shape: Shape, members: Members | None) -> dict[str, Any] | None:
    """The `fieldsV1` of the manager that creates this object, given without what is never tracked; None if it is empty.

    The result is shared between objects and must not be modified.
    """
    kind = _outline_type(shape, members)
    outline: list[Any] = [kind]
    try:
        _add_map(outline, tracked, kind)
    except _Unusual:
        return compute_fields(tracked, shape, members)
    key = tuple(outline)
    found: dict[str, Any] | None = _known.get(key, _UNKNOWN)
    if found is _UNKNOWN:
        found = compute_fields(tracked, shape, members)
        if len(encode_tree(found)) <= _KNOWN_BYTES:
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            _known[key] = found
    return found


class _Unusual(Exception):
    """A list has an item without its key, or with one that is neither a text nor a number: it has no outline."""


class _Below(dict[str, "_OutlineType"]):
    """The outline types of the members of a map, made when they are first needed, because types are recursive."""

    __slots__ = ("_members", "_others", "_shape")

    def __init__(self, shape: Shape, members: Members | None) -> None:
        super().__init__()
        self._shape, self._members = shape, members
        self._others: _OutlineType | None = None

    def __missing__(self, name: str) -> "_OutlineType":
        members = None if self._members is None else self._members.below[name]
        if name in self._shape.fields or (self._members is not None and name in self._members.below):
            self[name] = found = _OutlineType(self._shape.member(name), members)
            return found
        if self._others is None:  # one for all names that the type does not know, and keys of maps: they may be many
            self._others = _OutlineType(self._shape.member(name), members)
        return self._others


class _Plan:
    """Stands for the names of a map in an outline.

    `nested` are those whose values may have members that are owned one by one; `structs` those that are owned as a
    whole, unless they are always there and nothing is in them.
    """

    __slots__ = ("is_leaf", "nested", "structs")

    def __init__(self, nested: "tuple[tuple[str, _OutlineType], ...]", structs: tuple[str, ...]) -> None:
        self.nested, self.structs = nested, structs
        self.is_leaf = not (nested or structs)


class _OutlineType:
    """How the outline of a map or a list is taken."""

    __slots__ = (
        *("_members", "_shape", "below", "defaults", "is_atomic", "is_granular", "items", "keys"),
        *("is_pod_spec", "marked", "plans"),
    )

    def __init__(self, shape: Shape, members: Members | None) -> None:
        self._shape, self._members = shape, members
        self.below = _Below(shape, members)
        self.is_atomic = shape.atomic
        self.is_granular = is_granular(shape)
        self.keys = shape.keys if shape.list_type == "map" else ()
        self.defaults: Mapping[str, Any] = shape.defaults
        self.marked: frozenset[str] = frozenset() if members is None else members.omitted | members.present
        """The members of a map for which it matters whether they are empty."""
        self.items: _OutlineType | None = None
        is_struct = members is not None and members.is_struct
        self.plans: dict[tuple[str, ...], _Plan] | None = {} if is_struct else None
        """The plans by the names of a map; None if these are free, rather than those of a built-in type."""
        self.is_pod_spec = members is not None and members.is_pod_spec

    def plan(self, tree: dict[str, Any]) -> _Plan:
        """The plan for the names of a map; the same for the same names, of which objects of a type have few."""
        assert self._members is not None  # of a struct
        assert self.plans is not None
        leaves, lists, present = self._members.leaves, self._members.lists, self._members.present
        found = [(name, self.below[name]) for name in tree if name not in leaves]
        nested = tuple([(name, one) for name, one in found if one.is_granular or not (one.is_atomic or name in lists)])
        structs = tuple([name for name, one in found if one.is_atomic and name in present and name not in lists])
        if len(self.plans) >= _MAX_PLANS:
            self.plans.clear()
        self.plans[tuple(tree)] = plan = _Plan(nested, structs)
        return plan

    def item(self) -> "_OutlineType":
        """The type of the items of a list."""
        if self.items is None:
            self.items = _OutlineType(self._shape.item(), self._members)
        return self.items


@lru_cache(maxsize=512)
def _outline_type(shape: Shape, members: Members | None) -> _OutlineType:
    return _OutlineType(shape, members)


def _add_map(outline: list[Any], tree: dict[str, Any], kind: _OutlineType) -> None:
    """Adds a map: its plan, its empty members, and for each member that may have members these, or None."""
    plans = kind.plans
    if plans is None:
        _add_free_map(outline, tree, kind)
        return
    plan = plans.get(tuple(tree)) or kind.plan(tree)
    outline.append(plan)
    if not all(tree.values()):
        marked = kind.marked
        empty = [(name, value == []) for name, value in tree.items() if not value and name in marked]
        outline.append(tuple(empty))  # an empty list is not what Go writes for an absent one, which is null
    if plan.structs:
        outline += [_is_blank(tree[name]) for name in plan.structs]
    for name, found in plan.nested:
        value = tree[name]
        # Compares classes, since JSON has no subclasses: `isinstance` would cost more than all the rest.
        class_ = value.__class__
        if not value:
            outline.append(None)
        elif class_ is dict and not found.is_atomic:
            below = None if found.plans is None else found.plans.get(tuple(value))
            if below is not None and below.is_leaf and all(value.values()):
                outline.append(below)  # as `_add_map`, without the call
            else:
                (_add_pod_spec if found.is_pod_spec else _add_map)(outline, value, found)
        elif class_ is list and found.is_granular:
            _add_items(outline, value, found)
        else:
            outline.append(None)


def _add_pod_spec(outline: list[Any], spec: dict[str, Any], kind: _OutlineType) -> None:
    """As `_add_map`, whose walk is not repeated for specs that do not differ in what decides."""
    key = kind, pod_outline(spec)
    found = _pod_specs.get(key)
    if found is None:
        made: list[Any] = []
        _add_map(made, spec, kind)
        found = tuple(made)
        if len(key[1]) <= _KNOWN_BYTES:
            if len(_pod_specs) >= _MAX_POD_SPECS:
                _pod_specs.clear()
            _pod_specs[key] = found
    outline += found


def _is_blank(value: Any) -> bool:
    """Whether all members of this map are empty; it may have some."""
    return value.__class__ is dict and not any(value.values())


def _add_free_map(outline: list[Any], tree: dict[str, Any], kind: _OutlineType) -> None:
    """Adds a map with any names: the names, each member that has members, after its name again, and None."""
    outline += tree
    if not _CONTAINERS.isdisjoint(map(type, tree.values())):
        below = kind.below
        for name, value in tree.items():
            class_ = value.__class__
            if class_ is dict:
                if value and not (found := below[name]).is_atomic:
                    outline.append(name)
                    _add_map(outline, value, found)
            elif class_ is list and value and (found := below[name]).is_granular:
                outline.append(name)
                _add_items(outline, value, found)
    outline.append(None)


def _add_items(outline: list[Any], items: list[Any], kind: _OutlineType) -> None:
    """Adds a list whose items are owned one by one: their number, the keys of each, and what is below it."""
    outline.append(len(items))
    keys, below = kind.keys, kind.items or kind.item()
    plans = below.plans
    for one in items:
        if keys and one.__class__ is dict:
            for name in keys:
                value = one[name] if name in one else kind.defaults.get(name)
                class_ = value.__class__
                if class_ is not str and class_ is not int:
                    raise _Unusual
                outline.append(value)
            if below.is_atomic:
                continue
            plan = None if plans is None else plans.get(tuple(one))
            if plan is not None and plan.is_leaf and all(one.values()):
                outline.append(plan)  # as `_add_map`, without the call
            else:
                _add_map(outline, one, below)
        elif keys or one.__class__ is not str:
            raise _Unusual
        else:
            outline.append(one)


def compute_fields(tracked: dict[str, Any], shape: Shape, members: Members | None) -> dict[str, Any] | None:
    """As `new_object_fields`, without the outline."""
    written = tracked if members is None else _written(without_zeros(members, tracked), members, shape, is_always=True)
    node = all_fields(written, shape)
    node.pop(".", None)
    if members is not None:
        node = without_structs(members, node)
    fields = FieldSet(node) - NEVER_TRACKED
    return cast("dict[str, Any]", print_fields(fields)) if fields else None


def _written(value: Any, members: Members | None, shape: Shape, *, is_always: bool) -> Any:
    """A copy of the value without empty members that Go does not write, and with the null of absent lists.

    `is_always` is whether it is in an empty object, too: the writer does not own the lists that this one has as null.
    """
    if value.__class__ is list:
        return [_written(one, members, shape.item(), is_always=False) for one in value]
    if value.__class__ is not dict or members is None:
        return value
    omitted, below, present = members.omitted, members.below, members.present
    written = {
        name: _written(one, below[name], shape.member(name), is_always=is_always and name in present)
        for name, one in value.items()
        if one or name not in omitted
    }
    if not is_always:
        for name, zero in members.zeros:
            if name not in written and not (name in members.lists and is_granular(shape.member(name))):
                written[name] = zero
    return written
