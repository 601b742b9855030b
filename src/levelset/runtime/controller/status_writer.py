"""Which write saves an object: the status before the rest, only what is different, and only onto what was read; pure.

One write at a time, so that nobody sees half of a change: when the status has changed it is written, and the rest is
left to the next look, which computes it anew. A write names the version that was read; if somebody else wrote since,
the server refuses it (Conflict), and the controller looks again.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from levelset.client.patches import MergePatch
from levelset.errors import BadPatch, ConfigError
from levelset.objects import codec
from levelset.objects.json_tree import Tree, is_map, same
from levelset.objects.kind_definition import definition_of
from levelset.objects.resource import Object, origin_of
from levelset.objects.unknown_fields import carry
from levelset.patch.merge_patch import make_merge

__all__ = ["Plan", "plan_save", "plan_status", "plan_typed", "read_status"]

# What a server writes itself, and would not take from us.
_SERVERS: Final = frozenset(
    {"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"}
    | {"resourceVersion", "selfLink", "uid"}
)


class Plan(msgspec.Struct, frozen=True):
    """One write: a patch, of which part, and whether something is left for a next look."""

    patch: MergePatch
    part: Literal["status"] | None
    is_more: bool = False


def plan_save(before: Tree, after: Tree, *, has_status: bool, version: str) -> Plan | None:
    """The write that brings an object from how it was read nearer to how it should be; None if nothing is different.

    `version` is the one that must still be there. `has_status` says that the status is written apart.
    """
    old, new = _own(before), _own(after)
    rest = not same(_without_status(old), _without_status(new))
    if has_status:
        found = plan_status(old.get("status"), new.get("status"), has_status=True, version=version)
        if found is not None:
            return Plan(found.patch, "status", rest)
        old, new = _without_status(old), _without_status(new)
    if same(old, new):
        return None
    return Plan(_locked(MergePatch.between(old, new).tree, version), None)


def plan_status(before: Tree, after: Tree, *, has_status: bool, version: str, are_plain: bool = False) -> Plan | None:
    """The write that brings a status from how it was read to how it should be; None if nothing is different.

    Trees that `are_plain` were read from JSON and have nothing in them that JSON does not know.
    """
    if same(before, after):
        return None
    old = {} if before is None else {"status": before}
    new = {} if after is None else {"status": after}
    tree = make_merge(old, new) if are_plain else MergePatch.between(old, new).tree
    return Plan(_locked(tree, version), "status" if has_status else None)


def read_status(obj: Object) -> Any:
    """The status that an object was read with, whatever has been done to it since; ConfigError if its kind has none."""
    kind: Any = type(obj)
    partial, origin = _partial(kind), origin_of(obj)
    return getattr(obj, "status", None) if origin is None else partial(origin).status


def plan_typed(obj: Object, was: Any, status: Any) -> Plan | None:
    """The write that brings an object from the status that it was read with to this one; None if it has that.

    What is in the JSON of the status and its class does not know stays there.
    """
    has_status, version = definition_of(obj).status, obj.metadata.resource_version
    if was is None and status is not None and not isinstance(status, Object):
        # A first status: there is nothing to compare it with, and unless a null is in it its JSON is the patch.
        written = codec.encode_tree(status)
        if b"null" not in written and version:
            tree = {"status": Raw(written), "metadata": {"resourceVersion": version}}
            return Plan(MergePatch(tree), "status" if has_status else None)
    before, after = _status_trees(obj, was, status)
    return plan_status(before, after, has_status=has_status, version=version, are_plain=True)


def _status_trees(obj: Object, was: Any, status: Any) -> tuple[Tree, Tree]:
    """The status that was read, and the one to write: with what its class does not know."""
    after = None if status is None else codec.to_tree(status)
    origin = origin_of(obj)
    if was is None or origin is None:
        return (None if was is None else codec.to_tree(was)), after
    before = codec.decode_tree(codec.decode(_Raw, origin).status)
    return before, (None if after is None else carry(before, codec.to_tree(was), after))


class _Raw(msgspec.Struct):
    status: Raw


@lru_cache(maxsize=256)
def _partial(kind: type[Object]) -> Callable[[bytes], Any]:
    """What reads nothing but the status of a kind."""
    declared = next((one.type for one in msgspec.structs.fields(kind) if one.name == "status"), None)
    if declared is None:
        raise ConfigError(f"{kind.__name__} has no status; declare one, or write the object as a whole")
    partial: Any = msgspec.defstruct(f"{kind.__name__}Status", [("status", declared | None, None)])
    return codec.reader(partial)


def _locked(tree: dict[str, Any], version: str) -> MergePatch:
    if not version:
        raise BadPatch("only an object that was read from a server can be saved, and this one has no version; apply it")
    return MergePatch({**tree, "metadata": {**(tree.get("metadata") or {}), "resourceVersion": version}})


def _own(tree: Tree) -> dict[str, Any]:
    """The object without what only the server writes."""
    found: dict[str, Any] = tree if is_map(tree) else {}
    metadata = found.get("metadata")
    if not is_map(metadata):
        return found
    return {**found, "metadata": {name: value for name, value in metadata.items() if name not in _SERVERS}}


def _without_status(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name != "status"}
