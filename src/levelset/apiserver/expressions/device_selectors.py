"""CEL selectors of devices (resource.k8s.io): the variable `device`, and why an expression cannot be used.

Importing it loads the CEL compiler, so that its users import it late.
"""

import functools
from typing import Final

from levelset.apiserver.expressions.cel_programs import ExpressionCompileError, compile_expression
from levelset.cel import BOOL, DYN, OPAQUE, Declarations, Type, map_of, object_of

__all__ = ["TOO_COMPLEX", "selector_problem"]

TOO_COMPLEX: Final = "too complex, exceeds cost limit"
_MAX_COST: Final = 1_000_000
_MAX_ENTRIES: Final = 32  # attributes and capacities of a device
_ID: Final = Type("string", max_elements=32, min_size=2)
_DOMAIN: Final = Type("string", max_elements=63, min_size=2)
_ATTRIBUTE: Final = Type("dyn", max_elements=64, min_size=1)


def _by_domain(value: Type) -> Type:
    return map_of(_DOMAIN, map_of(_ID, value, max_elements=_MAX_ENTRIES), max_elements=_MAX_ENTRIES)


_DEVICE: Final = object_of(
    {
        "driver": _DOMAIN,
        "allowMultipleAllocations": BOOL,
        "attributes": _by_domain(_ATTRIBUTE),
        "capacity": _by_domain(OPAQUE["Quantity"]),
    },
    name="kubernetes.DRADevice",
)
_DECLARATIONS: Final = Declarations({"device": _DEVICE})


@functools.lru_cache(256)
def selector_problem(text: str) -> str:
    """Why a selector cannot be used, in the words of kube-apiserver; empty if it can."""
    try:
        program = compile_expression(text, _DECLARATIONS)
    except ExpressionCompileError as error:
        return str(error)
    if not (program.type.same(BOOL) or program.type.same(DYN)):
        return f"must evaluate to bool or the unknown type, not {program.type}"
    return TOO_COMPLEX if program.cost.most > _MAX_COST else ""
