"""Prepares objects for storage: everything between decoding a write and committing it, synchronously.

Creates and updates go through the same steps: type and metadata, schema (prune, default), the rules of the kind,
validation, and field ownership (`metadata.managedFields`). Trees are modified in place; `old` never is.

- `restrict_to_subresource` limits an update to the part of the object that its endpoint may change.
- `track_new_object` sets the managedFields of a new object (`field_outlines.py`).
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry.builtin import pods
from levelset.apiserver.registry.builtin.normal_forms import canonical
from levelset.apiserver.registry.builtin.written_members import (
    Members,
    Removed,
    has_list_keys,
    maps_in_atomic_lists,
    omit_empty,
    restore,
    without_structs,
    without_zeros,
    write_members,
    written_members,
)
from levelset.apiserver.registry.field_outlines import new_object_fields
from levelset.apiserver.registry.metadata import (
    check_common_metadata,
    check_metadata,
    check_updated_metadata,
    finalizer_warnings,
)
from levelset.apiserver.registry.object_decoder import (
    Check,
    DecodedObject,
    apply_schema,
    check_name_and_namespace,
    check_type,
    report_fields,
)
from levelset.apiserver.resources.served_resource import Dropped, Rules, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import ApiError, BadPatch, BadTime, Cause, Invalid
from levelset.objects.json_tree import copy_tree, is_list, is_map
from levelset.objects.lazy_pattern import Pattern
from levelset.patch.apply import overlay
from levelset.patch.field_paths import path
from levelset.patch.field_sets import EMPTY, FieldSet
from levelset.patch.json_patch import json_equal
from levelset.patch.managed_fields import (
    has_managers,
    managed_fields,
    same_object,
    track_update,
    trackable,
)

__all__ = [
    "PreparedUpdate",
    "accept_new",
    "apply_schema_to_new",
    "complete_new",
    "decode_ignored",
    "decode_new",
    "decode_replacement",
    "finish_first_apply",
    "ignored_fields",
    "must_stay",
    "prepare_status_update",
    "prepare_update",
    "restrict_to_subresource",
    "track_new_object",
    "trackable_content",
    "validate_new",
    "warn_of_owners",
    "write_review",
]

_ABOUT_STATUS: Final = Pattern(r'(?: in |")status(?:[.\["]|$)')
_UNKNOWN: Final = 'unknown field "'
_MEMBER_END: Final = re.compile(r'[."\[]')
_STATUS: Final = FieldSet.of(path("status"))
_ALL_BUT_STATUS: Final = FieldSet.of(path("metadata"), path("spec"))
_IGNORED_BY_STATUS: Final = {
    "metadata": _ALL_BUT_STATUS,
    "content": _ALL_BUT_STATUS,
    "labels": FieldSet.of(path("metadata", "labels"), path("spec")),
    "": FieldSet.of(path("spec")),
}
_OF_CONDITIONS: Final = FieldSet.of(path("status", "conditions"))
_OF_CERTIFICATE: Final = FieldSet.of(path("status", "certificate"))
_NOT_OF_PODS: Final = FieldSet.of(path("metadata", "deletionTimestamp"), path("metadata", "ownerReferences"))
_ALSO_IGNORED: Final = {
    ("", "Pod", "status"): _NOT_OF_PODS,
    ("certificates.k8s.io", "CertificateSigningRequest", "status"): _OF_CONDITIONS,
    ("certificates.k8s.io", "CertificateSigningRequest", "approval"): _OF_CERTIFICATE,
}
_OF_DELETION: Final = ("deletionTimestamp", "deletionGracePeriodSeconds")
_NOTHING: Final[Tree] = {}
_METADATA_CONTENT: Final = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")
_CUSTOM_MEMBERS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_NOT_CONTENT: Final = frozenset({"apiVersion", "kind", "metadata"})
_NOT_CONTENT_NOR_STATUS: Final = _NOT_CONTENT | {"status"}


class PreparedUpdate(msgspec.Struct, frozen=True, gc=False):
    """An object ready to be stored, and whether it differs from the stored one."""

    tree: Tree
    changed: bool


def decode_new(served: ServedResource, namespace: str | None, tree: Tree, options: WriteOptions) -> DecodedObject:
    """Decodes a new object; raises BadRequest if it is not of its kind. Violations are reported by `validate_new`."""
    try:
        try:
            _check_type(served, tree, options)
        except Invalid:
            check_name_and_namespace(tree, namespace)
            raise
        dropped = meta.read_metadata(tree)
        names, warned = tuple(tree) if dropped and not served.custom else (), len(options.warnings)
        decoded = apply_schema_to_new(served, tree, options, dropped=dropped)
        if names:
            _order_as_sent(options.warnings, warned, names)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None
    check_name_and_namespace(tree, namespace)
    return decoded


def _check_type(served: ServedResource, tree: Tree, options: WriteOptions, old: Tree | None = None) -> None:
    """As `check_type`; that a custom resource is of another type is found after its metadata are read, as upstream."""
    try:
        check_type(served, tree, options, old=old)
    except Invalid:
        _warn_of_metadata(served, tree, options)
        warn_of_owners(tree["metadata"], options)
        raise
    except Undecodable as error:
        given = tree.get("kind"), tree.get("apiVersion")
        if served.custom and given[0] and all(isinstance(one, str) for one in given):  # of another version, or of none
            _warn_of_metadata(served, tree, options)
            error.is_decoded = True
        raise


def _warn_of_metadata(served: ServedResource, tree: Tree, options: WriteOptions) -> None:
    dropped = meta.read_metadata(tree)
    if dropped:
        report_fields(served, dropped, options)


def decode_replacement(
    served: ServedResource, namespace: str | None, name: str, tree: Tree, options: WriteOptions
) -> None:
    """Decodes the object of an update that is refused anyway; raises BadRequest if it is not of its kind."""
    is_other = served.custom and isinstance(tree.get("kind"), str) and tree["kind"] not in ("", served.kind)
    if is_other:
        tree["kind"] = served.kind  # as upstream: another kind is a violation, which is found later
    try:
        _check_type(served, tree, options)
        dropped = meta.read_metadata(tree)
        if not is_other:
            apply_schema(served, tree, options, dropped=dropped)
        elif dropped:
            report_fields(served, dropped, options)
        check_name_and_namespace(tree, namespace, name)
        warn_of_owners(tree["metadata"], options)
        if is_other:
            return
        if served.rules.default is not None:
            served.rules.default(tree)  # which reads the times
    except BadTime as error:
        raise Undecodable(str(error)) from error
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def apply_schema_to_new(
    served: ServedResource, tree: Tree, options: WriteOptions, *, dropped: list[str], check: Check | None = None
) -> DecodedObject:
    """The second half of `decode_new`, for an object whose type, namespace and metadata were checked."""
    metadata = tree["metadata"]
    version = metadata.pop("resourceVersion") if "resourceVersion" in metadata else ""
    decoded = apply_schema(served, tree, options, dropped=dropped, check=check)
    if served.status and "status" in tree:
        decoded = _without_status(served, tree, decoded)
    return msgspec.structs.replace(decoded, version=version) if version else decoded


def _without_status(served: ServedResource, tree: Tree, decoded: DecodedObject) -> DecodedObject:
    """Takes the status out of a new object, unless its kind decides what remains of it."""
    is_tracked = decoded.is_tracked and _is_trackable(served, {"status": tree["status"]})
    causes = decoded.causes
    if not served.rules.status_on_create:
        del tree["status"]
        causes = [one for one in causes if not _is_status(one)]
    return DecodedObject(causes, decoded.managed_fields, is_tracked=is_tracked)


def accept_new(
    served: ServedResource, tree: Tree, decoded: DecodedObject, options: WriteOptions, *, is_applied: bool
) -> None:
    """Warns of what is in a new object that is valid; raises 500, as upstream, if it has a resourceVersion.

    One that is created by an update or an apply may have one, and a dry run, whose response has it: only the storage
    refuses it.
    """
    if served.rules.warnings is not None:
        options.warnings.extend(served.rules.warnings(tree, None))
    if served.custom:
        options.warnings.extend(finalizer_warnings(tree["metadata"]))
    if decoded.version and options.dry_run:
        tree["metadata"]["resourceVersion"] = decoded.version
    elif _is_revision(decoded.version) and not (is_applied or options.creates_on_update):
        raise ApiError("resourceVersion should not be set on objects to be created", code=500, reason="")


def _is_revision(version: str) -> bool:
    """Whether this is the resourceVersion of an object; upstream ignores "0" and what is not a number."""
    return version.isascii() and version.isdigit() and int(version[:20]) > 0


def complete_new(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    tree: Tree,
    decoded: DecodedObject,
    *,
    options: WriteOptions,
    is_applied: bool = False,
) -> None:
    """Completes a decoded new object: metadata, defaults and managedFields.

    With `is_applied` the tree comes from server-side apply, which has set its managedFields.
    """
    rules, metadata = served.rules, tree["metadata"]
    now = meta.write_timestamp(state)
    object_namespace = namespace if served.namespaced else None
    try:
        stays = is_applied or options.creates_on_update  # as upstream, which clears them for a POST only
        deletion = _deletion_metadata(metadata, options) if stays else _NOTHING
        meta.init_metadata(
            metadata, namespace=object_namespace, uid=meta.new_uid(state.random), now=now, generation=rules.generation
        )
        if deletion:
            metadata.update(deletion)
        if "ownerReferences" in metadata:
            warn_of_owners(metadata, options)
        if rules.default is not None:
            rules.default(tree)
        if rules.default_times is not None:
            rules.default_times(tree, now)
        if decoded.managed_fields is not None and (is_applied or has_managers(decoded.managed_fields)):
            tree["metadata"]["managedFields"] = decoded.managed_fields
            if not is_applied:
                _track_given_fields(state, served, tree, options)
        elif decoded.is_tracked and not is_applied:
            track_new_object(served, tree, manager=options.manager, now=now)
        if options.user is not None and rules.record_user is not None:
            rules.record_user(tree, options.user)
        if rules.admit_create is not None:
            rules.admit_create(tree)
    except BadTime as error:
        raise Undecodable(str(error)) from error
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def _deletion_metadata(metadata: Tree, options: WriteOptions) -> Tree:
    """What stays of the metadata of an object that is created by an apply or an update, as upstream."""
    names = (*_OF_DELETION, "selfLink") if options.dry_run else _OF_DELETION  # only the storage drops the link
    return {name: metadata[name] for name in names if name in metadata}


def validate_new(
    state: ServerState, served: ServedResource, tree: Tree, causes: list[Cause], options: WriteOptions
) -> None:
    """Sets the fields of the server, which no manager owns, and validates; raises Invalid with all violations.

    `causes` are those of the schema. Mutating admission runs before, on the completed object.
    """
    rules = served.rules
    try:
        if rules.early_warnings is not None:
            options.warnings.extend(rules.early_warnings(tree))
        if rules.drop_disabled is not None:
            rules.drop_disabled(tree)
        if rules.prepare_create is not None:
            rules.prepare_create(tree)
        metadata = tree["metadata"]
        _check_allocation(served, tree, None, dry_run=options.dry_run)
        _validate(state, served, tree, None, causes + check_metadata(metadata, rules))
        if "generateName" in metadata or not rules.metadata_checks.create:
            _raise_causes(served, tree, check_common_metadata(metadata, rules))
        members = None if served.custom else written_members(served)
        if members is not None:
            write_members(members, tree)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def write_review(served: ServedResource, tree: Tree) -> None:
    """Makes a review what Go writes, in place; no rule demands anything of its owners."""
    for owner in tree["metadata"].get("ownerReferences", ()):
        for name in ("apiVersion", "kind", "name", "uid"):
            owner.setdefault(name, "")
    members = written_members(served)
    if members is not None:
        write_members(members, tree)


def _track_given_fields(state: ServerState, served: ServedResource, tree: Tree, options: WriteOptions) -> None:
    """Sets the managedFields of a new object that came with managedFields of its own."""
    members = written_members(served)
    removed = omit_empty(members, tree) if members is not None else Removed()
    tracked = track_update(
        None,
        tree,
        manager=options.manager,
        shape=served.shape(),
        now=meta.write_timestamp(state),
        api_version=served.api_version,
        ignore=ignored_fields(served, "") if served.rules.unowned else EMPTY,
    )
    tree["metadata"] = tracked.object["metadata"]
    restore(removed)
    if members is not None:
        _disown_structs(members, managed_fields(tree) or (), {})


def prepare_update(
    state: ServerState,
    served: ServedResource,
    old: Tree,
    new: Tree,
    options: WriteOptions,
    *,
    applied: bool = False,
    check: Check | None = None,
) -> PreparedUpdate:
    """Prepares `new`, decoded for this write, to replace `old`; raises BadRequest, Conflict or Invalid.

    With `applied` the new tree comes from server-side apply, which has set its managedFields. A write with admission
    (`options.admission`) is not validated here: it is prepared again after mutating admission.
    """
    try:
        return _prepare_update(state, served, old, new, options=options, applied=applied, check=check)
    except BadTime as error:
        raise Undecodable(str(error)) from error
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def prepare_status_update(
    state: ServerState, served: ServedResource, old: Tree, new: Tree, options: WriteOptions
) -> PreparedUpdate:
    """As `prepare_update`, for a new tree of a custom kind that differs from the old one in its status at most.

    `new` may share all but its top level and its status with `old`. Its type, namespace and metadata are those of a
    stored object, so they are not checked again.
    """
    before = old["metadata"]
    metadata = new["metadata"] = before.copy()
    try:
        decoded = apply_schema(served, new, options, dropped=[], old=old)
        if "ownerReferences" in metadata:
            warn_of_owners(metadata, options)
        if served.rules.generation and _content_differs(served, old, new):
            metadata["generation"] = before.get("generation", 0) + 1
        if options.admission is None:
            _validate(state, served, new, old, _of_status_alone(decoded.causes))
        if decoded.managed_fields is not None:
            metadata["managedFields"] = decoded.managed_fields
        return _track_update(state, served, old, new, options)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None


def _prepare_update(
    state: ServerState,
    served: ServedResource,
    old: Tree,
    new: Tree,
    *,
    options: WriteOptions,
    applied: bool,
    check: Check | None,
) -> PreparedUpdate:
    before = old["metadata"]
    # As upstream: an apply that changes nothing sets no defaults, which those of another version may be.
    is_noop = applied and served.custom and served.version != served.storage_version and same_object(old, new)
    is_other = _check_type_of_update(served, new, options, old)
    dropped = meta.read_metadata(new)
    given: Tree = {"metadata": new["metadata"].copy()}
    given_fields = new["metadata"].get("managedFields")
    if served.custom and not given_fields:
        given_fields = None  # as in `apply_schema`
    sent_names, warned = tuple(new), len(options.warnings)
    is_tracked = applied or decode_ignored(served, old, new, options)
    requested = None if applied or not options.subresource else _requested(served, old, new, options)
    new = _restricted(served, old, new, options)
    sent = [copy_tree(_value_at(new, one)) for one in served.rules.quantity_lists]
    decoded = apply_schema(served, new, options, dropped=dropped, old=old, check=check)
    _order_as_sent(options.warnings, warned, sent_names if not served.custom else ("metadata", *sorted(sent_names)))
    check_name_and_namespace(given, before.get("namespace"), before["name"])
    is_tracked = is_tracked and decoded.is_tracked and not is_other
    metadata, rules = new["metadata"], served.rules
    warn_of_owners(given["metadata"], options)  # also if this endpoint ignores them
    meta.merge_duplicate_owners(metadata)
    _complete(state, served, new, old, options.subresource)
    if given_fields is not None:
        metadata["managedFields"] = given_fields
    tracked = None
    if requested is not None:
        ignored = ignored_fields(served, options.subresource)
        tracked = _track_update(state, served, old, requested, options, ignore=ignored)
    elif is_tracked and not applied:  # before the rules of the kind set what no manager owns, as upstream
        tracked = _track_written(state, served, old, _with_deletion_sent(old, new, given), options, sent=sent)
    members = written_members(served)
    has_disabled = rules.increments_by_disabled and _content_differs(served, old, _written(members, new))
    _apply_rules(rules, new, old, options.subresource, members if applied else None)
    removed = omit_empty(members, new) if members is not None else Removed()
    is_changed = has_disabled or (rules.increments_by_memory and bool(removed))
    if rules.generation and rules.increments and not is_noop:
        by = () if options.subresource else rules.increments_by
        if is_changed or _content_differs(served, old, new) or _differ(by, before, metadata):
            metadata["generation"] = before.get("generation", 0) + 1
    _write_rest(members, new, removed)
    if options.admission is None:
        with _empty_members(members, new, removed):
            _validate_update(state, served, new, old, decoded.causes, options=options)
    _restore_unstored(served, new, removed)
    if not is_tracked:
        metadata.pop("managedFields", None)
        return PreparedUpdate(new, changed=True)
    if tracked is None:
        return _compare_applied(old, new)
    return _with_owners(served, old, new, tracked)


def _check_type_of_update(served: ServedResource, new: Tree, options: WriteOptions, old: Tree) -> bool:
    """As `_check_type`; the status of a custom resource may come with another kind: returns whether it does.

    As upstream, which takes nothing but the status of what is sent, and tracks no other kind.
    """
    kind = new.get("kind")
    is_status = served.custom and options.subresource == "status" and isinstance(kind, str) and kind != ""
    if is_status:
        new["kind"] = served.kind
    _check_type(served, new, options, old)
    return is_status and kind != served.kind


def _with_deletion_sent(old: Tree, new: Tree, given: Tree) -> Tree:
    """The object with the time of its deletion as it was sent, if that is another one, or has an owner.

    As upstream, which sets it only after it has found the owners.
    """
    sent, metadata = given["metadata"].get("deletionTimestamp"), new["metadata"]
    known = metadata.get("deletionTimestamp")
    if sent == known or (sent is None and "f:deletionTimestamp" not in str(old["metadata"].get("managedFields"))):
        return new
    rest = {name: value for name, value in metadata.items() if name != "deletionTimestamp"}
    return {**new, "metadata": rest if sent is None else {**rest, "deletionTimestamp": sent}}


def _order_as_sent(warnings: list[str], start: int, names: tuple[str, ...]) -> None:
    """Sorts warnings about unknown fields by the members around them, which have this order, in place.

    That is the order in which they were sent. What an endpoint ignores is decoded before the rest.
    """
    if len(warnings) < start + 2:
        return
    places = {name: place for place, name in reversed([*enumerate(names)])}
    unknown = [one for one in warnings[start:] if one.startswith(_UNKNOWN)]
    unknown.sort(key=lambda one: places.get(_MEMBER_END.split(one.removeprefix(_UNKNOWN), 1)[0], -1))
    ordered = iter(unknown)
    warnings[start:] = [next(ordered) if one.startswith(_UNKNOWN) else one for one in warnings[start:]]


def _restore_unstored(served: ServedResource, new: Tree, removed: Removed) -> None:
    """Puts back empty lists and maps of an object that the update removes: its response is not what was stored."""
    if removed.nulled and meta.is_deleting(new) and not must_stay(served, new):
        restore(removed.nulled)


@contextmanager
def _empty_members(members: Members | None, new: Tree, removed: Removed) -> Generator[None]:
    """Puts the empty members back that Go does not write, for rules to which they are not absent ones."""
    restore([*removed, *removed.nulled])
    yield
    _take_out(removed)
    _write_rest(members, new, removed)


def _write_rest(members: Members | None, new: Tree, removed: Removed) -> None:
    if members is not None and not removed.is_written:
        write_members(members, new)


def _restricted(served: ServedResource, old: Tree, new: Tree, options: WriteOptions) -> Tree:
    """The object of an update as `restrict_to_subresource` leaves it, with the metadata that it inherits."""
    if served.rules.complete_sent is not None and options.subresource == "status":
        served.rules.complete_sent(new)
    new = restrict_to_subresource(served, old, new, options.subresource)
    if not served.namespaced:
        new["metadata"].pop("namespace", None)
    meta.inherit_metadata(new["metadata"], old["metadata"], is_stored=not options.dry_run)
    return new


def _written(members: Members | None, new: Tree) -> Tree:
    """A copy of an object as Go writes it."""
    written = cast("Tree", copy_tree(new))
    if members is not None:
        write_members(members, written)
    return written


def _track_written(
    state: ServerState, served: ServedResource, old: Tree, new: Tree, options: WriteOptions, *, sent: list[Any]
) -> PreparedUpdate:
    """The update with its managedFields, in the form in which Go writes it; `new` is left as it is.

    `sent` are the lists with quantities, as they were sent.
    """
    members = written_members(served)
    removed = omit_empty(members, new) if members is not None else Removed()
    if members is not None and not removed.is_written:
        write_members(members, new)
        restore(removed.nulled)
    if removed:  # Go compares whole lists by their memory, in which an empty list or map differs from an absent one
        replaced = maps_in_atomic_lists(new, served.shape())
        restore([one for one in removed if id(one[0]) in replaced])
    written = new
    for place, one in zip(served.rules.quantity_lists, sent, strict=True):
        written = _with_texts(written, place.split("."), one)
    tracked = _track_update(state, served, old, written, options, ignore=ignored_fields(served, options.subresource))
    restore(removed)
    return tracked


def _value_at(tree: Any, place: str) -> Any:
    for name in place.split("."):
        tree = tree.get(name) if is_map(tree) else None
    return tree


def _with_texts(tree: Any, names: list[str], sent: Any) -> Any:
    """The tree with quantities at a place below it as they were sent; a copy of what is changed."""
    if names:
        below = tree.get(names[0]) if is_map(tree) else None
        return tree if below is None else {**tree, names[0]: _with_texts(below, names[1:], sent)}
    if is_map(tree) and is_map(sent):
        return {name: _with_texts(value, [], sent.get(name)) for name, value in tree.items()}
    if is_list(tree) and is_list(sent) and len(tree) == len(sent):
        return [_with_texts(one, [], other) for one, other in zip(tree, sent, strict=True)]
    is_quantity = isinstance(tree, str) and isinstance(sent, str) and tree != sent and canonical(sent) == tree
    return sent if is_quantity else tree


def _requested(served: ServedResource, old: Tree, new: Tree, options: WriteOptions) -> Tree | None:
    """The object that was sent to a subresource, if more of it is tracked than the subresource writes, as upstream.

    That is a Pod, whose containers are, or what a custom resource has beside its spec and status.
    """
    schema, members, subresource = served.schema(), written_members(served), options.subresource
    if subresource == "status" and served.custom:
        if not any(old.get(name) != new.get(name) for name in (old.keys() | new.keys()) - _CUSTOM_MEMBERS):
            return None
    elif subresource not in ("ephemeralcontainers", "resize"):
        return None
    requested = cast("Tree", copy_tree(new))
    meta.inherit_metadata(requested["metadata"], old["metadata"])
    requested["metadata"].pop("managedFields", None)
    if served.custom and schema is not None:
        schema.admit(requested)
    elif not served.custom:
        apply_schema(served, requested, options, dropped=[])  # as upstream, which decodes all of it
    if served.rules.default is not None:
        served.rules.default(requested)
    if members is not None:
        omit_empty(members, requested)
        write_members(members, requested)
    return requested


def _with_owners(served: ServedResource, old: Tree, new: Tree, tracked: PreparedUpdate) -> PreparedUpdate:
    """The update with the managedFields that were tracked; the old object if it differs from it in their times only."""
    entries, metadata = managed_fields(tracked.tree), {**new["metadata"]}
    metadata.pop("managedFields", None)
    if entries is not None:
        metadata["managedFields"] = entries
    written = {**new, "metadata": metadata}
    if tracked.changed and served.custom:  # no rules have changed it since it was tracked
        return PreparedUpdate(written, changed=True)
    if not tracked.changed and same_object(old, new):
        return PreparedUpdate(old, changed=False)
    return _compare_applied(old, written)


def _validate_update(
    state: ServerState, served: ServedResource, new: Tree, old: Tree, causes: list[Cause], *, options: WriteOptions
) -> None:
    """Raises Invalid with all violations, of which `causes` are those of the schema; warns of what is valid."""
    rules, metadata, before = served.rules, new["metadata"], old["metadata"]
    if options.subresource == "status" and served.custom:
        causes = _of_status_alone(causes)
    if options.subresource in ("status", "approval") and not served.custom:
        # Upstream, the schema of a built-in kind decodes it: what a status must have is a rule of its kind.
        causes = [one for one in causes if one.reason != "FieldValueRequired"]
    is_part = options.subresource in ("status", "approval", "finalize")
    causes = causes + check_updated_metadata(metadata, before, rules, is_part=is_part)
    if not options.subresource:
        _check_allocation(served, new, old, dry_run=options.dry_run)
    _validate(state, served, new, old, causes, subresource=options.subresource)
    if rules.warnings is not None and not options.subresource:
        options.warnings.extend(rules.warnings(new, old))
    if served.custom and "finalizers" in metadata:
        options.warnings.extend(finalizer_warnings(metadata, before))


def _of_status_alone(causes: list[Cause]) -> list[Cause]:
    """As upstream, which validates a status that is sent alone without the name of the member."""
    return [
        msgspec.structs.replace(one, message=one.message.replace(": status in body", ":  in body"))
        if one.field == "status"
        else one
        for one in causes
    ]


def decode_ignored(served: ServedResource, old: Tree, new: Tree, options: WriteOptions) -> bool:
    """Decodes the parts of an update that its endpoint ignores, if they differ from the old object.

    As upstream, which decodes the whole object first: raises BadRequest, and warns. Returns whether the fields of the
    update can be tracked.
    """
    if options.subresource in ("status", "approval"):
        names = [name for name in new if name not in _NOT_CONTENT_NOR_STATUS]
    else:
        names = ["status"] if served.status and not options.subresource and "status" in new else []
        names += [one for one in served.rules.unowned if one in new and not options.subresource]
    ignored = {name: new[name] for name in names if new[name] != old.get(name)}
    if not ignored:
        return True
    apply_schema(served, {**ignored, "metadata": {}}, options, dropped=[])
    return _is_trackable(served, ignored)


def _is_trackable(served: ServedResource, part: Tree) -> bool:
    """Whether a part of an object has the types of its schema, and its lists the keys: else no field is tracked."""
    schema = served.schema() if served.custom else None
    if schema is not None and schema.first_mismatch(part) is not None:
        return False
    members = written_members(served)
    return has_list_keys(part, served.shape(), members)


def must_stay(served: ServedResource, tree: Tree) -> bool:
    """Whether an object that is being deleted must stay for now: finalizers, grace period, or the kind's own rule."""
    metadata = tree["metadata"]
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return True
    return served.rules.held is not None and served.rules.held(tree)


