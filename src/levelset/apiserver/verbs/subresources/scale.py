"""The `scale` subresource: an autoscaling/v1 Scale that shows and sets the desired number of replicas."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from msgspec.structs import replace

from levelset.apiserver.admission.chain import SubresourceView
from levelset.apiserver.printers.cell_values import selector as selector_text
from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ScalePaths, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.schema import field_errors
from levelset.apiserver.verbs.create_and_update import WriteResult, guaranteed_update
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import (
    ApiError,
    BadPatch,
    BadRequest,
    Conflict,
    Invalid,
    LevelsetError,
)
from levelset.objects import LabelSelector
from levelset.objects.json_tree import copy_tree, is_map
from levelset.patch import server_side_apply
from levelset.patch.field_paths import path
from levelset.patch.field_sets import FieldSet
from levelset.patch.managed_fields import (
    EntryKey,
    ManagedEntry,
    managed_fields,
    parse_managed,
    print_managed,
    track_update,
)
from levelset.patch.merge_schema import Shape, builtin_shape
from levelset.storage import Item

__all__ = [
    "API_VERSION",
    "KIND",
    "SCALE_VIEW",
    "apply_scale",
    "as_scale",
    "check_applied_scale",
    "get_scale",
    "owners_of_object",
    "owners_of_scale",
    "patch_scale",
    "update_scale",
]

GROUP: Final = "autoscaling"
API_VERSION: Final = "autoscaling/v1"
KIND: Final = "Scale"
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("kind", "apiVersion", "metadata"), ()),
    "spec": ("replicas",),
    "status": ("replicas", "selector"),
}
_SHARED: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def get_scale(served: ServedResource, tree: Tree) -> Tree:
    """Returns the Scale of an object."""
    paths = _paths(served)
    metadata = tree["metadata"]
    replicas = _get(tree, paths.spec)
    status: Tree = {"replicas": _number(_get(tree, paths.status)) or 0}
    selector = None if paths.selector is None else _selector(_get(tree, paths.selector))
    if selector:
        status["selector"] = selector
    return {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {name: metadata[name] for name in _SHARED if name in metadata},
        "spec": {"replicas": replicas} if _number(replicas) else {},
        "status": status,
    }


async def update_scale(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    name: str,
    tree: Tree,
    *,
    options: WriteOptions | None = None,
) -> WriteResult:
    """Sets the replicas of an object to those of a complete Scale; raises as `create_and_update.update` does."""
    if not _metadata(tree).get("name"):
        problem = f"the name of the object ({name} based on URL) was undeterminable"
        raise BadRequest(f"{problem}: name must be provided")
    _require_scale(namespace, name, tree)

    def replaced(old: Tree) -> Tree:
        scale = _require_scale(namespace, name, tree, options)
        _check_uid(served, namespace, name, old, scale)
        return scale

    return await _write_scale(state, served, namespace, name, replaced, options=options)


async def patch_scale(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    name: str,
    change: Callable[[Tree], Any],
    *,
    options: WriteOptions | None = None,
) -> WriteResult:
    """Sets the replicas of an object to those of the Scale that `change` returns for its current Scale."""

    def patched(old: Tree) -> Tree:
        try:
            scale = _require_scale(namespace, name, change(get_scale(served, old)), options)
        except Undecodable as error:
            raise status_errors.invalid_patch(error.problem) from error
        problem = _wrong_uid(old, scale)
        if problem is not None:
            raise _patch_conflict(served, name, problem)
        return scale

    return await _write_scale(state, served, namespace, name, patched, options=options)


async def _write_scale(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    name: str,
    change: Callable[[Tree], Tree],
    *,
    options: WriteOptions | None,
) -> WriteResult:
    """Sets the replicas to those of the Scale that `change` returns for the object."""
    options = replace(WriteOptions() if options is None else options, subresource="scale")

    def scaled(old: Tree, item: Item) -> strategy.PreparedUpdate:
        scale = change(old)
        if served.custom:  # upstream checks the replicas of a built-in kind first
            _check_version(served, name, old, scale)
        replicas = _replicas(served, name, scale)
        _check_version(served, name, old, scale)
        tracked = _track(state, _tracked_scale(served, old), replicas, options)
        return _prepare(state, served, old, item, scale=tracked, options=options)

    return as_scale(served, await guaranteed_update(state, served, namespace, name, scaled, options=options))


def _track(state: ServerState, scale: Tree, replicas: int, options: WriteOptions) -> Tree:
    """The Scale with other replicas, and with its owners after an update."""
    return track_update(
        scale,
        _scale_with(scale, replicas),
        manager=options.manager,
        shape=_shape(),
        now=meta.write_timestamp(state),
        api_version=API_VERSION,
        subresource="scale",
    ).object


def _check_version(served: ServedResource, name: str, old: Tree, scale: Tree) -> None:
    version = _metadata(scale).get("resourceVersion")
    if not version or version == old["metadata"]["resourceVersion"]:
        return
    raise status_errors.stale(served, name, version)


def _wrong_uid(old: Tree, scale: Tree) -> str | None:
    uid, known = _metadata(scale).get("uid"), old["metadata"].get("uid")
    if not uid or uid == known:
        return None
    return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {known}"


def _check_uid(served: ServedResource, namespace: str | None, name: str, old: Tree, scale: Tree) -> None:
    problem = _wrong_uid(old, scale)
    if problem is not None:
        raise status_errors.failed_precondition(served, namespace, name, problem)


def _patch_conflict(served: ServedResource, name: str, problem: str) -> Conflict:
    """409 of a patch, which upstream names after the resource with its subresource."""
    resource = f"{served.plural}/scale"
    named = f"{resource}.{served.group}" if served.group else resource
    details = status_errors.details_of(served, name, kind=resource)
    return Conflict(f'Operation cannot be fulfilled on {named} "{name}": {problem}', details=details)


def as_scale(served: ServedResource, written: WriteResult) -> WriteResult:
    """Returns the result of a write with the Scale in place of the object."""
    return WriteResult(get_scale(served, written.tree), None)


def check_applied_scale(namespace: str | None, name: str, scale: Tree) -> None:
    """Checks that this is a Scale that can be applied here; raises Undecodable, BadRequest, or BadPatch."""
    replicas = _get(scale, ".spec.replicas")
    if replicas is not None and _number(replicas) is None:
        raise BadPatch(f".spec.replicas: expected numeric (int or float), got {replicas!r}", field="spec.replicas")
    _require_scale(namespace, name, {**scale, "spec": {}})


def apply_scale(
    state: ServerState, served: ServedResource, old: Tree, item: Item, *, config: Tree, options: WriteOptions
) -> strategy.PreparedUpdate:
    """Merges an applied Scale into that of an object, and sets the replicas; raises ApplyConflict, Conflict, Invalid.

    Raises 500, as upstream, for a number that is none of replicas of a custom resource.
    """
    name = old["metadata"]["name"]
    scale = _tracked_scale(served, old)
    if served.custom and "managedFields" not in scale["metadata"]:
        raise _without_owner()
    merged = server_side_apply(
        scale,
        config,
        manager=options.manager,
        shape=_shape(),
        now=meta.write_timestamp(state),
        api_version=API_VERSION,
        force=options.force is True,
        subresource="scale",
    ).object
    replicas = _number(_get(merged, ".spec.replicas")) or 0
    low = (replicas + 2**31) % 2**32 - 2**31  # as upstream, which takes the low 32 bits
    if served.custom and (low != replicas or low < 0):
        raise ApiError(f"failed to convert new object ({name}) to proper version: .spec.replicas", code=500, reason="")
    _check_version(served, name, old, merged)
    scaled = _scale_with(merged, _replicas(served, name, _scale_with(merged, low)))
    return _prepare(state, served, old, item, scale=scaled, options=options)


def _without_owner() -> ApiError:
    """500, as upstream, which finds no first owner of a Scale of a custom resource."""
    live = f"failed to convert live object (/; {API_VERSION}, Kind={KIND}) to proper version"
    problem = f"request to convert CR to an invalid group/version: {API_VERSION}"
    return ApiError(f"failed to create manager for existing fields: {live}: {problem}", code=500, reason="")


def _prepare(
    state: ServerState, served: ServedResource, old: Tree, item: Item, *, scale: Tree, options: WriteOptions
) -> strategy.PreparedUpdate:
    """Prepares the object with the replicas and the owners of this Scale."""
    paths, new = _paths(served), served_tree(served, item)
    _set(new, paths.spec, _number(_get(scale, ".spec.replicas")) or 0)
    entries = owners_of_object(managed_fields(old), managed_fields(scale), paths.spec, served.api_version)
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)
    return strategy.prepare_update(state, served, old, new, options, applied=True)


def _tracked_scale(served: ServedResource, tree: Tree) -> Tree:
    """The Scale of an object with its managedFields, which no client sees."""
    scale = get_scale(served, tree)
    entries = owners_of_scale(managed_fields(tree), _paths(served).spec)
    return {**scale, "metadata": {**scale["metadata"], "managedFields": entries}} if entries else scale


def _scale_with(scale: Tree, replicas: int) -> Tree:
    return {**scale, "spec": {"replicas": replicas} if replicas else {}}


def _shape() -> Shape:
    shape = builtin_shape(GROUP, "v1", KIND)
    assert shape is not None
    return shape


def _with_replicas(served: ServedResource, tree: Tree, scale: Tree) -> Tree:
    """Returns the object with the replicas of this Scale."""
    changed = cast("Tree", copy_tree(tree))
    _set(changed, _paths(served).spec, _replicas(served, changed["metadata"]["name"], scale))
    return changed


SCALE_VIEW: Final = SubresourceView(get_scale, _with_replicas)
"""Shows admission plugins the object behind `scale` as a Scale."""


def _paths(served: ServedResource) -> ScalePaths:
    assert served.scale is not None  # only resources with a scale have this path
    return served.scale


def _require_scale(namespace: str | None, name: str, scale: Any, options: WriteOptions | None = None) -> Tree:
    """Returns the tree if it is the Scale of this path; raises Undecodable, or BadRequest for another name."""
    if not isinstance(scale, dict):
        raise Undecodable("the body must be a Scale, an object")
    tree = cast("Tree", scale)
    kind, version = tree.get("kind", KIND), tree.get("apiVersion", API_VERSION)
    if kind != KIND or version != API_VERSION:
        raise Undecodable(f"the body must be a {KIND} of {API_VERSION}, not {kind} {version}")
    _require_number(tree)
    _check_fields(tree, options)
    metadata = _metadata(tree)
    if metadata.get("name", name) != name:
        raise BadRequest(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    if namespace is not None and metadata.get("namespace", namespace) not in (namespace, ""):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    return tree


def _require_number(tree: Tree) -> None:
    replicas = _get(tree, ".spec.replicas")
    number = 0 if replicas is None else _number(replicas)
    if number is None or not -(2**31) <= number < 2**31:
        raise _undecodable(f"spec.replicas must be a whole number of 32 bits, not {replicas!r}")


def _check_fields(tree: Tree, options: WriteOptions | None) -> None:
    """Reports fields that a Scale does not have: an error or warnings, as the request says."""
    unknown = [name for name in tree if name not in _FIELDS]
    for part, names in _FIELDS.items():
        found = tree.get(part)
        if names and is_map(found):
            unknown += [f"{part}.{name}" for name in found if name not in names]
    problems = [f'unknown field "{name}"' for name in unknown]
    if options is None or not problems or options.validation == "Ignore":
        return
    if options.validation == "Strict":
        raise _undecodable(f"strict decoding error: {', '.join(problems)}")
    options.warnings.extend(one for one in problems if one not in options.warnings)


def _undecodable(problem: str) -> Undecodable:
    return Undecodable(f'{KIND} in version "v1" cannot be handled as a {KIND}: {problem}', problem=problem)


def _metadata(tree: Tree) -> Tree:
    found = tree.get("metadata")
    return cast("Tree", found) if isinstance(found, dict) else {}


def _replicas(served: ServedResource, name: str, scale: Tree) -> int:
    """Returns the replicas of a Scale; raises Invalid unless the resource is a custom one, which has a schema, too."""
    replicas = _number(_get(scale, ".spec.replicas")) or 0
    if replicas >= 0 or served.custom:
        return replicas
    cause = field_errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    text = f'{KIND}.{GROUP} "{name}" is invalid: {cause.field}: {cause.message}'
    raise Invalid(text, details={"name": name, "group": GROUP, "kind": KIND}, causes=[cause])


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _selector(value: Any) -> str | None:
    """Returns a selector as text: custom resources store text, built-in kinds a LabelSelector."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    labels = cast("dict[str, Any]", value)
    if labels and all(isinstance(one, str) for one in labels.values()):  # of a ReplicationController
        return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    try:
        known = LabelSelector.from_tree(cast("Any", value))
    except LevelsetError:
        return None
    return selector_text(value) if str(known) else ""  # with what is there twice, as upstream


