"""Patches objects with JSON patch, merge patch, strategic merge patch or apply (`apply.py`).

The patch is decoded once, and applied again whenever another write was committed in between.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, cast

from msgspec.structs import replace

from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.builtin.written_members import may_need_narrowing, narrow_integers
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.schema import field_errors
from levelset.apiserver.verbs import apply
from levelset.apiserver.verbs.create_and_update import Change, WriteResult, guaranteed_update
from levelset.apiserver.verbs.get_and_list import get_item
from levelset.apiserver.verbs.subresources import scale
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import JSON, find_duplicates, read_text
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable, unsupported_media_type
from levelset.errors import ApiError, BadPatch, BadRequest, Conflict, Invalid, PatchFailed
from levelset.objects.json_tree import copy_tree, is_list, is_map
from levelset.patch import Shape, apply_merge, apply_operations, apply_strategic
from levelset.storage import Item

__all__ = ["APPLY_PATCH", "Patch", "check_media", "check_version", "patch", "read_patch"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
MAX_OPERATIONS: Final = 10_000
_CUSTOM_RESOURCE_TYPES: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
_BUILTIN_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

_STATUS_PATCH_MEMBERS: Final = frozenset({"metadata", "status"})
_EMPTY: Final[Tree] = {}

Patch = Callable[[Tree], Any]
"""Returns the patched tree; owns its argument, and the result may share parts of it."""


def patch(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    name: str,
    *,
    media: str,
    body: bytes,
    options: WriteOptions | None = None,
) -> Coroutine[Any, Any, WriteResult]:
    """Patches an object, its status or its scale; `media` is the media type of the patch.

    Raises NotFound (except that an apply creates), Conflict if the patch has a resourceVersion that is not the stored
    one, BadRequest for a malformed patch, Invalid if it cannot be applied or the result is invalid.
    """
    options = WriteOptions() if options is None else options
    check_media(served, media)
    if media == APPLY_PATCH:
        return apply.apply(state, served, namespace, name, body, options=options)
    _check_force(options)
    try:
        body_tree, options = _read(body, options)
        if options.subresource == "scale":
            change = read_patch(media, body_tree, None)
            return scale.patch_scale(state, served, namespace, name, change, options=options)
        is_narrowed = media == STRATEGIC_PATCH and may_need_narrowing(body)
        patched = _change(state, served, name, media, body_tree, options=options, is_narrowed=is_narrowed)
    except ApiError:
        get_item(state, served, namespace, name)  # that there is no such object comes first
        raise
    return guaranteed_update(state, served, namespace, name, patched, options=options)


def check_media(served: ServedResource, media: str) -> None:
    """Raises 415 for a type of patches that the kind does not take."""
    known = _CUSTOM_RESOURCE_TYPES if served.custom else _BUILTIN_TYPES
    if media not in known:
        raise unsupported_media_type(", ".join(known))


def _check_force(options: WriteOptions) -> None:
    if options.force is not None:
        cause = field_errors.forbidden("force", "may not be specified for non-apply patch")
        raise status_errors.invalid_options("PatchOptions", [cause])


def _read(body: bytes, options: WriteOptions) -> tuple[Any, WriteOptions]:
    """Decodes a patch other than apply; returns it and the options with its duplicate fields. Raises BadRequest."""
    body_tree = read_text(body, JSON)
    duplicates = find_duplicates(body, body_tree)
    return body_tree, replace(options, duplicates=duplicates) if duplicates else options


def _change(
    state: ServerState,
    served: ServedResource,
    name: str,
    media: str,
    body_tree: Any,
    *,
    options: WriteOptions,
    is_narrowed: bool,
) -> Change:
    """Returns the function that computes the update of an object from the patch.

    With `is_narrowed`, the numbers of a strategic merge patch may have more bits than their fields.
    """
    if media == MERGE_PATCH and _is_only_status(served, body_tree, options):
        return _status_change(state, served, name, body_tree, options)
    change = read_patch(media, body_tree, served.shape() if media == STRATEGIC_PATCH else None)

    def patched(old: Tree, item: Item) -> strategy.PreparedUpdate:
        new = change(served_tree(served, item))
        try:
            if media == STRATEGIC_PATCH:
                if not _is_named(new):
                    copied = cast("Tree", copy_tree(new))
                    strategy.decode_replacement(served, old["metadata"].get("namespace"), name, copied, options)
                    raise _unnamed(name)
                if is_narrowed:
                    new = cast("Tree", copy_tree(new))
                    narrow_integers(served.group, served.version, served.kind, new)
                _check_kind(served, name, old, new, options=options)
            check_version(served, name, new, old)
            return strategy.prepare_update(state, served, old, new, options)
        except Conflict:
            # As upstream, which decodes the object before it compares versions.
            strategy.decode_replacement(served, old["metadata"].get("namespace"), name, new, options)
            raise
        finally:
            if media == STRATEGIC_PATCH and options.warnings:
                _drop_keys(served, change(served_tree(served, item)), options.warnings)
            if len(options.warnings) > 1:
                _sort_unknown(options.warnings)

    def decoded(old: Tree, item: Item) -> strategy.PreparedUpdate:
        try:
            return patched(old, item)
        except Undecodable as error:
            options.warnings.clear()  # as upstream: they are about objects that can be decoded
            raise status_errors.invalid_patch(error.problem) from error

    return decoded


def _check_kind(served: ServedResource, name: str, old: Tree, new: Tree, *, options: WriteOptions) -> None:
    """Raises BadRequest if a strategic patch has made the object one of another kind.

    As upstream, which decodes it as it was before it checks the kind, so that other errors come first.
    """
    given = {word: new.get(word) for word in ("apiVersion", "kind")}
    if given == {"apiVersion": served.api_version, "kind": served.kind} or not all(
        isinstance(one, str) and one for one in given.values()
    ):
        return
    copied = cast("Tree", copy_tree(new)) | {"apiVersion": served.api_version, "kind": served.kind}
    strategy.decode_replacement(served, old["metadata"].get("namespace"), name, copied, options)
    raise BadRequest(f"{given['kind']} in version {given['apiVersion']} cannot be converted to a {served.kind}")


def _drop_keys(served: ServedResource, new: Any, warnings: list[str]) -> None:
    """Leaves the keys of maps out of the warnings about unknown fields, in place.

    As upstream, which does not decode the result of a strategic merge patch from JSON, but converts it.
    """
    schema, tree = served.schema(), cast("Tree", copy_tree(new))
    if schema is None:
        return
    paths = schema.prune(cast("Tree", copy_tree(new))), schema.prune(tree, has_keys=False)
    renamed = {f'unknown field "{one}"': f'unknown field "{other}"' for one, other in zip(*paths, strict=True)}
    warnings[:] = dict.fromkeys(renamed.get(one, one) for one in warnings)


def _sort_unknown(warnings: list[str]) -> None:
    """Sorts the warnings about unknown fields, in place: as upstream, which encodes the result of a patch."""
    places = [place for place, one in enumerate(warnings) if one.startswith("unknown field ")]
    for place, one in zip(places, sorted(warnings[place] for place in places), strict=True):
        warnings[place] = one


def _is_named(new: Any) -> bool:
    metadata: Any = new.get("metadata") if is_map(new) else None
    return is_map(metadata) and bool(metadata.get("name"))


def _unnamed(name: str) -> BadRequest:
    """400 for a patch that has removed the name of the object together with all of it."""
    return BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


def _status_change(
    state: ServerState, served: ServedResource, name: str, body_tree: Tree, options: WriteOptions
) -> Change:
    """As `_change`, for a merge patch of only the status: the rest of the tree is shared, not decoded again.

    The old status is copied, because the schema sets defaults in place, also in parts that the patch does not touch (if
    they were stored through a version without these defaults).
    """
    version = body_tree.get("metadata", _EMPTY).get("resourceVersion")
    status = {"status": body_tree["status"]} if "status" in body_tree else {}

    def patched(old: Tree, _item: Item) -> strategy.PreparedUpdate:
        old_status = old.get("status")
        new = _apply_merge_patch(status, old if old_status is None else {**old, "status": copy_tree(old_status)})
        if version and version != old["metadata"]["resourceVersion"]:
            raise status_errors.stale(served, name, version)
        try:
            return strategy.prepare_status_update(state, served, old, new, options)
        except Undecodable as error:
            options.warnings.clear()  # as upstream: they are about objects that can be decoded
            raise status_errors.invalid_patch(error.problem) from error

    return patched


def _is_only_status(served: ServedResource, body_tree: Any, options: WriteOptions) -> bool:
    """Whether a merge patch has only the status of a custom resource, and possibly its resourceVersion.

    False with admission or a `prepare_part` rule, which may modify the object in place, and with a conversion
    function, whose changes of the metadata have not been validated.
    """
    if options.subresource != "status" or not served.custom:
        return False
    if body_tree.__class__ is not dict or not _STATUS_PATCH_MEMBERS.issuperset(body_tree):
        return False
    if options.admission is not None or served.convert is not None or served.rules.prepare_part is not None:
        return False
    metadata = body_tree.get("metadata", _EMPTY)
    return metadata.__class__ is dict and (
        not metadata or (len(metadata) == 1 and metadata.get("resourceVersion").__class__ is str)
    )


def read_patch(media: str, body_tree: Any, shape: Shape | None) -> Patch:
    """Returns the function that applies a patch of this media type; raises BadRequest, or 413 if it is too long."""
    if media == JSON_PATCH:
        if not is_list(body_tree):
            raise BadRequest("a JSON patch must be a list of operations")
        if len(body_tree) > MAX_OPERATIONS:
            text = f"the JSON patch has {len(body_tree)} operations; the allowed maximum is {MAX_OPERATIONS}"
            raise ApiError(text, code=413, reason="RequestEntityTooLarge")
        return lambda tree: _apply_json_patch(tree, body_tree)
    if not isinstance(body_tree, dict):
        raise BadRequest("a merge patch must be an object")
    if media == STRATEGIC_PATCH and shape is not None:
        return lambda tree: _apply_strategic_patch(tree, body_tree, shape)
    return partial(_apply_merge_patch, body_tree)


def check_version(served: ServedResource, name: str, new: Any, old: Tree) -> None:
    """Raises Invalid if the patched tree is not an object, and Conflict if the patch set another resourceVersion."""
    if new.__class__ is not dict:
        raise status_errors.invalid_patch("the patch leaves no object")
    metadata = new.get("metadata")
    if metadata.__class__ is not dict:
        return
    version = metadata.get("resourceVersion")
    if version not in (None, "", old["metadata"]["resourceVersion"]):
        raise status_errors.stale(served, name, version)


def _apply_json_patch(tree: Tree, operations: Any) -> Any:
    try:
        return apply_operations(tree, operations, like_kubernetes=True)
    except BadPatch as error:
        if error.field is None:
            raise BadRequest(str(error)) from error
        raise Invalid(str(error)) from error
    except PatchFailed as error:
        raise Invalid(f"the server rejected our request due to an error in our request: {error}") from error


def _apply_merge_patch(body_tree: Any, tree: Tree) -> Any:
    try:
        return apply_merge(tree, body_tree, like_kubernetes=True)
    except BadPatch as error:
        raise BadRequest(str(error)) from error


def _apply_strategic_patch(tree: Tree, body_tree: Any, shape: Shape) -> Any:
    try:
        return apply_strategic(tree, body_tree, shape)
    except BadPatch as error:
        if any(one in str(error) for one in ("merge key", "$patch", "unable to find api field")):  # as upstream
            raise ApiError(str(error), code=500, reason="") from error
        raise BadRequest(str(error)) from error
    except PatchFailed as error:
        raise Invalid(str(error)) from error
