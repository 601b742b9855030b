"""Schemas of kinds: what an object may look like, checked at the speed of generated code.

A definition's schema is judged once (`check_structural`) and compiled once (`compile_schema`); after that every object
is pruned, defaulted and validated in one pass. The built-in kinds come with their schemas as data (`builtin_kind`).
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
from levelset.apiserver.schema.compiled_schema import Admission, Compiled, Definitions, compile_schema
from levelset.apiserver.schema.structural_schema import check_structural

__all__ = [
    "Admission",
    "BuiltinSchemas",
    "Column",
    "Compiled",
    "Definitions",
    "Part",
    "Resource",
    "builtin_columns",
    "builtin_kind",
    "builtin_names",
    "builtin_resources",
    "builtin_schemas",
    "builtin_versions",
    "check_structural",
    "compile_schema",
    "components",
    "library",
    "preload",
]
