"""Macros: calls that stand for something else than a function, such as has, all, map and cel.bind."""

from collections.abc import Callable, Mapping

from levelset.cel.errors import CompileError, Issue
from levelset.cel.syntax_tree import Bind, Call, Fold, Ident, ListOf, Literal, Node, OptMap, Select

__all__ = ["expand"]


def expand(text: str, call: Call) -> Node:
    """What a call stands for: the macro's tree, or the call itself; raises CompileError for a macro used wrongly."""
    if call.target is None:
        found = _has(text, call) if call.function == "has" and len(call.arguments) == 1 else call
    elif isinstance(call.target, Ident) and (call.target.name, call.function) in _NAMESPACED:
        found = _NAMESPACED[call.target.name, call.function](text, call)
    else:
        shape = _FOLDS.get((call.function, len(call.arguments)))
        found = shape(text, call, call.target) if shape else call
    if found is call:
        call.rest_on(call.target, *call.arguments)
    return found


def _has(text: str, call: Call) -> Node:
    inner = call.arguments[0]
    if not isinstance(inner, Select) or inner.test or inner.optional:
        raise _wrong(text, call.arguments[0], "invalid argument to has() macro")
    found = Select(call.position, inner.operand, inner.field, test=True)
    found.rest_on(inner.operand)
    return found


def _bind(text: str, call: Call) -> Node:
    if len(call.arguments) != 3:
        return call
    name, value, body = call.arguments
    if not isinstance(name, Ident):
        raise _wrong(text, name, "cel.bind() variable names must be simple identifiers")
    found = Bind(call.position, name.name, value, body)
    found.rest_on(value, body)
    return found


def _extreme(function: str) -> Callable[[str, Call], Node]:
    def expander(text: str, call: Call) -> Node:
        shown = "greatest" if function == "math.@max" else "least"
        arguments: list[Node] = call.arguments
        if not arguments:
            raise _wrong(text, call, f"math.{shown}() requires at least one argument")
        for argument in arguments:
            if isinstance(argument, Literal) and (
                argument.value is None or isinstance(argument.value, str | bytes | bool)
            ):
                raise _wrong(text, argument, f"math.{shown}() simple literal arguments must be numeric")
        if len(arguments) > 2:
            together = ListOf(call.position, arguments)
            together.rest_on(*arguments)
            arguments = [together]
        found = Call(call.position, function, None, arguments)
        found.rest_on(*arguments)
        return found

    return expander


_NAMESPACED: Mapping[tuple[str, str], Callable[[str, Call], Node]] = {
    ("cel", "bind"): _bind,
    ("math", "greatest"): _extreme("math.@max"),
    ("math", "least"): _extreme("math.@min"),
}


def _fold(macro: str, names: int, *, when: bool = False) -> Callable[[str, Call, Node], Node]:
    """A macro over a range with so many variables, then perhaps a condition, then the body."""

    def expander(text: str, call: Call, target: Node) -> Node:
        variables = [_simple(text, argument) for argument in call.arguments[:names]]
        if len(set(variables)) != len(variables):
            raise _wrong(text, call.arguments[1], "duplicate variable name")
        condition = call.arguments[names] if when else None
        body = call.arguments[-1]
        found = Fold(call.position, macro, target, tuple(variables), body, condition)
        found.rest_on(target, condition, body)
        return found

    return expander


def _opt(*, flat: bool) -> Callable[[str, Call, Node], Node]:
    def expander(text: str, call: Call, target: Node) -> Node:
        found = OptMap(call.position, target, _simple(text, call.arguments[0]), call.arguments[1], flat)
        found.rest_on(target, call.arguments[1])
        return found

    return expander


def _sort_by(text: str, call: Call, target: Node) -> Node:
    name = "@sorted"
    keys = Fold(
        call.position, "map", Ident(call.position, name), (_simple(text, call.arguments[0]),), call.arguments[1]
    )
    keys.rest_on(keys.over, keys.body)
    body = Call(call.position, "@sortByAssociatedKeys", Ident(call.position, name), [keys])
    body.rest_on(body.target, keys)
    found = Bind(call.position, name, target, body)
    found.rest_on(target, body)
    return found


_FOLDS: Mapping[tuple[str, int], Callable[[str, Call, Node], Node]] = {
    ("all", 2): _fold("all", 1),
    ("exists", 2): _fold("exists", 1),
    ("exists_one", 2): _fold("exists_one", 1),
    ("existsOne", 2): _fold("exists_one", 1),
    ("map", 2): _fold("map", 1),
    ("map", 3): _fold("map", 1, when=True),
    ("filter", 2): _fold("filter", 1),
    ("all", 3): _fold("all", 2),
    ("exists", 3): _fold("exists", 2),
    ("exists_one", 3): _fold("exists_one", 2),
    ("existsOne", 3): _fold("exists_one", 2),
    ("transformList", 3): _fold("map", 2),
    ("transformList", 4): _fold("map", 2, when=True),
    ("transformMap", 3): _fold("transformMap", 2),
    ("transformMap", 4): _fold("transformMap", 2, when=True),
    ("transformMapEntry", 3): _fold("transformMapEntry", 2),
    ("transformMapEntry", 4): _fold("transformMapEntry", 2, when=True),
    ("optMap", 2): _opt(flat=False),
    ("optFlatMap", 2): _opt(flat=True),
    ("sortBy", 2): _sort_by,
}


def _simple(text: str, node: Node) -> str:
    if not isinstance(node, Ident):
        raise _wrong(text, node, "argument must be a simple name")
    return node.name


def _wrong(text: str, node: Node, message: str) -> CompileError:
    return CompileError(text, [Issue(node.position, message)])
