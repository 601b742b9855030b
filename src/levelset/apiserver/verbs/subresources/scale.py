"""The `scale` subresource: an autoscaling/v1 Scale that shows and sets the desired number of replicas."""

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec.structs import replace

from levelset.apiserver.admission.chain import SubresourceView
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ScalePaths, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.schema import field_errors
from levelset.apiserver.verbs.create_and_update import WriteResult, guaranteed_update
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import BadRequest, LevelsetError
from levelset.objects import LabelSelector
from levelset.objects.json_tree import copy_tree, is_map
from levelset.storage import Item

__all__ = ["SCALE_VIEW", "as_scale", "get_scale", "object_from_scale", "patch_scale", "update_scale"]

API_VERSION: Final = "autoscaling/v1"
KIND: Final = "Scale"
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
    replicas = _get(tree, ".spec.replicas")
    number = 0 if replicas is None else _number(replicas)
    if number is None or not -(2**31) <= number < 2**31:
        raise BadRequest(f"spec.replicas must be a whole number of 32 bits, not {replicas!r}")
    return await patch_scale(state, served, namespace, name, lambda _: tree, options=options)


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
    options = replace(WriteOptions() if options is None else options, subresource="scale")

    def scaled(old: Tree, item: Item) -> strategy.PreparedUpdate:
        scale = _require_scale(name, change(get_scale(served, old)))
        version = _metadata(scale).get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise status_errors.stale(served, name)
        uid, known = _metadata(scale).get("uid"), old["metadata"].get("uid")
        if uid and uid != known:
            problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {known}"
            raise status_errors.failed_precondition(served, namespace, name, problem)
        new = served_tree(served, item)
        _set(new, _paths(served).spec, _replicas(served, name, scale))
        return strategy.prepare_update(state, served, old, new, options)

    return as_scale(served, await guaranteed_update(state, served, namespace, name, scaled, options=options))


def as_scale(served: ServedResource, written: WriteResult) -> WriteResult:
    """Returns the result of a write with the Scale in place of the object."""
    return WriteResult(get_scale(served, written.tree), None)


def object_from_scale(served: ServedResource, name: str, scale: Tree) -> Tree:
    """Returns the applied configuration that corresponds to an applied Scale: only the replicas."""
    given = _require_scale(name, scale)
    metadata = {word: value for word, value in _metadata(given).items() if word in ("name", "namespace")}
    tree: Tree = {"apiVersion": served.api_version, "kind": served.kind, "metadata": metadata}
    _set(tree, _paths(served).spec, _replicas(served, name, given))
    return tree


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


def _require_scale(name: str, scale: Any) -> Tree:
    if not isinstance(scale, dict):
        raise BadRequest("the body must be a Scale, an object")
    tree = cast("Tree", scale)
    if tree.get("kind", KIND) != KIND or tree.get("apiVersion", API_VERSION) != API_VERSION:
        raise BadRequest(f"the body must be a {KIND} of {API_VERSION}, not {tree.get('kind')} {tree.get('apiVersion')}")
    if _metadata(tree).get("name", name) != name:
        raise BadRequest(
            f"the name of the object ({_metadata(tree)['name']}) does not match the name on the URL ({name})"
        )
    return tree


def _metadata(tree: Tree) -> Tree:
    found = tree.get("metadata")
    return cast("Tree", found) if isinstance(found, dict) else {}


def _replicas(served: ServedResource, name: str, scale: Tree) -> int:
    spec = scale.get("spec")
    found = cast("Tree", spec).get("replicas", 0) if isinstance(spec, dict) else 0
    replicas = _number(found)
    if replicas is None:
        raise status_errors.invalid_patch(f"spec.replicas must be a whole number, not {found!r}")
    if replicas < 0:
        cause = field_errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise status_errors.invalid(served, name, [cause])
    return replicas


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
        return str(LabelSelector.from_tree(cast("Any", value)))
    except LevelsetError:
        return None


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
