"""Reads the code of reconcilers for what they do with their context: `ctx.apply`, `ctx.set_status`, `ctx.record`.

Only what can be seen is told: calls on a parameter that is called `ctx` or annotated as a Context, in the function
itself and in the functions of its module that it names. What is done in other ways is declared, and found by tests.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any

__all__ = ["Deed", "deeds_of"]


@dataclass(frozen=True, slots=True)
class Deed:
    """One call on a context: its name, and whether it is about the object that is looked at."""

    name: str
    is_own: bool


def deeds_of(*functions: Callable[..., Any] | None) -> frozenset[Deed] | None:
    """What these functions, and those that they name, do with their contexts; None if the code of one is not there."""
    found: set[Deed] = set()
    seen: set[FunctionType] = set()
    waiting = [one for one in map(_plain, functions) if one is not None]
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType):
            return None
        if function in seen:
            continue
        seen.add(function)
        tree = _parse(function)
        if tree is None:
            return None
        found.update(_deeds(tree))
        waiting += [one for one in _named(tree, function) if one not in seen]
    return frozenset(found)


def _plain(function: Any) -> Any:
    """The function behind partials, methods and callable objects."""
    if isinstance(function, partial):
        return _plain(function.func)  # pyright: ignore[reportUnknownMemberType] - of any kind
    if isinstance(function, MethodType):
        return _plain(function.__func__)
    if hasattr(function, "__wrapped__"):
        return _plain(function.__wrapped__)
    if isinstance(function, FunctionType | type):
        return function
    members: Any = {name: value for one in type(function).__mro__ for name, value in vars(one).items()}
    called = members.get("__call__")
    return called if isinstance(called, FunctionType) else function


def _parse(function: FunctionType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _deeds(tree: ast.AST) -> Iterator[Deed]:
    contexts, own = _parameters(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        base = node.func.value
        if isinstance(base, ast.Attribute) and base.attr == "client":
            base = base.value
        if isinstance(base, ast.Name) and base.id in contexts:
            yield Deed(node.func.attr, bool(node.args) and _root(node.args[0]) in own)


def _parameters(tree: ast.AST) -> tuple[set[str], set[str]]:
    """The parameters that are contexts, and those that stand before one: the objects that are looked at."""
    contexts: set[str] = set()
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for before, one in zip((None, *node.args.args), node.args.args, strict=False):
                if one.arg in ("ctx", "context") or _ends_with_context(one.annotation):
                    contexts.add(one.arg)
                    own |= {before.arg} if before is not None and before.arg != "self" else set()
    return contexts, own


def _ends_with_context(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'\"").split(".")[-1].startswith("Context")


def _root(node: ast.expr) -> str:
    """The name that an expression begins with: `site` of `site.ref`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _named(tree: ast.AST, function: FunctionType) -> Iterator[FunctionType]:
    """The functions of the same module that are named somewhere in the code."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name in sorted(names):
        found = _plain(function.__globals__.get(name))
        if isinstance(found, FunctionType) and found.__module__ == function.__module__:
            yield found
