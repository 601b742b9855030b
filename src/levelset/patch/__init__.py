"""Changes as values: what a patch says, what it does to a tree, and which patch leads from one tree to another.

Everything here is a pure function on JSON trees: merge patch (RFC 7396), JSON patch (RFC 6902), strategic merge patch,
server-side apply with its sets of owned fields, and the shapes that say how the trees of a kind are merged.
"""

from levelset.patch.apply import apply as server_side_apply
from levelset.patch.builtin_shapes import builtin_shape
from levelset.patch.difference import diff_operations
from levelset.patch.fieldset import EMPTY, FieldSet
from levelset.patch.fieldsv1 import parse_fields, print_fields
from levelset.patch.managers import ManagedEntry, parse_managed, print_managed
from levelset.patch.merge import apply_merge, make_merge
from levelset.patch.operations import COPIES_WITHIN, apply_operations
from levelset.patch.shapes import ANYTHING, OBJECT_META, Shape, resource_shape, shape_of
from levelset.patch.strategic import apply_strategic
from levelset.patch.strategic_diff import make_strategic, make_strategic_three_way
from levelset.patch.tracking import Applied, track_update

__all__ = [
    "ANYTHING",
    "COPIES_WITHIN",
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
