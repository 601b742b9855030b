"""Calls written as Python: in place where the types are known, by looking at the values where they are not."""

from collections.abc import Callable, Mapping
from typing import Any

from levelset.cel.charging import CHARGES
from levelset.cel.faults import CostExceeded, EvaluationError
from levelset.cel.generating import Generator, boolean, emitter
from levelset.cel.patterns import compile_pattern
from levelset.cel.signatures import Overload
from levelset.cel.tree import Call, ListOf, Literal, Node
from levelset.cel.types import Type
from levelset.cel.values import (
    MAX_INT,
    MIN_INT,
    Duration,
    Named,
    Optional,
    Timestamp,
    Uint,
    is_list,
    is_map,
    no_overload,
    type_name,
)

__all__ = ["call"]

_SMALL = frozenset(("traverse", "compare", "both", "prefix"))  # charges of calls that are quick: counted in loops only
_FOLDED = frozenset(("timestamp", "duration", "quantity", "ip", "cidr", "semver", "url"))
_PLAIN = frozenset(("int", "uint", "string", "bytes", "bool", "timestamp", "duration", "null_type"))


@emitter(Call)
def call(g: Generator, node: Call) -> str:
    """Python that gives the result of a call."""
    if node.function == "_?_:_":
        return _conditional(g, node)
    if node.function in ("or", "orValue") and node.target is not None:
        return _otherwise(g, node, node.target)
    known = _known(node)
    if known is not None:
        return g.constant(known[0])
    nodes = [*([node.target] if node.target is not None else []), *node.arguments]
    special = _SPECIALS.get(node.function)
    found = special(g, node, nodes) if special else None
    return found if found is not None else _plain(g, node, nodes)


def _plain(g: Generator, node: Call, nodes: list[Node]) -> str:
    arguments = [g.emit(each) for each in nodes]
    g.weight += 1
    is_certain = len(node.overloads) == 1 and all(map(_fits, node.overloads[0].params, nodes))
    if not is_certain:
        g.risky = True
        return f"{g.constant(_Dispatch(node.overloads))}({', '.join(['b', *arguments])})"
    overload: Overload = node.overloads[0]
    if overload.charge and (g.loops or overload.charge not in _SMALL) and not _is_brief(overload, nodes):
        arguments = [each if _is_atom(each) else g.stored(each) for each in arguments]
        g.line(f"b.left -= charge_{overload.charge}({', '.join(arguments)})")
        if overload.charge not in _SMALL:
            g.line("if b.left < 0: raise CostExceeded()")
    return _written(g, overload, arguments)


def _is_brief(overload: Overload, nodes: list[Node]) -> bool:
    """Whether a call looks at no more than a literal has."""
    return overload.charge == "prefix" and isinstance(nodes[-1], Literal)


def _written(g: Generator, overload: Overload, arguments: list[str]) -> str:
    inline = overload.inline
    if not inline:
        g.risky = True
        return f"{g.constant(overload.run)}({', '.join(arguments)})"
    if inline.startswith("int:"):
        g.risky = True
        found = g.stored(inline[4:].format(*arguments))
        g.line(f"if {found} > {MAX_INT} or {found} < {MIN_INT}: raise EvaluationError('integer overflow')")
        return found
    g.risky = g.risky or inline.endswith("]")
    return f"({inline.format(*arguments)})"


def _is_atom(text: str) -> bool:
    return text.isidentifier() or text[:1] in "'\""


def _fits(wanted: Type, node: Node) -> bool:
    """Whether a value of this tree is surely of the type that a variant takes."""
    return node.type.kind not in ("dyn", "param") or wanted.kind in ("dyn", "param")


def _known(node: Call) -> tuple[Any] | None:
    """The result of a call that always gives the same, such as duration('1h')."""
    if node.target is not None or len(node.overloads) != 1:
        return None
    is_named = node.function.startswith("format.") and not node.arguments
    values = [each.value for each in node.arguments if isinstance(each, Literal)]
    if not is_named and (node.function not in _FOLDED or len(values) != len(node.arguments) or not values):
        return None
    try:
        return (node.overloads[0].run(*values),)
    except EvaluationError:
        return None


def _conditional(g: Generator, node: Call) -> str:
    condition, yes, no = node.arguments
    test = boolean(condition)(g.emit(condition))
    found = g.name()
    with g.branch(f"if {test}:"):
        g.stored(g.emit(yes), into=found)
    with g.branch("else:"):
        g.stored(g.emit(no), into=found)
    return found


