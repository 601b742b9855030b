"""CEL, the expression language of Kubernetes: compiled to Python, with its types, libraries and limits.

```python
program = compile_rule("self.replicas <= self.max", Declarations({"self": declared_type(schema)}))
program({"self": {"replicas": 3, "max": 5}})  # True
```

`compile_rules` compiles all rules of a schema (x-kubernetes-validations).
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.cel.errors import CompileError, CostExceeded, EvaluationError, Issue
    from levelset.cel.library.authorizer import Authorizer, Decide, Decision, PathCheck, ResourceCheck
    from levelset.cel.parser import RESERVED
    from levelset.cel.policy_environment import APPLIED, PATCHES, policy_declarations
    from levelset.cel.program import CALL_LIMIT, OBJECT_LIMIT, Budget, Declarations, Program, compile_rule
    from levelset.cel.schema_types import declared_type, escape
    from levelset.cel.types import (
        BOOL,
        BYTES,
        DOUBLE,
        DURATION,
        DYN,
        INT,
        NULL,
        OPAQUE,
        STRING,
        TIMESTAMP,
        UINT,
        Type,
        list_of,
        map_of,
        object_of,
        optional_of,
    )
    from levelset.cel.validation_rules import OMITTED, Finding, Rules, check_rules, compile_rules
    from levelset.cel.values import Made, plain_value

__all__ = [
    "APPLIED",
    "BOOL",
    "BYTES",
    "CALL_LIMIT",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "NULL",
    "OBJECT_LIMIT",
    "OMITTED",
    "OPAQUE",
    "PATCHES",
    "RESERVED",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Authorizer",
    "Budget",
    "CompileError",
    "CostExceeded",
    "Decide",
    "Decision",
    "Declarations",
    "EvaluationError",
    "Finding",
    "Issue",
    "Made",
    "PathCheck",
    "Program",
    "ResourceCheck",
    "Rules",
    "Type",
    "check_rules",
    "compile_rule",
    "compile_rules",
    "declared_type",
    "escape",
    "list_of",
    "map_of",
    "object_of",
    "optional_of",
    "plain_value",
    "policy_declarations",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.cel.errors": "CompileError CostExceeded EvaluationError Issue",
        "levelset.cel.library.authorizer": "Authorizer Decide Decision PathCheck ResourceCheck",
        "levelset.cel.parser": "RESERVED",
        "levelset.cel.policy_environment": "APPLIED PATCHES policy_declarations",
        "levelset.cel.program": "CALL_LIMIT OBJECT_LIMIT Budget Declarations Program compile_rule",
        "levelset.cel.schema_types": "declared_type escape",
        "levelset.cel.types": (
            "BOOL BYTES DOUBLE DURATION DYN INT NULL OPAQUE STRING TIMESTAMP UINT Type list_of map_of object_of "
            "optional_of"
        ),
        "levelset.cel.validation_rules": "OMITTED Finding Rules check_rules compile_rules",
        "levelset.cel.values": "Made plain_value",
    },
)