def _get(tree: Any, path: str) -> Any:
    """The value at a path of member names, such as `.spec.replicas`; None if there is none."""
    for name in path[1:].split("."):
        if not is_map(tree):
            return None
        tree = tree.get(name)
    return tree


def _set(tree: Tree, path: str, value: int) -> None:
    *parents, last = path[1:].split(".")
    for name in parents:
        child = tree.get(name)
        if not isinstance(child, dict):
            child = tree[name] = {}
        tree = cast("Tree", child)
    tree[last] = value


_REPLICAS: Final = path("spec", "replicas")
_SCALE_FIELDS: Final = FieldSet.of(_REPLICAS)


# Who owns the replicas. As upstream, a write of a Scale is tracked as one of an object of autoscaling/v1 that only has
# the replicas. An applier is the same one there. An updater is identified by its version, too: what it owns of a Scale
# is a new entry of the object, which has no time, beside what is left of its entry.


def owners_of_scale(managed: Any, replicas_path: str) -> list[Any]:
    """The managedFields of the Scale of an object with these managedFields: the owners of its replicas."""
    at = _path(replicas_path)
    entries = [one for one in parse_managed(managed).values() if one.fields.has(at)]
    return print_managed(_by_key(replace(one, api_version=API_VERSION, fields=_SCALE_FIELDS) for one in entries))


def owners_of_object(managed: Any, scaled: Any, replicas_path: str, api_version: str) -> list[Any]:
    """The managedFields of an object that had these, after a write has left its Scale with the entries in `scaled`."""
    at = _path(replicas_path)
    mine = FieldSet.of(at)
    owners = {key: one for key, one in parse_managed(scaled).items() if one.fields.has(_REPLICAS)}
    found: dict[Any, ManagedEntry] = {}
    for key, entry in parse_managed(managed).items():
        if not entry.fields.has(at) or owners.pop(key, None) is not None:
            found[key] = entry
        elif rest := entry.fields - mine:
            found[key] = entry.owning(rest)
    for key, entry in owners.items():
        found[key] = replace(entry, api_version=api_version, fields=mine, time=None)
    return print_managed(found)


def _by_key(entries: Any) -> Mapping[EntryKey, ManagedEntry]:
    return {one.key: one for one in entries}


def _path(replicas_path: str) -> Any:
    return path(*replicas_path.removeprefix(".").split("."))
