"""What becomes of an object on its way into the store: everything between decoding and writing, without waiting.

A new object and a changed one go through the same stations: type and metadata, schema (prune, default), the rules of
the kind, validation, and the note of who owns which field. The trees are changed in place; `old` never is.
"""

from typing import Any, Final

import msgspec

from levelset.apiserver import metadata as meta
from levelset.apiserver import ownership, refusals
from levelset.apiserver.decoding import Decoded, admit, check_place, read_type
from levelset.apiserver.isolation import isolate
from levelset.apiserver.metachecks import check_changes, check_metadata, finalizer_warnings
from levelset.apiserver.options import WriteOptions
from levelset.apiserver.refusals import Undecodable
from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree, World
from levelset.errors import BadPatch, BadRequest, Cause
from levelset.patch.alike import alike
from levelset.patch.tracking import same_object, track_update, without_managed

__all__ = [
    "Settled",
    "admit_new",
    "begin_create",
    "finish_create",
    "is_kept",
    "judge_new",
    "own_new",
    "settle_status",
    "settle_update",
]

_WARNED: Final = frozenset({"finalizers", "ownerReferences"})
_NOT_CONTENT: Final = frozenset({"apiVersion", "kind", "metadata"})
_NOT_CONTENT_NOR_STATUS: Final = _NOT_CONTENT | {"status"}
# Kubernetes leaves these out when they are empty.
_EMPTY_IS_ABSENT: Final = ("data", "binaryData", "stringData", "subjects", "secrets", "imagePullSecrets")


class Settled(msgspec.Struct, frozen=True, gc=False):
    """An object as it is to be stored, and whether that differs from what is stored now."""

    tree: Tree
    changed: bool


def begin_create(served: Served, namespace: str | None, tree: Tree, options: WriteOptions) -> Decoded:
    """Decodes a new object; raises BadRequest for what is none of its kind. What breaks rules is told later."""
    try:
        read_type(served, tree)
        dropped = meta.read_metadata(tree)
        check_place(tree, namespace)
        return admit_new(served, tree, options, dropped=dropped)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def admit_new(served: Served, tree: Tree, options: WriteOptions, *, dropped: list[str]) -> Decoded:
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
    served: Served,
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
    served: Served,
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
            ownership.own_new(served, tree, manager=options.manager, now=now)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def judge_new(world: World, served: Served, tree: Tree, causes: list[Cause]) -> None:
    """The second half of `finish_create`: the server adds its own, which belongs to nobody, and judges the whole."""
    rules = served.rules
    try:
        if rules.prepare_create is not None:
            rules.prepare_create(tree)
        _judge(world, served, tree, None, causes + check_metadata(tree["metadata"], rules))
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def _own_given(world: World, served: Served, tree: Tree, options: WriteOptions) -> None:
    """Notes who owns the fields of a new object that says something about that itself."""
    tracked = track_update(
        None, tree, manager=options.manager, shape=served.shape(), now=world.now(), api_version=served.api_version
    )
    tree["metadata"] = tracked.object["metadata"]


def settle_update(
    world: World, served: Served, old: Tree, new: Tree, options: WriteOptions, *, applied: bool = False
) -> Settled:
    """Makes `new`, decoded for this write, the successor of `old`; raises BadRequest, Conflict or Invalid.

    With `applied` the new tree comes from server-side apply, and its managedFields are right already. A write about
    which others are asked first (`options.asking`) is not judged here: it comes back after they have changed it.
    """
    try:
        return _settle(world, served, old, new, options=options, applied=applied)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def settle_status(world: World, served: Served, old: Tree, new: Tree, options: WriteOptions) -> Settled:
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


def _settle(world: World, served: Served, old: Tree, new: Tree, *, options: WriteOptions, applied: bool) -> Settled:
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


def is_kept(served: Served, tree: Tree) -> bool:
    """Whether an object whose deletion has begun must stay for now."""
    metadata = tree["metadata"]
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return True
    return served.rules.held is not None and served.rules.held(tree)


def _prepare(served: Served, new: Tree, old: Tree, subresource: str) -> None:
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


def _judge(world: World, served: Served, new: Tree, old: Tree | None, causes: list[Cause]) -> None:
    if served.rules.validate is not None:
        causes += served.rules.validate(new, old)
    if served.rules.expressions is not None:
        causes += served.rules.expressions(new, old, causes)
    if world.validators:
        for validator in world.validators.get((served.group, served.kind), ()):
            causes += validator(new, old)
    if causes:
        raise refusals.invalid(served, new["metadata"].get("name", ""), causes)


def _warn(served: Served, metadata: Tree, old: Tree | None, options: WriteOptions) -> None:
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


def _content_differs(served: Served, old: Tree, new: Tree) -> bool:
    """Whether something changed that counts as a new generation: all but metadata, and status if it is apart."""
    apart = _NOT_CONTENT if served.custom and not served.status else _NOT_CONTENT_NOR_STATUS
    for name in (old.keys() | new.keys()) - apart:  # noqa: SIM110 - a generator takes longer than most of its answers
        if not alike(old.get(name), new.get(name)):
            return True
    return False


def _tracked(world: World, served: Served, old: Tree, new: Tree, options: WriteOptions) -> Settled:
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
