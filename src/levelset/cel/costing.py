"""What an expression may cost at most, found from the sizes that its schema allows before any value is seen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from levelset.cel.callcosts import call_cost
from levelset.cel.estimates import Part
from levelset.cel.spans import ZERO, Span, fixed
from levelset.cel.tree import Bind, Call, Fold, Ident, ListOf, Literal, Logic, MapOf, Node, OptMap, Select, Struct
from levelset.cel.types import Type

__all__ = ["Cost", "estimate"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The fewest and the most steps."""

    least: int
    most: int


def estimate(tree: Node, variables: Mapping[str, Type]) -> Cost:
    """The cost of a checked expression whose variables are of these types."""
    scope = {name: Part(declared=kind, kind=kind) for name, kind in variables.items()}
    found = _Estimator(scope).visit(tree).cost
    return Cost(found.least, found.most)


class _Estimator:
    def __init__(self, scope: dict[str, Part]) -> None:
        self._scope = scope

    def visit(self, node: Node) -> Part:
        return replace(_VISITS[type(node)](self, node), kind=node.type)

    def _inside(self, names: Mapping[str, Part], node: Node | None) -> Part:
        if node is None:
            return Part()
        kept = self._scope
        self._scope = {**kept, **names}
        found = self.visit(node)
        self._scope = kept
        return found

    def literal(self, node: Literal) -> Part:
        size = len(node.value) if isinstance(node.value, str | bytes) else 1
        return Part(size=fixed(size), literal=node.value)

    def ident(self, node: Ident) -> Part:
        return replace(self._scope.get(node.name, Part()), cost=fixed(1))

    def select(self, node: Select) -> Part:
        if node.named is not None:
            return Part(fixed(1))
        if node.variable:
            return replace(self._scope[node.variable], cost=fixed(1))
        operand = self.visit(node.operand)
        if node.test:
            return Part(operand.cost)
        cost = operand.cost + fixed(1 if node.operand.type.kind in ("map", "object", "dyn") else 0)
        declared = operand.declared
        if declared is None:
            return Part(cost)
        if declared.kind == "map":
            return Part(cost, declared=declared.params[1])
        return Part(cost, declared=declared.fields.get(node.field))

    def call(self, node: Call) -> Part:
        arguments = [self.visit(argument) for argument in node.arguments]
        if node.target is not None:
            arguments.insert(0, self.visit(node.target))
        if node.function == "_?_:_":
            return _conditional(*arguments)
        cost = sum((argument.cost for argument in arguments), ZERO)
        found = call_cost(node.function, arguments)
        return replace(found, cost=cost + found.cost)

    def logic(self, node: Logic) -> Part:
        parts = [self.visit(operand).cost for operand in node.operands]
        return Part(Span(parts[0].least, sum(parts, ZERO).most))

    def list_of(self, node: ListOf) -> Part:
        parts = [self.visit(element) for element in node.elements]
        value = _union([part.span for part in parts])
        cost = sum((part.cost for part in parts), fixed(10))
        return Part(cost, fixed(len(parts)), fixed(1), value)

    def map_of(self, node: MapOf) -> Part:
        keys = [self.visit(entry.key) for entry in node.entries]
        values = [self.visit(entry.value) for entry in node.entries]
        cost = sum((part.cost for part in [*keys, *values]), fixed(30))
        return Part(
            cost, fixed(len(keys)), _union([part.span for part in keys]), _union([part.span for part in values])
        )

    def struct(self, node: Struct) -> Part:
        return Part(sum((self.visit(entry.value).cost for entry in node.entries), fixed(40)))

    def bind(self, node: Bind) -> Part:
        value = self.visit(node.value)
        body = self._inside({node.name: value}, node.body)
        return replace(body, cost=fixed(10) + value.cost + body.cost)

    def opt_map(self, node: OptMap) -> Part:
        target = self.visit(node.target)
        body = self._inside({node.name: Part(declared=target.declared)}, node.body)
        present = target.cost + body.cost + fixed(11 if node.flat else 12)  # upstream looks at the target twice
        return Part(target.cost + fixed(1) + _union([present, fixed(1)]))

    def fold(self, node: Fold) -> Part:
        over = self.visit(node.over)
        names = self._names(node, over)
        when = self._inside(names, node.when)
        body = self._inside(names, node.body)
        start, around, end = _ROUNDS[node.macro]
        most = when.cost + body.cost + fixed(around)
        least = around if node.macro in ("all", "exists") else body.cost.least + 1
        rounds = over.span * Span(min(least, most.most), most.most)
        size = fixed(1) if node.macro in ("all", "exists", "exists_one") else over.span
        kept = body.span if node.macro != "filter" else names[node.names[0]].span
        value = Span(0, kept.most) if start >= 10 else None
        return Part(over.cost + fixed(start + end) + rounds, size, fixed(1) if value else None, value)

    def _names(self, node: Fold, over: Part) -> dict[str, Part]:
        is_map = node.over.type.kind == "map"
        if len(node.names) == 1:
            return {node.names[0]: over.inside(0)}
        first = over.inside(0) if is_map else Part(size=fixed(1))
        return {node.names[0]: first, node.names[1]: over.inside(1 if is_map else 0)}


# Of each macro: the steps before the first round, of each round beside condition and body, and at the end.
_ROUNDS = {
    "all": (0, 3, 1),
    "exists": (0, 4, 1),
    "exists_one": (0, 2, 2),
    "map": (10, 12, 1),
    "filter": (10, 13, 1),
    "transformMap": (30, 3, 1),
    "transformMapEntry": (30, 3, 1),
}


def _union(spans: list[Span]) -> Span:
    if not spans:
        return ZERO
    return Span(min(span.least for span in spans), max(span.most for span in spans))


def _conditional(condition: Part, yes: Part, no: Part) -> Part:
    size = _union([yes.span, no.span])
    value = _union([yes.value, no.value]) if yes.value and no.value else None
    return Part(condition.cost + _union([yes.cost, no.cost]), size, yes.key, value)


_VISITS: Mapping[type, Callable[[_Estimator, Any], Part]] = {
    Literal: _Estimator.literal,
    Ident: _Estimator.ident,
    Select: _Estimator.select,
    Call: _Estimator.call,
    Logic: _Estimator.logic,
    ListOf: _Estimator.list_of,
    MapOf: _Estimator.map_of,
    Struct: _Estimator.struct,
    Fold: _Estimator.fold,
    Bind: _Estimator.bind,
    OptMap: _Estimator.opt_map,
}
