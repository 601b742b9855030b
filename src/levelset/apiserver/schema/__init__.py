"""Schemas of kinds: structural schema checks, and pruning, defaulting and validation of objects.

A CRD's schema is checked once (`check_structural`) and compiled once (`compile_schema`) to Python code; every object
is then pruned, defaulted and validated in one pass. Built-in kinds have their schemas as data (`builtin_kind`).
"""

from levelset.apiserver.schema.builtin_schemas import (
    BuiltinSchemas,
    Column,
    Part,
    Resource,
    builtin_columns,
    builtin_kind,
    builtin_names,
    builtin_resources,
    builtin_schemas,
    builtin_versions,
    components,
    library,
    preload,
)
from levelset.apiserver.schema.structural_schema import SchemaProblems, check_structural, find_problems
from levelset.apiserver.schema.validation import Admission, Compiled, Definitions, compile_schema

__all__ = [
    "Admission",
    "BuiltinSchemas",
    "Column",
    "Compiled",
    "Definitions",
    "Part",
    "Resource",
    "SchemaProblems",
    "builtin_columns",
    "builtin_kind",
    "builtin_names",
    "builtin_resources",
    "builtin_schemas",
    "builtin_versions",
    "check_structural",
    "compile_schema",
    "components",
    "find_problems",
    "library",
    "preload",
]
