"""Who owns the replicas of an object: its managedFields as those of its Scale, and those of a Scale as its own.

As upstream, a write of a Scale is tracked as one of an object of autoscaling/v1 that only has the replicas. An applier
is the same one there. An updater is identified by its version, too: what it owns of a Scale is a new entry of the
object, which has no time, beside what is left of its entry.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from levelset.objects.json_tree import Tree
from levelset.patch.field_paths import path
from levelset.patch.field_sets import FieldSet
from levelset.patch.managed_fields import EntryKey, ManagedEntry, parse_managed, print_managed

__all__ = ["API_VERSION", "owners_of_object", "owners_of_scale"]

API_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final = path("spec", "replicas")
_SCALE_FIELDS: Final = FieldSet.of(_REPLICAS)


def owners_of_scale(managed: Tree, replicas_path: str) -> list[Tree]:
    """The managedFields of the Scale of an object with these managedFields: the owners of its replicas."""
    at = _path(replicas_path)
    entries = [one for one in parse_managed(managed).values() if one.fields.has(at)]
    return print_managed(_by_key(replace(one, api_version=API_VERSION, fields=_SCALE_FIELDS) for one in entries))


def owners_of_object(managed: Tree, scaled: Tree, replicas_path: str, api_version: str) -> list[Tree]:
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