def _complete(state: ServerState, served: ServedResource, new: Tree, old: Tree, subresource: str) -> None:
    """Completes an update as decoding it does: with defaults, and what Go writes for members that are absent."""
    rules = served.rules
    if subresource:
        if rules.prepare_part is not None:
            rules.prepare_part(new, old, subresource, meta.write_timestamp(state))
        return
    if rules.default is not None:
        rules.default(new)
    if rules.default_times is not None:
        rules.default_times(new, meta.write_timestamp(state))
    if rules.complete_update is not None:
        rules.complete_update(new)


def _apply_rules(rules: Rules, new: Tree, old: Tree, subresource: str, unwritten: Members | None) -> None:
    """Applies the rules of the kind to an update; `unwritten` are the members of one that was not decoded by a schema.

    Numbers and texts of it that Go does not write are none for the rules, either.
    """
    if unwritten is not None and rules.prepare_update is not None:
        restore(omit_empty(unwritten, new))
    if subresource:
        if rules.preserve is not None:
            rules.preserve(new, old)
        return
    if rules.drop_disabled is not None:
        rules.drop_disabled(new)
    if rules.prepare_update is not None:
        rules.prepare_update(new, old)
    if rules.allocate_update is not None:
        rules.allocate_update(new, old)


def _take_out(members: list[Dropped]) -> None:
    """Removes what `restore` puts back."""
    for owner, name, _ in members:
        owner.pop(name, None)


