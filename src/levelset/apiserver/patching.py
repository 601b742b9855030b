"""Patching objects: the patch is read once, and laid over the object again whenever somebody else wrote meanwhile."""

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec.structs import replace

from levelset.apiserver import applying, refusals, scaling, strategy
from levelset.apiserver.negotiation import JSON, find_duplicates, read_text
from levelset.apiserver.objects import served_tree
from levelset.apiserver.options import WriteOptions
from levelset.apiserver.refusals import Undecodable
from levelset.apiserver.schemas import wording
from levelset.apiserver.served import Served
from levelset.apiserver.statuses import unsupported_media_type
from levelset.apiserver.world import Tree, World
from levelset.apiserver.writing import Written, rewrite
from levelset.errors import ApiError, BadPatch, BadRequest, Invalid, PatchFailed
from levelset.objects.trees import is_list
from levelset.patch import Shape, apply_merge, apply_operations, apply_strategic
from levelset.storage import Item

__all__ = ["Patch", "check_version", "patch", "read_patch"]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
MAX_OPERATIONS: Final = 10_000
_OF_CUSTOM: Final = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
_OF_BUILTIN: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

Patch = Callable[[Tree], Any]
"""Gives the patched tree; the tree that it gets is its own, the result may share parts of it."""


async def patch(
    world: World,
    served: Served,
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
        return await applying.apply(world, served, namespace, name, body, options=options)
    if options.force is not None:
        cause = wording.forbidden("force", "may not be specified for non-apply patch")
        raise refusals.bad_options("PatchOptions", [cause])
    given = read_text(body, JSON)
    duplicates = find_duplicates(body, given)
    settings = replace(options, duplicates=duplicates) if duplicates else options
    if options.subresource == "scale":
        change = read_patch(media, given, None)
        return await scaling.patch_scale(world, served, namespace, name, change, options=settings)
    change = read_patch(media, given, served.shape() if media == STRATEGIC_PATCH else None)

    def patched(old: Tree, item: Item) -> strategy.Settled:
        new = change(served_tree(served, item))
        check_version(served, name, new, old)
        try:
            return strategy.settle_update(world, served, old, new, settings)
        except Undecodable as error:
            raise refusals.invalid_patch(error.message) from error

    return await rewrite(world, served, namespace, name, patched, options=settings)


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
    return lambda tree: _merged(tree, given)


def check_version(served: Served, name: str, new: Any, old: Tree) -> None:
    """Makes sure that the patched tree is an object, and one of the version that the patch may have named."""
    if not isinstance(new, dict):
        raise refusals.invalid_patch("the patch leaves no object")
    metadata: Any = cast("Tree", new).get("metadata")
    if not isinstance(metadata, dict):
        return
    version: Any = cast("Tree", metadata).get("resourceVersion")
    if version not in (None, "", old["metadata"]["resourceVersion"]):
        raise refusals.stale(served, name)


def _check_media(served: Served, media: str) -> None:
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


def _merged(tree: Tree, given: Any) -> Any:
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
