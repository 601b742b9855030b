"""Plans the write that saves an object or its status: only what differs, and only onto the version that was read; pure.

One write at a time: if the status has changed it is written first, and the rest is left to the next reconcile, which
computes it again. A write carries the resource version that was read; if another writer was first, the API server
rejects it (Conflict), and the controller reconciles again. `Context` executes the plans.
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

# Set by the API server only; it ignores or rejects them in a write.
_SERVER_FIELDS: Final = frozenset(
    {"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"}
    | {"resourceVersion", "selfLink", "uid"}
)


class Plan(msgspec.Struct, frozen=True):
    """One write: a patch, the subresource it is for, and whether changes are left for the next reconcile."""

    patch: MergePatch
    part: Literal["status"] | None
    is_more: bool = False


def plan_save(before: Tree, after: Tree, *, has_status: bool, version: str) -> Plan | None:
    """The next write that brings an object from what was read to what is wanted; None if nothing differs.

    `version` is the resource version that the write requires. `has_status` says that the kind has a status subresource.
    """
    old, new = _without_server_fields(before), _without_server_fields(after)
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
    """The write that brings a status from what was read to what is wanted; None if nothing differs.

    `are_plain` says that both trees were decoded from JSON and hold only JSON values.
    """
    if same(before, after):
        return None
    old = {} if before is None else {"status": before}
    new = {} if after is None else {"status": after}
    tree = make_merge(old, new) if are_plain else MergePatch.between(old, new).tree
    return Plan(_locked(tree, version), "status" if has_status else None)


def read_status(obj: Object) -> Any:
    """The status that an object was read with, before any changes; ConfigError if its kind has none."""
    kind: Any = type(obj)
    partial, origin = _partial(kind), origin_of(obj)
    return getattr(obj, "status", None) if origin is None else partial(origin).status


def plan_typed(obj: Object, was: Any, status: Any) -> Plan | None:
    """The write that brings a typed object from the status it was read with to this one; None if they are equal.

    Fields in the JSON of the status that its class does not declare are kept.
    """
    has_status, version = definition_of(obj).status, obj.metadata.resource_version
    if was is None and status is not None and not isinstance(status, Object):
        # A first status: nothing to compare, and without nulls (which a merge patch removes) its JSON is the patch.
        written = codec.encode_tree(status)
        if b"null" not in written and version:
            tree = {"status": Raw(written), "metadata": {"resourceVersion": version}}
            return Plan(MergePatch(tree), "status" if has_status else None)
    before, after = _status_trees(obj, was, status)
    return plan_status(before, after, has_status=has_status, version=version, are_plain=True)


def _status_trees(obj: Object, was: Any, status: Any) -> tuple[Tree, Tree]:
    """The status that was read and the one to write, both with the fields that the class does not declare."""
    after = None if status is None else codec.to_tree(status)
    origin = origin_of(obj)
    if was is None or origin is None:
        return (None if was is None else codec.to_tree(was)), after
    before = codec.decode_tree(codec.decode(_RawStatus, origin).status)
    return before, (None if after is None else carry(before, codec.to_tree(was), after))


class _RawStatus(msgspec.Struct):
    status: Raw


@lru_cache(maxsize=256)
def _partial(kind: type[Object]) -> Callable[[bytes], Any]:
    """A decoder of only the status of a kind."""
    declared = next((one.type for one in msgspec.structs.fields(kind) if one.name == "status"), None)
    if declared is None:
        raise ConfigError(f"{kind.__name__} has no status; declare one, or write the whole object")
    partial: Any = msgspec.defstruct(f"{kind.__name__}Status", [("status", declared | None, None)])
    return codec.reader(partial)


def _locked(tree: dict[str, Any], version: str) -> MergePatch:
    if not version:
        raise BadPatch("the object has no resource version, so it was not read from an API server; use ctx.apply")
    return MergePatch({**tree, "metadata": {**(tree.get("metadata") or {}), "resourceVersion": version}})


def _without_server_fields(tree: Tree) -> dict[str, Any]:
    """The object without the metadata that only the API server sets."""
    found: dict[str, Any] = tree if is_map(tree) else {}
    metadata = found.get("metadata")
    if not is_map(metadata):
        return found
    return {**found, "metadata": {name: value for name, value in metadata.items() if name not in _SERVER_FIELDS}}


def _without_status(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name != "status"}