def _check_allocation(served: ServedResource, new: Tree, old: Tree | None, *, dry_run: bool) -> None:
    check = served.rules.check_allocation
    if check is not None:
        _raise_causes(served, new, check(new, old, dry_run=dry_run))


def _validate(
    state: ServerState,
    served: ServedResource,
    new: Tree,
    old: Tree | None,
    causes: list[Cause],
    *,
    subresource: str = "",
) -> None:
    rules = served.rules
    if subresource and rules.validate_part is not None and old is not None:
        causes += rules.validate_part(new, old, subresource)
    elif rules.validate is not None:
        causes += rules.validate(new, old)
    if rules.expressions is not None:
        causes += rules.expressions(new, old, causes)
    if state.validators:
        for validator in state.validators.get((served.group, served.kind), ()):
            causes += validator(new, old)
    _raise_causes(served, new, causes)


def _raise_causes(served: ServedResource, tree: Tree, causes: list[Cause]) -> None:
    if causes:
        raise status_errors.invalid(served, tree["metadata"].get("name", ""), causes)


def warn_of_owners(metadata: Tree, options: WriteOptions) -> None:
    """Warns of owners that are named more than once, and removes what is repeated."""
    if len(metadata.get("ownerReferences", ())) > 1:
        twice = meta.merge_duplicate_owners(metadata)
        if twice:
            text = "API server dedups owner references in 1.20+, and may reject such requests as early as 1.24"
            words = f".metadata.ownerReferences contains duplicate entries; {text}; please fix your requests"
            options.warnings.append(f"{words}; duplicate UID(s) observed: {', '.join(twice)}")


