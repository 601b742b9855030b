"""Static cost estimation of CEL expressions, with the cost model and figures of Kubernetes.

The worst case is computed from the size limits in the schema, before any value is known. Sizes and costs are ranges
(`SizeRange`); LARGEST stands for unbounded. `Estimate` is the estimate for one sub-expression.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from levelset.cel.syntax_tree import (
    Bind,
    Call,
    Fold,
    Ident,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Node,
    OptMap,
    Select,
    Struct,
)
from levelset.cel.types import Type

__all__ = ["LARGEST", "UNKNOWN", "ZERO", "Cost", "Estimate", "SizeRange", "call_cost", "estimate", "fixed"]

LARGEST = 2**64 - 1


class SizeRange(msgspec.Struct, frozen=True):
    """The range from `least` to `most`, both included."""

    least: int
    most: int

    def __add__(self, other: "SizeRange") -> "SizeRange":
        return SizeRange(min(self.least + other.least, LARGEST), min(self.most + other.most, LARGEST))

    def __mul__(self, other: "SizeRange") -> "SizeRange":
        return SizeRange(min(self.least * other.least, LARGEST), min(self.most * other.most, LARGEST))

    def scaled(self, factor: float) -> "SizeRange":
        """Both bounds times a factor, rounded up."""
        return SizeRange(_scaled(self.least, factor), _scaled(self.most, factor))


def _scaled(number: int, factor: float) -> int:
    return min(math.ceil(float(number) * factor), LARGEST) if number < LARGEST or factor < 1 else LARGEST


def fixed(number: int) -> SizeRange:
    """The range of exactly this number."""
    return SizeRange(number, number)


ZERO = fixed(0)
UNKNOWN = SizeRange(0, LARGEST)


_SIZED = frozenset(("string", "bytes", "list", "map", "dyn"))
_SCALARS = frozenset(("bool", "int", "uint", "double", "timestamp", "duration"))


class Estimate(msgspec.Struct, frozen=True):
    """The estimate for a sub-expression: cost, size, sizes of its elements, and the schema type at its path.

    A path begins with a variable and goes on with fields and elements (`is_path`); `declared` is what the schema has
    there, if anything. Upstream ignores the first step of a path: what is below an expression without a path (the items
    of a call's result, say) is taken for the `root` of the schema.
    """

    cost: SizeRange = ZERO
    size: SizeRange | None = None
    key: SizeRange | None = None
    value: SizeRange | None = None
    declared: Type | None = None
    is_path: bool = False
    root: Type | None = None
    kind: Type | None = None
    literal: Any = None

    @property
    def span(self) -> SizeRange:
        """The size, if it is known; otherwise the bound from the schema or UNKNOWN."""
        if self.size is not None:
            return self.size
        if self.declared is not None and self.declared.max_elements is not None:
            return SizeRange(0, self.declared.max_elements)
        if self.declared is not None and self.declared.kind not in _SIZED:
            return ZERO
        if self.kind is not None and self.kind.kind == "type":
            return ZERO
        if self.kind is not None and self.kind.kind in _SCALARS:
            return fixed(1)
        return UNKNOWN

    def inside(self, place: int) -> "Estimate":
        """The estimate for an item of a list, or for a key (place 0) or a value of a map."""
        kind = self.kind
        inner = kind.params[place] if kind is not None and len(kind.params) > place else None
        is_key = kind is not None and kind.kind == "map" and place == 0
        declared = self.element_type(place) if self.is_path else self.root
        return Estimate(size=self.key if is_key else self.value, declared=declared, is_path=True, kind=inner)

    def element_type(self, place: int) -> Type | None:
        """What the schema has for the elements; None if it is not known."""
        known = self.declared.params if self.declared is not None else ()
        return known[place] if len(known) > place else None


_TENTH = 0.1
_MAX_FORMAT = 64  # characters of the name of a format
_ONE = fixed(1)


def _union(spans: list[SizeRange]) -> SizeRange:
    if not spans:
        return ZERO
    return SizeRange(min(span.least for span in spans), max(span.most for span in spans))


def call_cost(function: str, parts: list[Estimate]) -> Estimate:
    """The cost of a call itself and the size of its result; the parts are the receiver, if any, and the arguments."""
    known = _COSTS.get(function)
    found = known(parts) if known is not None and parts else None
    return found if found is not None else Estimate(_ONE)


def _dyn(parts: list[Estimate]) -> Estimate:
    only = parts[0]
    return Estimate(_ONE, only.span, only.key, only.value)


def _index(parts: list[Estimate]) -> Estimate:
    over = parts[0]
    place = 1 if over.kind is not None and over.kind.kind == "map" else 0
    inner = over.inside(place)
    return Estimate(_ONE, inner.size, declared=inner.declared, is_path=True)


def _compared(parts: list[Estimate]) -> Estimate | None:
    """Equality, and the order of strings: proportional to the smaller operand."""
    kinds = [part.kind for part in parts]
    if kinds[0] is not None and kinds[1] is not None and kinds[0].kind == "opaque" and kinds[0].same(kinds[1]):
        most = _MAX_FORMAT if kinds[0].name == "kubernetes.NamedFormat" else 1
        if kinds[0].name == "kubernetes.URL" and parts[1].size is not None:
            most = parts[1].size.most
        return Estimate(SizeRange(1, most).scaled(_TENTH))
    return _compared_by_size(parts)


def _compared_by_size(parts: list[Estimate]) -> Estimate:
    """Inequality: upstream knows what it costs to compare opaque values for equality only."""
    most = min(part.span.most for part in parts)
    return Estimate(SizeRange(1 if most > 0 else 0, most).scaled(_TENTH))


def _type(_: list[Estimate]) -> Estimate:
    return Estimate(_ONE, UNKNOWN)


def _ordered(parts: list[Estimate]) -> Estimate | None:
    kinds = {part.kind.kind if part.kind is not None else "dyn" for part in parts}
    return _compared(parts) if kinds <= {"string", "bytes", "dyn"} else None


def _added(parts: list[Estimate]) -> Estimate | None:
    kind = parts[0].kind.kind if parts[0].kind is not None else "dyn"
    if kind not in ("string", "bytes", "list"):
        return None
    size = parts[0].span + parts[1].span
    one, two = parts[0].value, parts[1].value
    value = SizeRange(min(one.least, two.least), max(one.most, two.most)) if one and two else None
    cost = _ONE if kind == "list" else size.scaled(_TENTH)
    return Estimate(cost, size, fixed(1) if value else None, value)


def _in(parts: list[Estimate]) -> Estimate | None:
    kind = parts[1].kind.kind if parts[1].kind is not None else "dyn"
    if kind == "map":
        return None
    return Estimate(_union([parts[1].span, _ONE]) if kind == "dyn" else parts[1].span)


def _prefix(parts: list[Estimate]) -> Estimate:
    return Estimate(parts[1].span.scaled(_TENTH))


def _contained(parts: list[Estimate]) -> Estimate:
    return Estimate(parts[0].span.scaled(_TENTH) * parts[1].span.scaled(_TENTH))


def _regex(parts: list[Estimate]) -> Estimate:
    text = (parts[0].span + _ONE).scaled(_TENTH)
    return Estimate(text * parts[1].span.scaled(0.25), SizeRange(0, parts[0].span.most))


def _matches(parts: list[Estimate]) -> Estimate:
    return Estimate(_regex(parts).cost)


def _walked(parts: list[Estimate]) -> Estimate:
    """Sums, extremes and indexes: one step for each item, and the characters of items that are strings."""
    over = parts[0]
    if over.kind is None or over.kind.kind != "list":
        return Estimate(over.span.scaled(_TENTH))
    item = over.kind.params[0]
    each = _ONE
    if item.kind in ("string", "bytes"):
        each = _ONE + Estimate(declared=over.element_type(0), kind=item).span.scaled(_TENTH)
    return Estimate(over.span * each)


def _traversed(parts: list[Estimate]) -> Estimate:
    return Estimate(parts[0].span.scaled(_TENTH), parts[0].span)


def _parsed(parts: list[Estimate]) -> Estimate:
    return Estimate(parts[0].span.scaled(_TENTH))


def _ip(parts: list[Estimate]) -> Estimate:
    is_cidr = parts[0].kind is not None and parts[0].kind.kind == "opaque"
    return Estimate(_ONE) if is_cidr else _parsed(parts)


def _parsed_twice(parts: list[Estimate]) -> Estimate:
    return Estimate(parts[0].span.scaled(2 * _TENTH))


def _split(parts: list[Estimate]) -> Estimate:
    size = parts[0].span
    limit = parts[2].literal if len(parts) > 2 else None
    most = limit if isinstance(limit, int) and limit >= 0 else size.most
    return Estimate(size.scaled(2 * _TENTH), SizeRange(0, most))


def _replaced(parts: list[Estimate]) -> Estimate:
    size, old, new = (part.span for part in parts[:3])
    least = _replacements(size.least, old.most, new.least, shrinks=True)
    most = _replacements(size.most, old.least, new.most, shrinks=False)
    return Estimate(size.scaled(2 * _TENTH), SizeRange(min(least, LARGEST), min(most, LARGEST)))


def _replacements(size: int, old: int, new: int, *, shrinks: bool) -> int:
    """The size of a string in which parts of one size are replaced by parts of another."""
    if old == 0:
        return (size + 1) * new + size
    if (old <= new) if shrinks else (new <= old):
        return size
    return -(-size // old) * new


def _joined(parts: list[Estimate]) -> Estimate:
    over = parts[0]
    item = over.kind.params[0] if over.kind is not None and over.kind.params else None
    size = over.span * Estimate(declared=over.element_type(0), kind=item).span
    if len(parts) > 1:
        gaps = SizeRange(max(over.span.least - 1, 0), max(over.span.most - 1, 0))
        size = size + parts[1].span * gaps
    return Estimate(size.scaled(_TENTH), size)


def _contains_ip(parts: list[Estimate]) -> Estimate:
    cost = SizeRange(8, 32).scaled(_TENTH)
    return Estimate(cost + _as_text(parts[1]))


def _contains_cidr(parts: list[Estimate]) -> Estimate:
    cost = SizeRange(8, 32).scaled(_TENTH) + SizeRange(4, 16).scaled(_TENTH) + _ONE
    return Estimate(cost + _as_text(parts[1]))


def _as_text(part: Estimate) -> SizeRange:
    is_text = part.kind is not None and part.kind.kind == "string"
    return part.span.scaled(_TENTH) if is_text else fixed(0)


def _validated(parts: list[Estimate]) -> Estimate:
    return Estimate(parts[1].span.scaled(_TENTH).scaled(32))


def _selector(parts: list[Estimate]) -> Estimate:
    size = parts[1].span
    return Estimate(fixed(10) + size.scaled(_TENTH) + size.scaled(0.5).scaled(50))


def _checked(_: list[Estimate]) -> Estimate:
    return Estimate(fixed(350_000))


def _product(parts: list[Estimate]) -> Estimate:
    return Estimate((parts[0].span * parts[1].span).scaled(1) + _ONE)  # rounded to a double, as upstream


def _twice_product(parts: list[Estimate]) -> Estimate:
    return Estimate((parts[0].span * parts[1].span).scaled(2) + _ONE)


def _as_limit(part: Estimate, otherwise: int) -> int:
    """The value of an integer literal, 0 for a negative one; `otherwise` for other expressions."""
    if isinstance(part.literal, bool) or not isinstance(part.literal, int):
        return otherwise
    return max(part.literal, 0)


def _new_list(size: SizeRange, factor: float = 1) -> Estimate:
    return Estimate(size.scaled(factor) + fixed(11), size)


def _slice(parts: list[Estimate]) -> Estimate:
    # Unsigned, as upstream subtracts: a slice that ends before it starts counts as an endless one.
    length = _as_limit(parts[2], parts[0].span.most) - _as_limit(parts[1], 0)
    return _new_list(fixed(length % (LARGEST + 1)))


def _reverse(parts: list[Estimate]) -> Estimate:
    return _new_list(parts[0].span)


def _flatten(parts: list[Estimate]) -> Estimate:
    return _new_list(parts[0].span, _as_limit(parts[1], LARGEST) if len(parts) > 1 else 1)


def _range(parts: list[Estimate]) -> Estimate:
    return _new_list(fixed(_as_limit(parts[0], LARGEST)))


def _distinct(parts: list[Estimate]) -> Estimate:
    return _new_list(parts[0].span * parts[0].span, 2)


def _sort(parts: list[Estimate]) -> Estimate:
    by = parts[-1]
    item = by.kind.params[0].kind if by.kind is not None and by.kind.params else ""
    return _new_list(by.span * by.span, 2 + _TENTH if item in ("string", "bytes") else 2)


def _to_string(parts: list[Estimate]) -> Estimate | None:
    size = parts[0].span
    if parts[0].kind is None or parts[0].kind.kind not in ("bytes", "dyn"):
        return None
    cost = size.scaled(_TENTH)
    if parts[0].kind.kind == "dyn":
        cost = _union([cost, _ONE])
    return Estimate(cost, SizeRange(size.least // 4, size.most))


def _to_bytes(parts: list[Estimate]) -> Estimate | None:
    size = parts[0].span
    if parts[0].kind is None or parts[0].kind.kind not in ("string", "dyn"):
        return None
    cost = size.scaled(_TENTH)
    if parts[0].kind.kind == "dyn":
        cost = _union([cost, _ONE])
    return Estimate(cost, SizeRange(size.least, size.most * 4 % (LARGEST + 1)))


def _quoted(parts: list[Estimate]) -> Estimate:
    size = parts[0].span
    return Estimate(size.scaled(_TENTH), SizeRange(size.least + 2, (size.most * 2 + 2) % (LARGEST + 1)))


_COSTS: Mapping[str, Callable[[list[Estimate]], Estimate | None]] = {
    "dyn": _dyn,
    "type": _type,
    "_[_]": _index,
    "_==_": _compared,
    "_!=_": _compared_by_size,
    "_<_": _ordered,
    "_<=_": _ordered,
    "_>_": _ordered,
    "_>=_": _ordered,
    "_+_": _added,
    "@in": _in,
    "startsWith": _prefix,
    "endsWith": _prefix,
    "contains": _contained,
    "matches": _matches,
    "find": _regex,
    "findAll": _regex,
    "split": _split,
    "replace": _replaced,
    "join": _joined,
    "ip": _ip,
    "ip.isCanonical": _parsed_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validated,
    "check": _checked,
    "sets.contains": _product,
    "sets.intersects": _product,
    "sets.equivalent": _twice_product,
    "lists.range": _range,
    "string": _to_string,
    "bytes": _to_bytes,
    "strings.quote": _quoted,
    "format": _parsed,
    "slice": _slice,
    "reverse": _reverse,
    "flatten": _flatten,
    "distinct": _distinct,
    **dict.fromkeys(("isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"), _walked),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _traversed),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _parsed),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), _sort),
}


class Cost(msgspec.Struct, frozen=True):
    """The minimum and the maximum number of steps."""

    least: int
    most: int


def estimate(tree: Node, variables: Mapping[str, Type]) -> Cost:
    """The cost of a checked expression, given the types of its variables."""
    root = variables.get("self")
    scope = {name: Estimate(declared=root or kind, is_path=True, kind=kind) for name, kind in variables.items()}
    found = _Estimator(scope, root).visit(tree).cost
    return Cost(found.least, found.most)


def _of_variable(bound: Estimate) -> Estimate:
    """What a variable is; the size that the schema has for its path counts before that of what it was bound to."""
    return replace(bound, size=None) if bound.declared is not None else bound


class _Estimator:
    def __init__(self, scope: dict[str, Estimate], root: Type | None) -> None:
        self._scope = scope
        self._root = root

    def visit(self, node: Node) -> Estimate:
        return replace(_VISITS[type(node)](self, node), kind=node.type, root=self._root)

    def _inside(self, names: Mapping[str, Estimate], node: Node | None) -> Estimate:
        if node is None:
            return Estimate()
        outer = self._scope
        self._scope = {**outer, **names}
        found = self.visit(node)
        self._scope = outer
        return found

    def literal(self, node: Literal) -> Estimate:
        size = len(node.value) if isinstance(node.value, str | bytes) else 1
        return Estimate(size=fixed(size), literal=node.value)

    def ident(self, node: Ident) -> Estimate:
        return replace(_of_variable(self._scope.get(node.name, Estimate())), cost=fixed(1))

    def select(self, node: Select) -> Estimate:
        if node.named is not None:
            return Estimate(fixed(1))
        if node.variable:
            return replace(self._scope[node.variable], cost=fixed(1))
        operand = self.visit(node.operand)
        if node.test:
            return Estimate(operand.cost)
        cost = operand.cost + fixed(1 if node.operand.type.kind in ("map", "object", "dyn") else 0)
        if node.optional:
            return Estimate(operand.cost + fixed(1))
        if not operand.is_path:
            return Estimate(cost, declared=self._root, is_path=True)
        known = operand.declared
        return Estimate(cost, declared=known.fields.get(node.field) if known is not None else None, is_path=True)

    def call(self, node: Call) -> Estimate:
        arguments = [self.visit(argument) for argument in node.arguments]
        if node.target is not None:
            arguments.insert(0, self.visit(node.target))
        if node.function == "_?_:_":
            return _conditional(*arguments)
        cost = sum((argument.cost for argument in arguments), ZERO)
        found = call_cost(node.function, arguments)
        return replace(found, cost=cost + found.cost)

    def logic(self, node: Logic) -> Estimate:
        parts = [self.visit(operand).cost for operand in node.operands]
        return Estimate(SizeRange(parts[0].least, sum(parts, ZERO).most))

    def list_of(self, node: ListOf) -> Estimate:
        parts = [self.visit(element) for element in node.elements]
        value = _union([part.span for part in parts])
        cost = sum((part.cost for part in parts), fixed(10))
        return Estimate(cost, fixed(len(parts)), fixed(1), value)

    def map_of(self, node: MapOf) -> Estimate:
        keys = [self.visit(entry.key) for entry in node.entries]
        values = [self.visit(entry.value) for entry in node.entries]
        cost = sum((part.cost for part in [*keys, *values]), fixed(30))
        return Estimate(
            cost, fixed(len(keys)), _union([part.span for part in keys]), _union([part.span for part in values])
        )

    def struct(self, node: Struct) -> Estimate:
        return Estimate(sum((self.visit(entry.value).cost for entry in node.entries), fixed(40)))

    def bind(self, node: Bind) -> Estimate:
        value = self.visit(node.value)
        body = self._inside({node.name: value}, node.body)
        return replace(body, cost=fixed(10) + value.cost + body.cost)

    def opt_map(self, node: OptMap) -> Estimate:
        target = self.visit(node.target)
        body = self._inside({node.name: Estimate()}, node.body)
        present = target.cost + body.cost + fixed(11 if node.flat else 12)  # upstream evaluates the target twice
        return Estimate(target.cost + fixed(1) + _union([present, fixed(1)]))

    def fold(self, node: Fold) -> Estimate:
        over = self.visit(node.over)
        names = self._names(node, over)
        when = self._inside(names, node.when)
        body = self._inside(names, node.body)
        start, around, end = _ROUNDS[node.macro]
        most = when.cost + body.cost + fixed(around)
        least = around if node.macro in ("all", "exists") else body.cost.least + 1
        rounds = over.span * SizeRange(min(least, most.most), most.most)
        size = fixed(1) if node.macro in ("all", "exists", "exists_one") else over.span
        selected = body.span if node.macro != "filter" else _of_variable(names[node.names[0]]).span
        value = SizeRange(0, selected.most) if start >= 10 else None
        return Estimate(over.cost + fixed(start + end) + rounds, size, fixed(1) if value else None, value)

    def _names(self, node: Fold, over: Estimate) -> dict[str, Estimate]:
        is_map = node.over.type.kind == "map"
        if len(node.names) == 1:
            return {node.names[0]: over.inside(0)}
        first = over.inside(0) if is_map else Estimate(size=fixed(1))
        return {node.names[0]: first, node.names[1]: over.inside(1 if is_map else 0)}


# For each macro: the steps before the first iteration, of each iteration besides condition and body, and at the end.
_ROUNDS = {
    "all": (0, 3, 1),
    "exists": (0, 4, 1),
    "exists_one": (0, 2, 2),
    "map": (10, 12, 1),
    "filter": (10, 13, 1),
    "transformMap": (30, 3, 1),
    "transformMapEntry": (30, 2, 1),
}


def _conditional(condition: Estimate, yes: Estimate, no: Estimate) -> Estimate:
    size = _union([yes.span, no.span])
    value = _union([yes.value, no.value]) if yes.value and no.value else None
    return Estimate(condition.cost + _union([yes.cost, no.cost]), size, yes.key, value)


_VISITS: Mapping[type, Callable[[_Estimator, Any], Estimate]] = {
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
