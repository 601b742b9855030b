"""The finalizer around reconcile and cleanup: a reconciled object is not removed before its cleanup succeeded.

| our finalizer | being deleted | what happens |
|---|---|---|
| absent | no | it is added, and nothing else: that write causes the next reconcile |
| present | no | reconcile |
| present | yes | cleanup; after it has succeeded, the finalizer is removed |
| absent | yes | nothing: the cleanup is done, or the object was never reconciled |

Both writes are JSON patches that test the finalizers they saw, so that finalizers of other controllers are neither lost
nor restored. If a cleanup fails, the finalizer stays and the cleanup runs again; it may also run for an object that was
never reconciled.
"""

from typing import Any, Final, Literal

from levelset.client.client import Client
from levelset.client.patches import JsonPatch
from levelset.errors import ConfigError, Conflict, Invalid, NotFound
from levelset.objects.kind_definition import Definition
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import MAX_LABEL, check_label_key, is_qualified_name
from levelset.objects.ref import Ref
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured

__all__ = ["Step", "add", "add_patch", "check_finalizer", "finalizer_name", "remove", "remove_patch", "step"]

Step = Literal["add", "cleanup", "ignore", "reconcile"]
"""The next step for an object of a controller with a finalizer."""

_UNFIT: Final = Pattern(r"[^A-Za-z0-9_.-]+")


def step(obj: Object | Unstructured, finalizer: str) -> Step:
    """The next step for an object, by the table above."""
    metadata = obj.metadata
    if finalizer in metadata.finalizers:
        return "reconcile" if metadata.deletion_timestamp is None else "cleanup"
    return "add" if metadata.deletion_timestamp is None else "ignore"


def finalizer_name(definition: Definition, controller: str) -> str:
    """The default finalizer of a controller, such as `websites.example.dev/levelset-websites`."""
    gvr = definition.gvr
    prefix = f"{gvr.resource}.{gvr.group}" if gvr.group else f"{gvr.resource}.levelset"
    word = _UNFIT.sub("-", f"levelset-{controller}")[:MAX_LABEL].rstrip("-_.")
    return check_finalizer(f"{prefix}/{word}")


def check_finalizer(name: str) -> str:
    """The finalizer itself; ConfigError if an API server would reject it."""
    if "/" not in name or not is_qualified_name(name):
        problems = "; ".join(check_label_key(name)) or "must have a prefix, such as example.dev/cleanup"
        raise ConfigError(f"finalizer {name[:100]!r}: it {problems}")
    return name


def add_patch(finalizers: tuple[str, ...], finalizer: str) -> JsonPatch:
    """The patch that adds ours to these finalizers, and fails if they have changed."""
    if not finalizers:
        return JsonPatch(
            [
                {"op": "test", "path": "/metadata/finalizers", "value": None},
                {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]},
            ]
        )
    return JsonPatch(
        [
            {"op": "test", "path": "/metadata/finalizers", "value": list(finalizers)},
            {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer},
        ]
    )


def remove_patch(finalizers: tuple[str, ...], finalizer: str) -> JsonPatch:
    """The patch that removes ours at its index, and fails if it is no longer there."""
    operations: list[dict[str, Any]] = []
    # From the end, so that the indexes before it stay valid: a finalizer may be listed twice.
    for index in reversed([place for place, name in enumerate(finalizers) if name == finalizer]):
        path = f"/metadata/finalizers/{index}"
        operations += [{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}]
    return JsonPatch(operations)


async def add(client: Client, obj: Object | Unstructured, finalizer: str) -> None:
    """Adds the finalizer; Conflict if the finalizers have changed or the object is being deleted or was recreated.

    It is no error if the object is gone.
    """
    seen = {"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid}
    # API servers forbid new finalizers on an object that is being deleted; the test turns that into a conflict.
    alive = {"op": "test", "path": "/metadata/deletionTimestamp", "value": None}
    patch = add_patch(obj.metadata.finalizers, finalizer)
    await _send(client, obj.ref, JsonPatch([seen, alive, *patch.operations]))


async def remove(client: Client, obj: Object | Unstructured, finalizer: str) -> None:
    """Removes the finalizer; Conflict if the finalizers have changed or the object was recreated.

    The cleanup then runs again. It is no error if the object is gone.
    """
    seen = {"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid}
    patch = remove_patch(obj.metadata.finalizers, finalizer)
    if not patch.is_empty:
        await _send(client, obj.ref, JsonPatch([seen, *patch.operations]))


async def _send(client: Client, ref: Ref[Any], patch: JsonPatch) -> None:
    try:
        await client.patch(ref, patch, only_metadata=True)
    except NotFound:
        return
    except Invalid as error:
        # A failed test is a 422 without causes; any other 422 names the invalid fields as causes.
        if error.causes:
            raise
        conflict = Conflict(f"{ref}: another writer changed the finalizers: {error.message}")
        conflict.request = error.request
        raise conflict from error