def _differ(names: tuple[str, ...], before: Tree, after: Tree) -> bool:
    return any(before.get(name) != after.get(name) for name in names)


def _content_differs(served: ServedResource, old: Tree, new: Tree) -> bool:
    """Whether a field changed that increments the generation: all but metadata, and a separate status."""
    ignored = _NOT_CONTENT if served.custom and not served.status else _NOT_CONTENT_NOR_STATUS
    for name in (old.keys() | new.keys()) - ignored:
        before, after = old.get(name), new.get(name)
        if not json_equal(before, after) and (served.custom or before or after):
            return True
    return False


def _track_update(
    state: ServerState,
    served: ServedResource,
    old: Tree,
    new: Tree,
    options: WriteOptions,
    *,
    ignore: FieldSet = EMPTY,
) -> PreparedUpdate:
    if "managedFields" not in old["metadata"] and "managedFields" not in new["metadata"]:
        is_same = same_object(old, new)  # objects without managedFields are not tracked
        return PreparedUpdate(old if is_same else new, changed=not is_same)
    try:
        tracked = track_update(
            old,
            new,
            manager=options.manager,
            shape=served.shape(),
            now=meta.write_timestamp(state),
            api_version=served.api_version,
            subresource=options.subresource or None,
            ignore=ignore,
        )
    except BadPatch as error:
        raise Undecodable(str(error)) from error
    members = written_members(served)
    if tracked.changed and members is not None:
        _disown_structs(members, managed_fields(tracked.object) or (), old)
        entries: Any = managed_fields(tracked.object) or ()
        if not all(one["fieldsV1"] for one in entries):
            return _without_empty_owners(old, tracked.object)
    return PreparedUpdate(tracked.object, tracked.changed)


