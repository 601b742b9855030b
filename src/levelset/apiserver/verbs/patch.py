"""Patching objects: the patch is read once, and laid over the object again whenever somebody else wrote meanwhile."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from levelset.apiserver.eager_coroutines import run_at_once
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.schema import field_errors
from levelset.apiserver.verbs import apply
from levelset.apiserver.verbs.create_and_update import Change, Written, rewrite, rewrite_nowait
from levelset.apiserver.verbs.subresources import scale
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import JSON, find_duplicates, read_text
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable, unsupported_media_type
from levelset.errors import ApiError, BadPatch, BadRequest, Invalid, PatchFailed
from levelset.objects.json_tree import copy_tree, is_list
from levelset.patch import Shape, apply_merge, apply_operations, apply_strategic
from levelset.storage import Item

__all__ = ["Patch", "check_version", "patch", "patch_nowait", "read_patch"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
MAX_OPERATIONS: Final = 10_000
_OF_CUSTOM: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
_OF_BUILTIN: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

_OF_STATUS: Final = frozenset({"metadata", "status"})
_NOTHING: Final[Tree] = {}

Patch = Callable[[Tree], Any]
"""Gives the patched tree; the tree that it gets is its own, the result may share parts of it."""


async def patch(
    world: World,
    served: ServedResource,
    namespace: str | None,
    name: str,
    *,
    media: str,
    body: bytes,
    options: WriteOptions | None = None,
) -> Written:
    """Patches an object, its status or its scale; `media` says which of the four kinds of patch the body is.

    Raises NotFound (except that an apply creates), Conflict if the patch names a version that is not the stored one,
    BadRequest for a patch that is none, Invalid for one that does not fit or leads to an invalid object.
    """
    options = WriteOptions() if options is None else options
    _check_media(served, media)
    if media == APPLY_PATCH:
        return await apply.apply(world, served, namespace, name, body, options=options)
    given, options = _read(body, options)
    if options.subresource == "scale":
        change = read_patch(media, given, None)
        return await scale.patch_scale(world, served, namespace, name, change, options=options)
    patched = _change(world, served, name, media, given, options=options)
    return await rewrite(world, served, namespace, name, patched, options=options)


def patch_nowait(
    world: World,
    served: ServedResource,
    namespace: str | None,
    name: str,
    *,
    media: str,
    body: bytes,
    options: WriteOptions,
) -> Written:
    """As `patch`, at once, on a storage that reads and writes so, where nobody else is asked first."""
    if media == APPLY_PATCH:
        return run_at_once(apply.apply(world, served, namespace, name, body, options=options))
    if options.subresource == "scale":
        return run_at_once(patch(world, served, namespace, name, media=media, body=body, options=options))
    _check_media(served, media)
    given, options = _read(body, options)
    patched = _change(world, served, name, media, given, options=options)
    return rewrite_nowait(world, served, namespace, name, patched, options=options)


def _read(body: bytes, options: WriteOptions) -> tuple[Any, WriteOptions]:
    """What a patch that is no apply says, and the options with the fields that it gives twice; raises BadRequest."""
    if options.force is not None:
        cause = field_errors.forbidden("force", "may not be specified for non-apply patch")
        raise status_errors.bad_options("PatchOptions", [cause])
    given = read_text(body, JSON)
    duplicates = find_duplicates(body, given)
    return given, replace(options, duplicates=duplicates) if duplicates else options


def _change(
    world: World, served: ServedResource, name: str, media: str, given: Any, *, options: WriteOptions
) -> Change:
    """What the patch makes of an object."""
    if media == MERGE_PATCH and _is_only_status(served, given, options):
        return _change_of_status(world, served, name, given, options)
    change = read_patch(media, given, served.shape() if media == STRATEGIC_PATCH else None)

    def patched(old: Tree, item: Item) -> strategy.Settled:
        new = change(served_tree(served, item))
        check_version(served, name, new, old)
        try:
            return strategy.settle_update(world, served, old, new, options)
        except Undecodable as error:
            raise status_errors.invalid_patch(error.message) from error

    return patched


def _change_of_status(world: World, served: ServedResource, name: str, given: Tree, options: WriteOptions) -> Change:
    """As `_change`, for a merge patch that has only a status in it.

    The new status is laid over the tree that is there, and shares nothing with the old one: a schema fills in its
    defaults in place, also in a part that the patch leaves alone, if it was stored through a version without them.
    """
    version = given.get("metadata", _NOTHING).get("resourceVersion")
    status = {"status": given["status"]} if "status" in given else {}

    def patched(old: Tree, _item: Item) -> strategy.Settled:
        held = old.get("status")
        new = _merged(status, old if held is None else {**old, "status": copy_tree(held)})
        if version and version != old["metadata"]["resourceVersion"]:
            raise status_errors.stale(served, name)
        try:
            return strategy.settle_status(world, served, old, new, options)
        except Undecodable as error:
            raise status_errors.invalid_patch(error.message) from error

    return patched


def _is_only_status(served: ServedResource, given: Any, options: WriteOptions) -> bool:
    """Whether a merge patch has nothing in it but the status of a custom resource, and the version it is meant for.

    Not if somebody is asked, or a rule has a say, who may change the object in place; nor if a function converts what
    is stored: what that makes of the metadata nobody has looked at.
    """
    if options.subresource != "status" or not served.custom:
        return False
    if given.__class__ is not dict or not _OF_STATUS.issuperset(given):
        return False
    if options.asking is not None or served.convert is not None or served.rules.prepare_status is not None:
        return False
    metadata = given.get("metadata", _NOTHING)
    return metadata.__class__ is dict and (
        not metadata or (len(metadata) == 1 and metadata.get("resourceVersion").__class__ is str)
    )


def read_patch(media: str, given: Any, shape: Shape | None) -> Patch:
    """The change that a patch of this media type makes; raises BadRequest or 413 for one that is none."""
    if media == JSON_PATCH:
        if not is_list(given):
            raise BadRequest("a JSON patch must be a list of operations")
        if len(given) > MAX_OPERATIONS:
            text = f"the JSON patch has {len(given)} operations; the allowed maximum is {MAX_OPERATIONS}"
            raise ApiError(text, code=413, reason="RequestEntityTooLarge")
        return lambda tree: _operated(tree, given)
    if not isinstance(given, dict):
        raise BadRequest("a merge patch must be an object")
    if media == STRATEGIC_PATCH and shape is not None:
        return lambda tree: _merged_by_shape(tree, given, shape)
    return partial(_merged, given)


def check_version(served: ServedResource, name: str, new: Any, old: Tree) -> None:
    """Makes sure that the patched tree is an object, and one of the version that the patch may have named."""
    if new.__class__ is not dict:
        raise status_errors.invalid_patch("the patch leaves no object")
    metadata = new.get("metadata")
    if metadata.__class__ is not dict:
        return
    version = metadata.get("resourceVersion")
    if version not in (None, "", old["metadata"]["resourceVersion"]):
        raise status_errors.stale(served, name)


def _check_media(served: ServedResource, media: str) -> None:
    known = _OF_CUSTOM if served.custom else _OF_BUILTIN
    if media not in known:
        raise unsupported_media_type(media, ", ".join(known))


def _operated(tree: Tree, operations: Any) -> Any:
    try:
        return apply_operations(tree, operations, like_kubernetes=True)
    except BadPatch as error:
        if error.field is None:
            raise BadRequest(str(error)) from error
        raise Invalid(str(error)) from error
    except PatchFailed as error:
        raise Invalid(f"the server rejected our request due to an error in our request: {error}") from error


def _merged(given: Any, tree: Tree) -> Any:
    try:
        return apply_merge(tree, given, like_kubernetes=True)
    except BadPatch as error:
        raise BadRequest(str(error)) from error


def _merged_by_shape(tree: Tree, given: Any, shape: Shape) -> Any:
    try:
        return apply_strategic(tree, given, shape)
    except BadPatch as error:
        raise BadRequest(str(error)) from error
    except PatchFailed as error:
        raise Invalid(str(error)) from error