def _otherwise(g: Generator, node: Call, target: Node) -> str:
    """`or` and `orValue`: the other value is only looked at if it is needed."""
    one = g.atom(g.emit(target))
    g.weight += 1
    found = g.name()
    with g.block(f"if {one} is NONE:"):
        g.stored(g.emit(node.arguments[0]), into=found)
    with g.block("else:"):
        g.stored(f"{one}.value" if node.function == "orValue" else one, into=found)
    g.risky = True
    return found


def _equals(g: Generator, node: Call, nodes: list[Node]) -> str | None:
    """Equality of values whose types Python compares as CEL does."""
    if not all(_is_plain(each.type) for each in nodes):
        return None
    is_long = nodes[0].type.kind in ("list", "map", "string", "bytes")
    if g.loops and is_long and not any(isinstance(each, Literal) for each in nodes):
        return None
    g.weight += 1
    one, two = (g.emit(each) for each in nodes)
    return f"({one} {'==' if node.function == '_==_' else '!='} {two})"


def _is_plain(kind: Type) -> bool:
    if kind.kind in ("list", "map"):
        return all(map(_is_plain, kind.params))
    return kind.kind in _PLAIN


def _within(g: Generator, _: Call, nodes: list[Node]) -> str | None:
    """Membership in a list of plain values."""
    item, items = nodes
    kind = items.type
    if kind.kind != "list" or not _is_plain(kind.params[0]) or item.type.kind not in ("string", "int"):
        return None
    g.weight += 1
    if isinstance(items, ListOf) and items.elements and all(isinstance(each, Literal) for each in items.elements):
        values = frozenset(each.value for each in items.elements if isinstance(each, Literal))
        return f"({g.emit(item)} in {g.constant(values)})"
    one, many = g.emit(item), g.atom(g.emit(items))
    g.line(f"b.left -= len({many})")
    return f"({one} in {many})"


def _regex(g: Generator, node: Call, nodes: list[Node]) -> str | None:
    """A regular expression that is known: compiled once."""
    text, pattern, *more = nodes
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or text.type.kind != "string":
        return None
    if any(each.type.kind != "int" for each in more):
        return None
    regex = compile_pattern(pattern.value)
    subject = g.atom(g.emit(text))
    g.weight += 1
    g.line(f"b.left -= (len({subject}) // 10 + 1) * {len(pattern.value) // 4 + 1}")
    g.line("if b.left < 0: raise CostExceeded()")
    run = {"matches": regex.matches, "find": regex.find, "findAll": regex.find_all}[node.function]
    return f"{g.constant(run)}({', '.join([subject, *map(g.emit, more)])})"


def _has_value(g: Generator, _: Call, nodes: list[Node]) -> str | None:
    if nodes[0].type.kind != "optional":
        return None
    g.weight += 1
    return f"({g.emit(nodes[0])} is not NONE)"


_SPECIALS: Mapping[str, Callable[[Generator, Call, list[Node]], str | None]] = {
    "_==_": _equals,
    "_!=_": _equals,
    "@in": _within,
    "matches": _regex,
    "find": _regex,
    "findAll": _regex,
    "hasValue": _has_value,
}


class _Dispatch:
    """A call whose variant is chosen by the values."""

    __slots__ = ("_choices",)

    def __init__(self, overloads: list[Overload]) -> None:
        self._choices = [(tuple(map(_test, each.params)), each.run, CHARGES.get(each.charge)) for each in overloads]

    def __call__(self, budget: Any, *arguments: Any) -> Any:
        for tests, run, charge in self._choices:
            if all(test(value) for test, value in zip(tests, arguments, strict=True)):
                if charge is not None:
                    budget.left -= charge(*arguments)
                    if budget.left < 0:
                        raise CostExceeded
                return run(*arguments)
        raise no_overload()


_CLASSES: Mapping[str, type] = {
    "bool": bool,
    "int": int,
    "uint": Uint,
    "double": float,
    "string": str,
    "bytes": bytes,
    "timestamp": Timestamp,
    "duration": Duration,
    "null_type": type(None),
    "type": Named,
    "optional": Optional,
}


def _test(wanted: Type) -> Callable[[Any], bool]:
    """Whether a value is of this type, as far as the outside shows."""
    if wanted.kind in _CLASSES:
        kind = _CLASSES[wanted.kind]
        return lambda value: type(value) is kind
    if wanted.kind == "list":
        return is_list
    if wanted.kind in ("map", "object"):
        return is_map
    if wanted.kind == "opaque":
        name = wanted.name
        return lambda value: type_name(value) == name
    return lambda _: True