def _without_empty_owners(old: Tree, new: Tree) -> PreparedUpdate:
    """The object without entries that own nothing; the old one if only what Go fills into its status differs."""
    metadata = dict(new["metadata"])
    metadata["managedFields"] = [one for one in metadata["managedFields"] if one["fieldsV1"]]
    written = {**new, "metadata": metadata}
    same = json_equal(metadata["managedFields"], managed_fields(old))
    if same and same_object({**old, "status": None}, {**written, "status": None}):
        return PreparedUpdate(old, changed=False)
    return PreparedUpdate(written, changed=True)


def trackable_content(served: ServedResource, tree: Tree) -> Tree:
    """The object without what no manager owns: members that are always there, and are empty."""
    members = written_members(served)
    return tree if members is None else without_zeros(members, tree)


def _with_empty(live: Tree, merged: Tree) -> Tree:
    """The merged object with the empty maps of the live one."""
    found = {name: value for name, value in live.items() if value == {}} | merged
    for name, value in merged.items():
        former = live.get(name)
        if value.__class__ is dict and former.__class__ is dict:
            found[name] = _with_empty(cast("Tree", former), value)
    return found


def finish_first_apply(served: ServedResource, live: Tree, config: Tree, merged: Tree, *, manager: str) -> None:
    """Corrects the managedFields of an object without owners that was applied for the first time.

    Removes the existence of members that are always there, which no manager owns; and the time of an apply which has
    only added such members, which has changed nothing. What its endpoint ignores counts as a change, too.
    """
    members = written_members(served)
    if members is None:
        return
    entries: Any = managed_fields(merged) or ()
    _disown_structs(members, entries, {})
    if same_object(live, _with_empty(live, cast("Tree", overlay(live, config, served.shape())))):
        for entry in entries:
            if entry["operation"] == "Apply" and entry["manager"] == manager:
                entry.pop("time", None)


