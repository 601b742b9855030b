"""Which part of an object an endpoint may change: all but the status, only the status, or only its finalizers."""

from typing import Any, Final

from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree
from levelset.objects.trees import is_map
from levelset.patch.elements import path
from levelset.patch.fieldset import EMPTY, FieldSet

__all__ = ["isolate", "reset_fields"]

_STATUS: Final = FieldSet.of(path("status"))
_ALL_BUT_STATUS: Final = FieldSet.of(path("metadata"), path("spec"))
_STATUS_OF_BUILTIN: Final = FieldSet.of(path("metadata", "labels"), path("spec"))


def isolate(served: Served, old: Tree, new: Tree, subresource: str) -> Tree:
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


def reset_fields(served: Served, subresource: str) -> FieldSet:
    """The fields that this endpoint ignores: whoever applies them through it does not own them."""
    if subresource in ("status", "approval"):
        return _ALL_BUT_STATUS if served.custom else _STATUS_OF_BUILTIN
    return _STATUS if served.status else EMPTY


def _only_status(served: Served, old: Tree, new: Tree) -> Tree:
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
