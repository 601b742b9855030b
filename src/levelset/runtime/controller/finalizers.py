"""The finalizer around reconcile and cleanup: what was ever reconciled is not gone before its cleanup has succeeded.

The rules, by what an object shows:

| our finalizer | being deleted | what happens |
|---|---|---|
| absent | no | it is added, and nothing else: the write brings the next look |
| present | no | reconcile |
| present | yes | cleanup; when that has succeeded, it is taken off |
| absent | yes | nothing: the object was never ours, or is no longer |

Both writes are JSON patches that test what they saw first, so that nobody's finalizers are lost or come back. A cleanup
that fails leaves the finalizer where it is and runs again; it may also run for an object that was never reconciled.
"""

import re
from typing import Any, Final, Literal

from levelset.client.client import Client
from levelset.client.patches import JsonPatch
from levelset.errors import ConfigError, Conflict, Invalid, NotFound
from levelset.objects.kind_definition import Definition
from levelset.objects.names import MAX_LABEL, check_label_key, is_qualified_name
from levelset.objects.ref import Ref
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured

__all__ = ["Step", "add", "adding", "check_finalizer", "finalizer_name", "remove", "removing", "step"]

Step = Literal["add", "cleanup", "ignore", "reconcile"]
"""What is to be done with an object that has, or should have, our finalizer."""

_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def step(obj: Object | Unstructured, finalizer: str) -> Step:
    """What is to be done with an object."""
    metadata = obj.metadata
    if finalizer in metadata.finalizers:
        return "reconcile" if metadata.deletion_timestamp is None else "cleanup"
    return "add" if metadata.deletion_timestamp is None else "ignore"


def finalizer_name(definition: Definition, controller: str) -> str:
    """The finalizer of a controller that names none: `websites.example.dev/levelset-websites`."""
    gvr = definition.gvr
    prefix = f"{gvr.resource}.{gvr.group}" if gvr.group else f"{gvr.resource}.levelset"
    word = _UNFIT.sub("-", f"levelset-{controller}")[:MAX_LABEL].rstrip("-_.")
    return check_finalizer(f"{prefix}/{word}")


def check_finalizer(name: str) -> str:
    """The finalizer itself; ConfigError if a server would refuse it."""
    if "/" not in name or not is_qualified_name(name):
        problems = "; ".join(check_label_key(name)) or "must have a prefix, such as example.dev/cleanup"
        raise ConfigError(f"finalizer {name[:100]!r}: it {problems}")
    return name


def adding(finalizers: tuple[str, ...], finalizer: str) -> JsonPatch:
    """The patch that adds ours to these, and fails if they are no longer these."""
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


def removing(finalizers: tuple[str, ...], finalizer: str) -> JsonPatch:
    """The patch that takes ours off from where it stands, and fails if it no longer stands there."""
    operations: list[dict[str, Any]] = []
    # From the back, so that those in front stay where they are: a finalizer may be there twice.
    for index in reversed([place for place, name in enumerate(finalizers) if name == finalizer]):
        path = f"/metadata/finalizers/{index}"
        operations += [{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}]
    return JsonPatch(operations)


async def add(client: Client, obj: Object | Unstructured, finalizer: str) -> None:
    """Adds the finalizer; Conflict if others changed theirs meanwhile or it is being deleted. One that is gone is fine.

    The object must be the one that was seen: a namesake that was made since, or one that is being deleted, gets none.
    """
    seen = {"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid}
    # Nothing may be added to an object that is being deleted: a server refuses it, but only if it is asked to.
    alive = {"op": "test", "path": "/metadata/deletionTimestamp", "value": None}
    patch = adding(obj.metadata.finalizers, finalizer)
    await _send(client, obj.ref, JsonPatch([seen, alive, *patch.operations]))


async def remove(client: Client, obj: Object | Unstructured, finalizer: str) -> None:
    """Takes the finalizer off; Conflict if others changed theirs meanwhile, so that the cleanup runs again.

    An object that is gone already, or was replaced by a namesake, is fine: there is nothing to take off.
    """
    seen = {"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid}
    patch = removing(obj.metadata.finalizers, finalizer)
    if not patch.is_empty:
        await _send(client, obj.ref, JsonPatch([seen, *patch.operations]))


async def _send(client: Client, ref: Ref[Any], patch: JsonPatch) -> None:
    try:
        await client.patch(ref, patch, only_metadata=True)
    except NotFound:
        return
    except Invalid as error:
        # A test that fails is told as 422; any other 422 is told with the fields that are wrong.
        if error.causes:
            raise
        conflict = Conflict(f"the finalizers were changed by somebody else: {error.message}")
        conflict.request = error.request
        raise conflict from error