def _disown_structs(members: Members, entries: Any, old: Tree) -> None:
    """Removes the existence of members that are always there from what writers own; entries are of this write.

    A writer that owned the existence of one before, which was an empty list, still does.
    """
    former: Any = managed_fields(old) or () if old else ()
    known = {_writer(one): one["fieldsV1"] for one in former if is_map(one.get("fieldsV1"))}
    for entry in entries:
        if entry["operation"] == "Update":
            entry["fieldsV1"] = without_structs(members, entry["fieldsV1"], known.get(_writer(entry), _NOTHING))


def _writer(entry: Any) -> tuple[Any, ...]:
    return entry.get("manager"), entry.get("operation"), entry.get("apiVersion"), entry.get("subresource")


def _compare_applied(old: Tree, new: Tree) -> PreparedUpdate:
    """Whether an apply changed anything but the timestamps in managedFields."""
    if not same_object(old, new):
        return PreparedUpdate(new, changed=True)
    same = json_equal(_managed_fields_without_time(old), _managed_fields_without_time(new))
    return PreparedUpdate(old if same else new, changed=not same)


def _managed_fields_without_time(tree: Tree) -> Any:
    entries: list[Tree] = tree["metadata"].get("managedFields") or []
    return [{name: value for name, value in one.items() if name != "time"} for one in entries]


