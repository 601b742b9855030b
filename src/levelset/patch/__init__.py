"""Patches of Kubernetes objects: applying them, computing the patch between two objects, and field ownership.

Everything here is a pure function on JSON trees: merge patch (RFC 7396), JSON patch (RFC 6902), strategic merge patch,
server-side apply with its sets of owned fields, and the merge schemas (`Shape`) that say how a kind is merged.
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.patch.apply import apply as server_side_apply
    from levelset.patch.field_sets import EMPTY, FieldSet, parse_fields, print_fields
    from levelset.patch.json_patch import COPY_SIZE_LIMIT, apply_operations, diff_operations
    from levelset.patch.managed_fields import Applied, ManagedEntry, parse_managed, print_managed, track_update
    from levelset.patch.merge_patch import apply_merge, make_merge
    from levelset.patch.merge_schema import ANYTHING, OBJECT_META, Shape, builtin_shape, resource_shape, shape_of
    from levelset.patch.strategic_merge import apply_strategic, make_strategic, make_strategic_three_way

__all__ = [
    "ANYTHING",
    "COPY_SIZE_LIMIT",
    "EMPTY",
    "OBJECT_META",
    "Applied",
    "FieldSet",
    "ManagedEntry",
    "Shape",
    "apply_merge",
    "apply_operations",
    "apply_strategic",
    "builtin_shape",
    "diff_operations",
    "make_merge",
    "make_strategic",
    "make_strategic_three_way",
    "parse_fields",
    "parse_managed",
    "print_fields",
    "print_managed",
    "resource_shape",
    "server_side_apply",
    "shape_of",
    "track_update",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.patch.field_sets": "EMPTY FieldSet parse_fields print_fields",
        "levelset.patch.json_patch": "COPY_SIZE_LIMIT apply_operations diff_operations",
        "levelset.patch.managed_fields": "Applied ManagedEntry parse_managed print_managed track_update",
        "levelset.patch.merge_patch": "apply_merge make_merge",
        "levelset.patch.merge_schema": "ANYTHING OBJECT_META Shape builtin_shape resource_shape shape_of",
        "levelset.patch.apply": "apply:server_side_apply",
        "levelset.patch.strategic_merge": "apply_strategic make_strategic make_strategic_three_way",
    },
)
