"""What becomes of an object on its way into the store: everything between decoding and writing, without waiting.

A new object and a changed one go through the same stations: type and metadata, schema (prune, default), the rules of
the kind, validation, and the note of who owns which field. The trees are changed in place; `old` never is.

Which part of an object an endpoint may change: all but the status, only the status, or only its finalizers.

Who owns the fields of an object that is written by other means than apply, quickly for new objects.

Kubernetes notes in `metadata.managedFields` who wrote what. For a new object that is every field there is, so the
answer depends only on its outline: which members there are and how they nest. Objects that come in numbers look alike,
and the answer for an outline is worked out once.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry.metadata import check_changes, check_metadata, finalizer_warnings
from levelset.apiserver.registry.object_decoder import Decoded, admit, check_place, read_type
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import BadPatch, BadRequest, Cause
from levelset.objects.json_tree import is_list, is_map
from levelset.patch.field_paths import list_elements, path
from levelset.patch.field_sets import EMPTY, FieldSet, Node, in_order, print_fields
from levelset.patch.json_patch import alike
from levelset.patch.managed_fields import NEVER_TRACKED, same_object, track_update, without_managed
from levelset.patch.merge_schema import ANYTHING, Shape

__all__ = [
    "Settled",
    "admit_new",
    "begin_create",
    "finish_create",
    "is_kept",
    "isolate",
    "judge_new",
    "own_all_fields",
    "own_new",
    "reset_fields",
    "settle_status",
    "settle_update",
]

_STATUS: Final = FieldSet.of(path("status"))
_ALL_BUT_STATUS: Final = FieldSet.of(path("metadata"), path("spec"))
_STATUS_OF_BUILTIN: Final = FieldSet.of(path("metadata", "labels"), path("spec"))


def isolate(served: ServedResource, old: Tree, new: Tree, subresource: str) -> Tree:
    """The object that a write through this endpoint means: what is not its business stays as it was.

    What is taken over from `old` is shared with it.
    """
    match subresource:
        case "status" | "approval":
            return _only_status(served, old, new)
        case "finalize":
            given, kept = new.get("spec"), old.get("spec")
            finalizers: Any = given.get("finalizers") if is_map(given) else None
            spec: Tree = {**(kept if is_map(kept) else {}), "finalizers": finalizers or []}
            return {**old, "spec": spec, "metadata": _shared_metadata(old, new)}
        case _:
            if served.status:
                _take(old, new, "status")
            return new


def reset_fields(served: ServedResource, subresource: str) -> FieldSet:
    """The fields that this endpoint ignores: whoever applies them through it does not own them."""
    if subresource in ("status", "approval"):
        return _ALL_BUT_STATUS if served.custom else _STATUS_OF_BUILTIN
    return _STATUS if served.status else EMPTY


def _only_status(served: ServedResource, old: Tree, new: Tree) -> Tree:
    if served.custom:
        kept = {**old, "metadata": _shared_metadata(old, new)}
    else:
        # Through the status of a built-in kind everything in the metadata but the labels can be written.
        metadata = dict(new["metadata"])
        _take(old["metadata"], metadata, "labels")
        kept = {**old, "metadata": metadata}
    _take(new, kept, "status")
    return kept


def _shared_metadata(old: Tree, new: Tree) -> Tree:
    """The old metadata, with what the request says about the version that it is meant for."""
    metadata = dict(old["metadata"])
    for name in ("resourceVersion", "managedFields"):
        _take(new["metadata"], metadata, name)
    return metadata


def _take(source: Tree, target: Tree, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


# All is in one tuple, which is quick to make and to look up. A map is the number of its names, the names, the name and
# the outline of each member that is a container, and None as its end; one without such members is a tuple of its names
# further down. A list with keyed items is a tuple of its elements and of their outlines, None for each that is no
# container.
_Outline = tuple[Any, ...]
_CONTAINERS: Final = frozenset({dict, list})


def own_all_fields(served: ServedResource, tree: Tree, *, manager: str, now: str) -> None:
    """Notes in a new object that `manager` owns all of it; objects that bring their own managedFields are not for here.

    The tree in `fieldsV1` is shared between objects: nobody may change it.
    """
    outline: list[Any] = []
    _add_map(outline, tree, served.shape())
    fields = _owned(tuple(outline))
    if not fields:
        return
    entry: Tree = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": served.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    tree["metadata"]["managedFields"] = [entry]


def _add_map(outline: list[Any], tree: dict[str, Any], shape: Shape) -> None:
    outline.append(len(tree))
    outline += tree
    for name, value in tree.items():
        # By class: `isinstance` would cost more than all the rest, and JSON has no subclasses.
        kind = value.__class__
        if kind is str or kind not in _CONTAINERS or not value:
            continue
        below = shape.fields.get(name) or shape.items or ANYTHING  # as `shape.member`, without the call
        if kind is list:
            found = None if below.list_type == "atomic" else _list_outline(value, below)
            if found is not None:
                outline += (name, found)
        elif below.atomic:
            continue
        elif _CONTAINERS.isdisjoint(map(type, value.values())):
            outline.append(name)
            outline.append(tuple(value))
        else:
            outline.append(name)
            _add_map(outline, value, below)
    outline.append(None)


def _list_outline(items: list[Any], shape: Shape) -> _Outline | None:
    elements = list_elements(items, shape)
    if elements is None:
        return None
    below = shape.item()
    return tuple(elements), tuple([_item_outline(one, below) for one in items])


def _item_outline(item: Any, shape: Shape) -> _Outline | None:
    if not item or shape.atomic:
        return None
    if is_map(item):
        outline: list[Any] = []
        _add_map(outline, item, shape)
        return tuple(outline)
    if is_list(item) and shape.list_type != "atomic":
        return _list_outline(item, shape)
    return None


@lru_cache(maxsize=4096)
def _owned(outline: _Outline) -> dict[str, Any] | None:
    node = _node(outline)
    del node["."]
    fields = FieldSet(node) - NEVER_TRACKED
    return cast("dict[str, Any]", print_fields(fields)) if fields else None


def _node(outline: _Outline) -> Node:
    """The node of a field set that holds everything an outline shows."""
    first = outline[0]
    if isinstance(first, int):
        parts = iter(outline)
        return _map_node(next(parts), parts)
    if isinstance(first, str):
        return _map_node(len(outline), iter(outline))
    node: Node = {".": {}}
    for element, below in zip(*outline, strict=True):
        node[element] = {} if element in node or below is None else _node(below)
    return in_order(node)


def _map_node(size: int, parts: Iterator[Any]) -> Node:
    """The node of the map that comes next in an outline and has so many names; takes its parts out."""
    node: Node = {".": {}, **{f"f:{name}": {} for name in sorted(islice(parts, size))}}
    for name in parts:
        if name is None:
            break
        begin = next(parts)
        node[f"f:{name}"] = _map_node(begin, parts) if isinstance(begin, int) else _node(begin)
    return node


_WARNED: Final = frozenset({"finalizers", "ownerReferences"})
_NOT_CONTENT: Final = frozenset({"apiVersion", "kind", "metadata"})
_NOT_CONTENT_NOR_STATUS: Final = _NOT_CONTENT | {"status"}
# Kubernetes leaves these out when they are empty.
_EMPTY_IS_ABSENT: Final = ("data", "binaryData", "stringData", "subjects", "secrets", "imagePullSecrets")


class Settled(msgspec.Struct, frozen=True, gc=False):
    """An object as it is to be stored, and whether that differs from what is stored now."""

    tree: Tree
    changed: bool


def begin_create(served: ServedResource, namespace: str | None, tree: Tree, options: WriteOptions) -> Decoded:
    """Decodes a new object; raises BadRequest for what is none of its kind. What breaks rules is told later."""
    try:
        read_type(served, tree)
        dropped = meta.read_metadata(tree)
        check_place(tree, namespace)
        return admit_new(served, tree, options, dropped=dropped)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def admit_new(served: ServedResource, tree: Tree, options: WriteOptions, *, dropped: list[str]) -> Decoded:
    """The second half of `begin_create`, for an object of this type and place whose metadata was read."""
    if "resourceVersion" in tree["metadata"]:
        raise BadRequest("resourceVersion should not be set on objects to be created")
    decoded = admit(served, tree, options, dropped=dropped)
    if served.status and "status" in tree:
        del tree["status"]
        return Decoded([one for one in decoded.causes if not _is_status(one.field)], decoded.managed)
    return decoded


def finish_create(
    world: World,
    served: ServedResource,
    namespace: str | None,
    tree: Tree,
    decoded: Decoded,
    *,
    options: WriteOptions,
    applied: bool = False,
) -> None:
    """Makes the decoded tree the object to be stored; raises Invalid with everything that is wrong with it.

    With `applied` the tree comes from server-side apply, and its managedFields are right already.
    """
    own_new(world, served, namespace, tree, decoded, options=options, applied=applied)
    judge_new(world, served, tree, decoded.causes)


def own_new(
    world: World,
    served: ServedResource,
    namespace: str | None,
    tree: Tree,
    decoded: Decoded,
    *,
    options: WriteOptions,
    applied: bool = False,
) -> None:
    """The first half of `finish_create`: all that the client, and those who speak for the client, have a say in."""
    rules, metadata = served.rules, tree["metadata"]
    now = meta.stamp(world)
    place = namespace if served.namespaced else None
    try:
        meta.fill_new(metadata, namespace=place, uid=meta.new_uid(world.random), now=now, generation=rules.generation)
        if "finalizers" in metadata or len(metadata.get("ownerReferences", ())) > 1:
            _warn(served, metadata, None, options)
        if rules.default is not None:
            rules.default(tree)
        if not served.custom and not all(tree.values()):
            _drop_empty(tree)
        if decoded.managed is not None:
            tree["metadata"]["managedFields"] = decoded.managed
            if not applied:
                _own_given(world, served, tree, options)
        elif not applied:
            own_all_fields(served, tree, manager=options.manager, now=now)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def judge_new(world: World, served: ServedResource, tree: Tree, causes: list[Cause]) -> None:
    """The second half of `finish_create`: the server adds its own, which belongs to nobody, and judges the whole."""
    rules = served.rules
    try:
        if rules.prepare_create is not None:
            rules.prepare_create(tree)
        _judge(world, served, tree, None, causes + check_metadata(tree["metadata"], rules))
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def _own_given(world: World, served: ServedResource, tree: Tree, options: WriteOptions) -> None:
    """Notes who owns the fields of a new object that says something about that itself."""
    tracked = track_update(
        None, tree, manager=options.manager, shape=served.shape(), now=world.now(), api_version=served.api_version
    )
    tree["metadata"] = tracked.object["metadata"]


def settle_update(
    world: World, served: ServedResource, old: Tree, new: Tree, options: WriteOptions, *, applied: bool = False
) -> Settled:
    """Makes `new`, decoded for this write, the successor of `old`; raises BadRequest, Conflict or Invalid.

    With `applied` the new tree comes from server-side apply, and its managedFields are right already. A write about
    which others are asked first (`options.asking`) is not judged here: it comes back after they have changed it.
    """
    try:
        return _settle(world, served, old, new, options=options, applied=applied)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def settle_status(world: World, served: ServedResource, old: Tree, new: Tree, options: WriteOptions) -> Settled:
    """As `settle_update`, for a new tree of a custom kind that differs from the old one in its status at most.

    `new` may share all but its top and its status with `old`. Its type, its place and its metadata are those of an
    object that went through all of this when it was stored: nothing of that is read, inherited, isolated or checked
    again.
    """
    before = old["metadata"]
    metadata = new["metadata"] = before.copy()
    try:
        decoded = admit(served, new, options, dropped=[], old=old)
        if not _WARNED.isdisjoint(metadata):
            _warn(served, metadata, before, options)
        if served.rules.generation and _content_differs(served, old, new):
            metadata["generation"] = before.get("generation", 0) + 1
        if options.asking is None:
            _judge(world, served, new, old, decoded.causes)
        if decoded.managed is not None:
            metadata["managedFields"] = decoded.managed
        return _tracked(world, served, old, new, options)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def _settle(
    world: World, served: ServedResource, old: Tree, new: Tree, *, options: WriteOptions, applied: bool
) -> Settled:
    before = old["metadata"]
    read_type(served, new)
    dropped = meta.read_metadata(new)
    check_place(new, before.get("namespace"), before["name"])
    managed = new["metadata"].get("managedFields")
    new = isolate(served, old, new, options.subresource)
    meta.inherit(new["metadata"], before)
    decoded = admit(served, new, options, dropped=dropped, old=old)
    metadata = new["metadata"]
    _prepare(served, new, old, options.subresource)
    if not _WARNED.isdisjoint(metadata):
        _warn(served, metadata, before, options)
    if served.rules.generation and _content_differs(served, old, new):
        metadata["generation"] = before.get("generation", 0) + 1
    if options.asking is None:
        causes = decoded.causes + check_changes(metadata, before) + check_metadata(metadata, served.rules, before)
        _judge(world, served, new, old, causes)
    if not served.custom:
        _drop_empty(new)
    if managed is not None:
        metadata["managedFields"] = managed
    return _compared(old, new) if applied else _tracked(world, served, old, new, options)


def is_kept(served: ServedResource, tree: Tree) -> bool:
    """Whether an object whose deletion has begun must stay for now."""
    metadata = tree["metadata"]
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return True
    return served.rules.held is not None and served.rules.held(tree)


def _prepare(served: ServedResource, new: Tree, old: Tree, subresource: str) -> None:
    rules, hook = served.rules, None
    if not subresource:
        if rules.default is not None:
            rules.default(new)
        hook = rules.prepare_update
    elif subresource == "status":
        hook = rules.prepare_status
    # Other subresources, such as the finalizers of a namespace, change just what they are there for.
    if hook is not None:
        hook(new, old)


def _judge(world: World, served: ServedResource, new: Tree, old: Tree | None, causes: list[Cause]) -> None:
    if served.rules.validate is not None:
        causes += served.rules.validate(new, old)
    if served.rules.expressions is not None:
        causes += served.rules.expressions(new, old, causes)
    if world.validators:
        for validator in world.validators.get((served.group, served.kind), ()):
            causes += validator(new, old)
    if causes:
        raise status_errors.invalid(served, new["metadata"].get("name", ""), causes)


def _warn(served: ServedResource, metadata: Tree, old: Tree | None, options: WriteOptions) -> None:
    if "ownerReferences" in metadata and len(metadata["ownerReferences"]) > 1:
        twice = meta.merge_duplicate_owners(metadata)
        if twice:
            text = ".metadata.ownerReferences contains duplicate entries, only the first of each is kept"
            options.warnings.append(f"{text}; duplicate UID(s): {', '.join(twice)}")
    if "finalizers" in metadata and served.custom:
        options.warnings.extend(finalizer_warnings(metadata, old))


def _drop_empty(tree: Tree) -> None:
    if all(tree.values()):
        return
    for name in _EMPTY_IS_ABSENT:
        if name in tree and not tree[name]:
            del tree[name]


def _content_differs(served: ServedResource, old: Tree, new: Tree) -> bool:
    """Whether something changed that counts as a new generation: all but metadata, and status if it is apart."""
    apart = _NOT_CONTENT if served.custom and not served.status else _NOT_CONTENT_NOR_STATUS
    for name in (old.keys() | new.keys()) - apart:  # noqa: SIM110 - a generator takes longer than most of its answers
        if not alike(old.get(name), new.get(name)):
            return True
    return False


def _tracked(world: World, served: ServedResource, old: Tree, new: Tree, options: WriteOptions) -> Settled:
    if "managedFields" not in old["metadata"] and "managedFields" not in new["metadata"]:
        is_same = same_object(old, new)  # what nobody tracks stays so
        return Settled(old if is_same else new, changed=not is_same)
    try:
        tracked = track_update(
            old,
            new,
            manager=options.manager,
            shape=served.shape(),
            now=world.now(),
            api_version=served.api_version,
            subresource=options.subresource or None,
        )
    except BadPatch as error:
        raise Undecodable(str(error)) from error
    return Settled(tracked.object, tracked.changed)


def _compared(old: Tree, new: Tree) -> Settled:
    """Whether an apply changed anything but the times at which fields were last applied."""
    if not same_object(without_managed(old), without_managed(new)):
        return Settled(new, changed=True)
    same = alike(_timeless(old), _timeless(new))
    return Settled(old if same else new, changed=not same)


def _timeless(tree: Tree) -> Any:
    entries: list[Tree] = tree["metadata"].get("managedFields") or []
    return [{name: value for name, value in one.items() if name != "time"} for one in entries]


def _is_status(field: str) -> bool:
    return field == "status" or field.startswith(("status.", "status["))