def _is_status(cause: Cause) -> bool:
    """Whether a cause is about the status; some are only in their text."""
    if cause.field == "<nil>":
        return _ABOUT_STATUS.search(cause.message) is not None
    return cause.field == "status" or cause.field.startswith(("status.", "status["))


def restrict_to_subresource(served: ServedResource, old: Tree, new: Tree, subresource: str) -> Tree:
    """The object of an update through this endpoint: what the endpoint does not cover stays as in `old`.

    What is taken over from `old` is shared with it.
    """
    match subresource:
        case "status":
            return _only_status(served, old, new)
        case "approval":
            given: Any = new.get("status")
            conditions: Tree = {"conditions": given["conditions"]} if is_map(given) and "conditions" in given else {}
            former: Tree = old.get("status") or {}
            rest = {name: value for name, value in former.items() if name != "conditions"}
            return {**old, "metadata": new["metadata"], "status": {**rest, **conditions}}
        case "ephemeralcontainers" | "resize" if is_map(new.get("spec", _NOTHING)):
            restrict = pods.with_ephemeral_containers if subresource == "ephemeralcontainers" else pods.with_resources
            given = new.get("spec", _NOTHING)
            spec = restrict(old["spec"], given)
            # That of a Pod with other containers, which is refused, is as it was sent. The schema drops nulls.
            status = copy_tree((new if spec is given else old).get("status") or {})
            return {**old, "metadata": _with_content_of(old, new), "spec": spec, "status": status}
        case _:
            if served.status:
                _copy_field(old, new, "status")
            return new


