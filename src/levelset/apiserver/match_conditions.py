"""Evaluates the conditions of webhooks, which are expressions in CEL; each is compiled once."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelset.cel import Program

__all__ = ["evaluate"]


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """The value of an expression about `object`, `oldObject` and `request`; LevelsetError if it has none."""
    return _compiled(expression)({**variables, "namespaceObject": None, "variables": {}})


@functools.lru_cache(1024)
def _compiled(expression: str) -> "Program":
    # Late: the compiler takes a while to load, and most servers have no conditions.
    from levelset.cel import compile_rule, policy_declarations  # noqa: PLC0415

    return compile_rule(expression, policy_declarations(has_authorizer=False))
