"""Kubernetes objects: typed resources, references, selectors, quantities, and their JSON and YAML codecs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from levelset.objects.cached_object import (
    CachedObject,
    Head,
    OwnerHead,
    cached_from_head,
    decode_cached,
    decode_head,
    without_managed_fields,
)
from levelset.objects.codec import (
    decode,
    decode_tree,
    encode,
    encode_tree,
    from_tree,
    read_manifests,
    to_tree,
    write_manifests,
)
from levelset.objects.conditions import find_condition, is_condition_true, remove_condition, set_condition
from levelset.objects.field_markers import (
    Atomic,
    Declaration,
    Embedded,
    ListMap,
    ListSet,
    PreserveUnknown,
    Rule,
    declarations_of,
    rules_of,
)
from levelset.objects.json_tree import Tree
from levelset.objects.kind_definition import Column, Definition, Scale, Scope, define, definition_of, plural_of
from levelset.objects.meta import (
    Condition,
    DeleteOptions,
    ListMeta,
    ManagedFieldsEntry,
    ObjectMeta,
    OwnerReference,
    Preconditions,
    StatusCause,
    StatusDetails,
)
from levelset.objects.model import Meta, Model, Spec, Status, field, python_name, replace, wire_name
from levelset.objects.owners import (
    controller_of,
    is_owned_by,
    owner_reference,
    remove_owner,
    set_controller,
    set_owner,
)
from levelset.objects.quantity import Notation, Quantity
from levelset.objects.ref import GroupVersionKind, GroupVersionResource, Ref, parse_api_version
from levelset.objects.resource import ApiStatus, Object, PartialObjectMetadata, Resource, origin_of, with_origin
from levelset.objects.scheme import Scheme
from levelset.objects.timestamps import MicroTime, format_time, parse_time, seconds_precision
from levelset.objects.unstructured import Unstructured

if TYPE_CHECKING:
    from levelset.objects.cron_schedule import BadSchedule, CronSchedule, parse_schedule, split_time_zone
    from levelset.objects.field_selectors import FieldRequirement, FieldSelector
    from levelset.objects.label_selectors import LabelSelector, Operator, Requirement

__all__ = [
    "ApiStatus",
    "Atomic",
    "BadSchedule",
    "CachedObject",
    "Column",
    "Condition",
    "CronSchedule",
    "Declaration",
    "Definition",
    "DeleteOptions",
    "Embedded",
    "FieldRequirement",
    "FieldSelector",
    "GroupVersionKind",
    "GroupVersionResource",
    "Head",
    "LabelSelector",
    "ListMap",
    "ListMeta",
    "ListSet",
    "ManagedFieldsEntry",
    "Meta",
    "MicroTime",
    "Model",
    "Notation",
    "Object",
    "ObjectMeta",
    "Operator",
    "OwnerHead",
    "OwnerReference",
    "PartialObjectMetadata",
    "Preconditions",
    "PreserveUnknown",
    "Quantity",
    "Ref",
    "Requirement",
    "Resource",
    "Rule",
    "Scale",
    "Scheme",
    "Scope",
    "Spec",
    "Status",
    "StatusCause",
    "StatusDetails",
    "Tree",
    "Unstructured",
    "cached_from_head",
    "controller_of",
    "declarations_of",
    "decode",
    "decode_cached",
    "decode_head",
    "decode_tree",
    "define",
    "definition_of",
    "encode",
    "encode_tree",
    "field",
    "find_condition",
    "format_time",
    "from_tree",
    "is_condition_true",
    "is_owned_by",
    "origin_of",
    "owner_reference",
    "parse_api_version",
    "parse_schedule",
    "parse_time",
    "plural_of",
    "python_name",
    "read_manifests",
    "remove_condition",
    "remove_owner",
    "replace",
    "rules_of",
    "seconds_precision",
    "set_condition",
    "set_controller",
    "set_owner",
    "split_time_zone",
    "to_tree",
    "wire_name",
    "with_origin",
    "without_managed_fields",
    "write_manifests",
]

# Imported on first use: a program that only reads and writes objects needs no selectors.
_LATE: Final = {
    "BadSchedule": "levelset.objects.cron_schedule",
    "CronSchedule": "levelset.objects.cron_schedule",
    "FieldRequirement": "levelset.objects.field_selectors",
    "FieldSelector": "levelset.objects.field_selectors",
    "LabelSelector": "levelset.objects.label_selectors",
    "Operator": "levelset.objects.label_selectors",
    "Requirement": "levelset.objects.label_selectors",
    "parse_schedule": "levelset.objects.cron_schedule",
    "split_time_zone": "levelset.objects.cron_schedule",
}


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module 'levelset.objects' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