def ignored_fields(served: ServedResource, subresource: str) -> FieldSet:
    """The fields that this endpoint ignores: a manager that applies them through it does not own them."""
    if subresource in ("status", "approval"):
        ignored = _IGNORED_BY_STATUS[served.rules.preserved_by_status]
        return ignored | _ALSO_IGNORED.get((served.group, served.kind, subresource), EMPTY)
    if subresource in ("ephemeralcontainers", "resize"):
        return EMPTY  # as upstream, where only the strategy of these endpoints says what they reset, which is not read
    found = _STATUS if served.status else EMPTY
    unowned = served.rules.unowned
    return found | FieldSet.of(*map(path, unowned)) if unowned else found


def _only_status(served: ServedResource, old: Tree, new: Tree) -> Tree:
    if served.rules.preserved_by_status == "metadata":
        updated = {**old, "metadata": _shared_metadata(old, new)}
    else:
        # As in Kubernetes, the status endpoint of most built-in kinds can change their metadata.
        metadata = dict(new["metadata"])
        if served.rules.preserved_by_status == "labels":
            _copy_field(old["metadata"], metadata, "labels")
        elif served.rules.preserved_by_status == "content":
            metadata = _with_content_of(old, new)
        updated = {**old, "metadata": metadata}
    _copy_field(new, updated, "status")
    return updated


def _with_content_of(old: Tree, new: Tree) -> Tree:
    """The metadata of the request with what a client writes there of the old ones."""
    metadata = dict(new["metadata"])
    for name in _METADATA_CONTENT:
        _copy_field(old["metadata"], metadata, name)
    return metadata


def _shared_metadata(old: Tree, new: Tree) -> Tree:
    """The old metadata with the resourceVersion and managedFields of the request."""
    metadata = dict(old["metadata"])
    for name in ("resourceVersion", "managedFields"):
        _copy_field(new["metadata"], metadata, name)
    return metadata


def _copy_field(source: Tree, target: Tree, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def track_new_object(served: ServedResource, tree: Tree, *, manager: str, now: str) -> None:
    """Sets the managedFields of a new object: `manager` owns all of it. For objects without managedFields of their own.

    The tree in `fieldsV1` is shared between objects and must not be modified.
    """
    tracked = trackable(tree)
    members = None if served.custom else written_members(served)
    if members is not None:
        for name in (*served.rules.unowned, *(("status",) if served.status else ())):
            tracked.pop(name, None)
    fields = new_object_fields(tracked, served.shape(), members)
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
