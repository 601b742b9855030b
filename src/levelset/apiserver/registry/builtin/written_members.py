"""How Go writes the objects of built-in kinds: members that it leaves out when they are empty, and those always there.

kube-apiserver decodes an object into Go structs and stores what they encode to. So an optional member that is no
pointer disappears when it is `""`, `0`, `false`, `[]` or `{}`, and a member that is a struct is always there: no
manager owns its existence, only what is in it. Which members these are is data (`data/omitted.json`,
written by `scripts/generate_omitted.py`).
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from levelset.apiserver.registry.builtin.pods import KnownOutlines, pod_outline
from levelset.apiserver.resources.served_resource import Dropped, ServedResource
from levelset.apiserver.schema.builtin_schemas import COMPONENT, DATA, builtin_names, library
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.lazy_pattern import Pattern
from levelset.patch.field_sets import Node
from levelset.patch.merge_schema import Shape

__all__ = [
    "EmptyMap",
    "Members",
    "Removed",
    "component_members",
    "equal",
    "has_list_keys",
    "maps_in_atomic_lists",
    "may_need_narrowing",
    "narrow_integers",
    "omit_empty",
    "preload",
    "restore",
    "without_structs",
    "without_zeros",
    "write_members",
    "written_members",
]

_LONG_NUMBER: Final = Pattern(rb"[0-9]{10}")
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
_MAX_PLANS: Final = 256
_BITS: Final = {"int32": 32}
_NO_FIELDS: Final[Node] = {}
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"  # any JSON, which is no struct
_TIMES: Final = frozenset(f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in ("Time", "MicroTime"))
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
# Definitions are stored as JSON, which tells an empty list from an absent one; protobuf, as all others are, does not.
_STORED_AS_JSON: Final = "io.k8s.apiextensions-apiserver."
_POD_SPEC: Final = "io.k8s.api.core.v1.PodSpec"
_written_specs: Final = KnownOutlines()
"""The outlines of pod specs that are as Go writes them."""


_Plan = tuple[bool, tuple[tuple[str, "Members"], ...]]


class _Below(dict[str, "Members | None"]):
    """The members of the members of a type, compiled when they are first needed, because types are recursive."""

    __slots__ = ("_schemas", "_values")

    def __init__(self, schemas: Mapping[str, Any], values: "Members | None" = None) -> None:
        super().__init__()
        self._schemas, self._values = schemas, values

    def __missing__(self, name: str) -> "Members | None":
        schema = self._schemas.get(name)
        if schema is None:  # not kept: names that the type does not know, and keys of maps, may be many
            return self._values
        self[name] = found = _members_of(schema)
        return found


class Members:
    """The members of one type: those left out when they are empty, those always there, and the types of all of them.

    Those of a map have any name, and the same type, which is `values`.
    """

    __slots__ = (
        *("always", "below", "is_plain", "is_pod_spec", "is_struct", "leaves", "lists"),
        *("omitted", "plans", "pointers", "present", "zeros"),
    )

    def __init__(
        self,
        schemas: Mapping[str, Any],
        omitted: frozenset[str] = frozenset(),
        present: frozenset[str] = frozenset(),
        *,
        values: "Members | None" = None,
        has_empty_lists: bool = False,
        is_pod_spec: bool = False,
    ) -> None:
        self.omitted, self.present, self.is_pod_spec = omitted, present, is_pod_spec
        self.below = _Below(schemas, values)
        """The members of a member, or of its items if it is a list; None if it has none."""
        structs = {name for name, schema in schemas.items() if _type_name(schema)}
        self.is_struct = values is None
        """Whether the names of the members are those of the type, rather than free."""
        types = {name: schema.get("type") for name, schema in schemas.items() if is_map(schema)}
        self.leaves = frozenset(name for name, kind in types.items() if kind in _SCALARS)
        self.lists = frozenset(name for name, kind in types.items() if kind == "array")
        self.plans: dict[tuple[str, ...], _Plan] = {}
        self.zeros = tuple(_find_zeros(schemas, structs, present))
        """What Go writes for an absent member: null for a list, map, time or pointer, an empty struct, "", 0 or "0"."""
        self.pointers = frozenset(_find_pointers(schemas, structs, present))
        if has_empty_lists:
            self.pointers |= self.lists & present
        """Those of them that are null only if they are absent, and not if they are empty."""
        self.always = frozenset(name for name, _ in self.zeros)
        self.is_plain = not (structs or self.zeros) and values is None
        """Whether no member has members or is always there: then there is nothing to do but for an empty member."""


def _find_zeros(schemas: Mapping[str, Any], structs: set[str], present: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for name in sorted(present):
        schema = schemas.get(name, {})
        if schema.get("type") == "array" or "additionalProperties" in schema or _reference(schema) in _TIMES:
            yield name, None
        elif _reference(schema) == _QUANTITY:
            yield name, "0"
        elif (name in structs and schema.get("default") == {}) or schema.get("default") in ("", 0):
            yield name, schema["default"]
    for name in _find_pointers(schemas, structs, present):
        yield name, None


def _find_pointers(schemas: Mapping[str, Any], structs: set[str], present: frozenset[str]) -> Iterator[str]:
    for name in sorted(present):
        schema = schemas.get(name, {})
        if "default" not in schema and _reference(schema) not in _TIMES:
            is_struct = name in structs and _is_struct(schema)
            if is_struct or schema.get("type") in ("string", "integer"):
                yield name


def written_members(served: ServedResource) -> Members | None:
    """The members of a built-in kind; None for custom resources, which are stored as they are sent."""
    return None if served.custom else _builtin_members(served.api_version, served.kind)


@functools.cache
def _builtin_members(api_version: str, kind: str) -> Members | None:
    group, _, version = api_version.rpartition("/")
    name = builtin_names(group, version).get(kind)
    if name is None or "properties" not in library().get(name, {}):
        return None
    # The metadata of the object itself are read and written elsewhere.
    schemas = {one: schema for one, schema in library()[name]["properties"].items() if one != "metadata"}
    found = _struct(name, schemas)
    found.below["metadata"] = None
    return found


def component_members(name: str) -> Members | None:
    """The members of a component of built-in kinds, by its name."""
    return _members_of({"$ref": f"{COMPONENT}{name}"})


def preload() -> None:
    """Reads the data file, so that no request waits for the disk."""
    _table()


class EmptyMap(dict[str, Any]):
    """An empty map, which Go does not write: rules tell it from an empty struct behind a pointer, which it does."""


class Removed(list[Dropped]):
    """What `omit_empty` has removed; `is_written` is whether the rest is what Go writes already.

    `nulled` are empty lists and maps that are always there: only what is stored is read back as null.
    """

    is_written = True

    def __init__(self) -> None:
        super().__init__()
        self.nulled: list[Dropped] = []


def omit_empty(members: Members, tree: dict[str, Any]) -> Removed:
    """Removes what Go does not write, in place; returns the empty lists and maps, which rules tell from absent ones.

    The metadata are left to others.
    """
    removed = Removed()
    _walk(members, tree, removed)
    return removed


def write_members(members: Members, tree: dict[str, Any]) -> None:
    """Makes the tree what Go writes, in place: also adds absent lists and maps as null, and empty structs."""
    _walk(members, tree, None)


def restore(removed: list[Dropped]) -> None:
    """Puts back what was removed."""
    for owner, name, value in removed:
        owner[name] = value


def _walk(members: Members, tree: dict[str, Any], removed: Removed | None) -> bool:
    """Removes what is empty to `removed`; without it, adds what is always there: most writes need both.

    Returns whether there was nothing to do.
    """
    is_complete, nested = members.plans.get(tuple(tree)) or _plan(members, tree)
    is_written = is_complete
    if not is_complete:
        if removed is None:
            _add_zeros(members, tree)
            nested = _plan(members, tree)[1]
        else:
            removed.is_written = False
    if not all(tree.values()):
        is_written = _remove(members, tree, removed) and is_written
    for name, below in nested:
        value: Any = tree.get(name)
        # Compares classes, since JSON has no subclasses: `isinstance` would cost more than all the rest.
        if value.__class__ is dict:
            if below.is_pod_spec:
                is_written = _walk_pod_spec(below, value, removed) and is_written
            elif (value or below.zeros) and not (below.is_plain and all(value.values())):
                is_written = _walk(below, value, removed) and is_written
        elif value:
            is_plain = below.is_plain
            for one in value:
                if one.__class__ is dict and not (is_plain and all(one.values())):
                    is_written = _walk(below, one, removed) and is_written
    return is_written


def _walk_pod_spec(members: Members, spec: dict[str, Any], removed: Removed | None) -> bool:
    """As `_walk`, which has nothing to do for a spec with the outline of one for which it had nothing to do."""
    outline = pod_outline(spec)
    if outline in _written_specs:
        return True
    is_written = _walk(members, spec, removed)
    if is_written:
        _written_specs.add(outline)
    return is_written


def _plan(members: Members, tree: dict[str, Any]) -> "_Plan":
    """Whether a map with these names has all that is always there, and its members that have members.

    Objects of a type have few sets of names, so it is cached; not for maps whose names are free.
    """
    nested = tuple([(name, below) for name in tree if (below := members.below[name]) is not None])
    plan = (members.always <= tree.keys(), nested)
    if members.is_struct:
        if len(members.plans) >= _MAX_PLANS:
            members.plans.clear()
        members.plans[tuple(tree)] = plan
    return plan


def _add_zeros(members: Members, tree: dict[str, Any]) -> None:
    for name, zero in members.zeros:
        if name not in tree:
            tree[name] = {} if zero == {} else zero


def _remove(members: Members, tree: dict[str, Any], removed: Removed | None) -> bool:
    """Removes the empty members of one map; returns whether there are none, and no null that stands for one."""
    omitted, is_written = members.omitted, True
    for name in [one for one, value in tree.items() if not value and one in omitted]:
        is_written = False
        value: Any = tree.pop(name)
        if removed is not None:
            removed.is_written = False  # a map around it may be empty now
            if is_map(value) or is_list(value):
                removed.append((tree, name, EmptyMap() if is_map(value) else value))
    for name, zero in members.zeros:
        if zero is None and not tree.get(name) and name not in members.pointers:
            is_written = False
            if removed is None:
                tree[name] = None
            else:
                removed.is_written = False
                if name in tree:
                    removed.nulled.append((tree, name, tree[name]))
    return is_written


def without_zeros(members: Members, tree: dict[str, Any]) -> dict[str, Any]:
    """The object without members that are always there and are empty, which no manager owns; a copy if so."""
    changed: dict[str, Any] | None = None
    for name in members.present:
        if name not in tree or (name == "metadata" and members.below[name] is None):
            continue
        value = tree[name]
        rest = value
        if is_map(value) and value:
            below = members.below[name]
            rest = value if below is None else without_zeros(below, value)
            if below is not None and not any(rest.values()) and below.omitted.issuperset(rest):
                rest = {}
        if rest is not value or (not rest and rest != []):
            if changed is None:
                changed = dict(tree)
            if rest:
                changed[name] = rest
            else:
                del changed[name]
    return tree if changed is None else changed


def equal(one: Any, other: Any) -> bool:
    """Whether two values, as Go writes them, are equal: an absent list or map equals an empty one.

    What else is empty and there is behind a pointer, so it differs from what is absent.
    """
    if one == other:
        return True
    if one is None or other is None:
        return _is_empty(one if other is None else other)
    if one.__class__ is dict and other.__class__ is dict:
        return all(equal(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if one.__class__ is list and other.__class__ is list:
        return len(one) == len(other) and all(map(equal, one, other))
    return False


def _is_empty(value: Any) -> bool:
    return not value and value.__class__ in (list, EmptyMap)


def has_list_keys(tree: Any, shape: Shape, members: Members | None) -> bool:
    """Whether all items of keyed lists have their keys; those of a struct are there unless Go leaves them out."""
    if is_map(tree):
        return shape.atomic or all(
            has_list_keys(value, shape.member(name), members and members.below[name]) for name, value in tree.items()
        )
    if not is_list(tree) or shape.list_type == "atomic":
        return True
    omitted = None if members is None else members.omitted
    for item in tree:
        if shape.list_type == "map" and not _has_keys(item, shape, omitted):
            return False
        if not has_list_keys(item, shape.item(), members):
            return False
    return True


def maps_in_atomic_lists(tree: Any, shape: Shape, *, is_inside: bool = False) -> set[int]:
    """The ids of all maps inside lists that are replaced as a whole."""
    found: set[int] = set()
    if is_map(tree):
        found |= {id(tree)} if is_inside else set()
        for name, value in tree.items():
            found |= maps_in_atomic_lists(value, shape.member(name), is_inside=is_inside)
    elif is_list(tree):
        for item in tree:
            found |= maps_in_atomic_lists(item, shape.item(), is_inside=is_inside or shape.list_type == "atomic")
    return found


def _has_keys(item: Any, shape: Shape, omitted: frozenset[str] | None) -> bool:
    """Whether an item has one of its keys at least, or a default of one: the others may be absent, as upstream."""
    if not is_map(item):
        return False
    if not shape.keys or shape.defaults:
        return True
    if omitted is None:
        return any(key in item for key in shape.keys)
    return any(item.get(key) or key not in omitted for key in shape.keys)


def without_structs(members: Members, node: Node, former: Node = _NO_FIELDS) -> Node:
    """The fields that the writer of an object owns, without the existence of members that are always there.

    `former` are the fields that it has owned before, from which nothing is removed.
    """
    changed: Node = {}
    for name in members.present:
        child = node.get(f"f:{name}")
        if not child:
            continue
        below, before = members.below[name], former.get(f"f:{name}")
        rest = child if below is None else without_structs(below, child, before or _NO_FIELDS)
        was_owned = before is not None and (not before or "." in before)
        if "." in rest and len(rest) > 1 and not was_owned:
            rest = {element: one for element, one in rest.items() if element != "."}
        if rest is not child:
            changed[f"f:{name}"] = rest
    return {**node, **changed} if changed else node


def may_need_narrowing(body: bytes) -> bool:
    """Whether a body may have an integer of more than 32 bits: `narrow_integers` walks the whole object."""
    return _LONG_NUMBER.search(body) is not None


def narrow_integers(group: str, version: str, kind: str, tree: dict[str, Any]) -> None:
    """Keeps the low bits of integers of a built-in kind that have more than their fields, in place.

    Go does so when it converts an applied object, or one that a strategic merge patch was merged into. In an object
    that is decoded from JSON such a number is an error.
    """
    name = builtin_names(group, version).get(kind)
    if name is not None:
        _narrow(library()[name], tree)


def _narrow(schema: Any, tree: Any) -> None:
    if is_map(tree):
        members: Any = schema.get("properties", {})
        rest: Any = schema.get("additionalProperties")
        below: list[tuple[Any, Any]] = [(key, members.get(key, rest)) for key in tree]
    elif is_list(tree):
        below = [(index, schema.get("items")) for index in range(len(tree))]
    else:
        return
    for key, found in below:
        if not is_map(found):
            continue
        member, value = _resolved_schema(found), tree[key]
        bits = _BITS.get(member.get("format", ""))
        if bits is None:
            _narrow(member, value)
        elif value.__class__ is int and not -(1 << bits - 1) <= value < 1 << bits - 1:
            tree[key] = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _resolved_schema(schema: Any) -> Any:
    name = _reference(schema)
    return library()[name] if name else schema


def _members_of(schema: Any) -> Members | None:
    """The members of a struct, of the items of a list, or of the values of a map."""
    name = _type_name(schema)
    if not name:
        return None
    if not _is_struct(schema):
        if "items" in schema:
            return _members_of(schema["items"])
        return Members({}, values=_members_of(schema["additionalProperties"]))
    return _struct(name, library()[name]["properties"])


def _struct(name: str, schemas: Mapping[str, Any]) -> Members:
    omitted, present = _table().get(name, ((), ()))
    known = [one for one in present if _reference(schemas.get(one, {})) != _RAW]
    return Members(
        schemas,
        frozenset(omitted),
        frozenset(known),
        has_empty_lists=name.startswith(_STORED_AS_JSON),
        is_pod_spec=name == _POD_SPEC,
    )


def _reference(schema: Any) -> str:
    found = next((one["$ref"] for one in (schema, *schema.get("allOf", ())) if "$ref" in one), "")
    return str(found).removeprefix(COMPONENT)


def _is_struct(schema: Any) -> bool:
    return any("$ref" in one for one in (schema, *schema.get("allOf", ())))


def _type_name(schema: Any) -> str:
    """The name of the struct that a schema is about, or its items or values; empty if they are something else."""
    if not is_map(schema):
        return ""
    for one in (schema, *schema.get("allOf", ())):
        if "$ref" in one:
            name: str = one["$ref"].removeprefix(COMPONENT)
            return name if "properties" in library().get(name, {}) else ""
    return _type_name(schema["items"] if "items" in schema else schema.get("additionalProperties"))


@functools.cache
def _table() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    kind = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
    return msgspec.json.decode((DATA / "omitted.json").read_bytes(), type=kind)
