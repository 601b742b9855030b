"""The type checker of CEL: assigns a type to every sub-expression and resolves the overloads of every call.

Messages are those of cel-go.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from levelset.cel.errors import CompileError, Issue
from levelset.cel.syntax_tree import (
    Bind,
    Call,
    Entry,
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
from levelset.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    TYPE_NAMES,
    UINT,
    Overload,
    Type,
    list_of,
    map_of,
    optional_of,
    param,
    type_of,
)
from levelset.cel.values import Uint

__all__ = ["Bindings", "check", "qualified"]

_NULLABLE = frozenset(("null_type", "object", "opaque", "timestamp", "duration", "optional"))


class Bindings:
    """The substitution of type parameters found so far (unification)."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """A new, unbound type variable."""
        self._count += 1
        return param(f"@{self._count}")

    def __len__(self) -> int:
        return len(self._bound)

    def undo(self, size: int) -> None:
        """Discards the bindings beyond this number of them."""
        for _ in range(len(self._bound) - size):
            self._bound.popitem()

    def find(self, kind: Type) -> Type:
        """The type that a type variable is bound to, resolved one level deep."""
        while kind.kind == "param" and kind.name in self._bound:
            kind = self._bound[kind.name]
        return kind

    def final(self, kind: Type) -> Type:
        """The type with all type variables substituted; unbound ones become dyn."""
        return self._substituted(kind, DYN)

    def known(self, kind: Type) -> Type:
        """The type with all type variables substituted that are bound by now."""
        return self._substituted(kind, None)

    def _substituted(self, kind: Type, unbound: Type | None) -> Type:
        found = self.find(kind)
        if found.kind == "param":
            return unbound or found
        if not found.params:
            return found
        params = tuple(self._substituted(each, unbound) for each in found.params)
        return found if all(map(_is, params, found.params)) else replace(found, params=params)

    def applied(self, overload: Overload, types: list[Type]) -> Type | None:
        """The result type of this overload for arguments of these types; None if they do not match."""
        if len(overload.params) != len(types):
            return None
        params, result = overload.params, overload.result
        if overload.is_generic:
            names: dict[str, Type] = {}
            params = tuple(self._renamed(kind, names) for kind in params)
            result = self._renamed(result, names)
        if not all(map(self.assign, params, types)):
            return None
        return result

    def _renamed(self, kind: Type, names: dict[str, Type]) -> Type:
        if kind.kind == "param":
            if kind.name not in names:
                names[kind.name] = self.fresh()
            return names[kind.name]
        if not kind.params:
            return kind
        return replace(kind, params=tuple(self._renamed(each, names) for each in kind.params))

    def assign(self, to: Type, value: Type) -> bool:
        """Whether a value of the second type is assignable to the first; binds type variables as needed."""
        to, value = self.find(to), self.find(value)
        if to.kind == "param":
            return self._bind(to, value)
        if value.kind == "param":
            return self._bind(value, to)
        if to.kind == "dyn" or value.kind == "dyn":
            return True
        if to.kind == "null_type" or value.kind == "null_type":
            return to.kind in _NULLABLE and value.kind in _NULLABLE
        if to.kind != value.kind or to.name != value.name:
            return False
        if to.kind == "object":
            return to.fields is value.fields
        if to.kind == "type":
            return True
        return all(map(self.assign, to.params, value.params))

    def _bind(self, opened: Type, kind: Type) -> bool:
        if kind.kind == "param" and kind.name == opened.name:
            return True
        if self._occurs(opened.name, kind):
            return False
        self._bound[opened.name] = kind
        return True

    def _occurs(self, name: str, kind: Type) -> bool:
        found = self.find(kind)
        return (found.kind == "param" and found.name == name) or any(self._occurs(name, each) for each in found.params)


def _is(one: Type, two: Type) -> bool:
    return one is two


Functions = Mapping[str, list[Overload]]
Structs = Callable[[str], Type | None]

_MIXED = frozenset(("format",))
_LITERALS: Mapping[type, Type] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


def check(text: str, tree: Node, variables: Mapping[str, Type], functions: Functions, structs: Structs) -> Type:
    """The type of this expression; annotates its tree with types. Raises CompileError with all type errors."""
    checker = _Checker(variables, functions, structs)
    checker.visit(tree)
    if checker.issues:
        raise CompileError(text, checker.issues)
    for node in checker.seen:
        node.type = checker.bindings.final(node.type)
    return tree.type


def qualified(node: Node) -> str | None:
    """The qualified name that a chain of field selections spells, such as `google.protobuf.Timestamp`."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional:
        names.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(names)]) if isinstance(node, Ident) else None


class _Checker:
    def __init__(self, variables: Mapping[str, Type], functions: Functions, structs: Structs) -> None:
        self.issues: list[Issue] = []
        self.seen: list[Node] = []
        self.bindings = Bindings()
        self._scopes: list[Mapping[str, Type]] = [variables]
        self._functions = functions
        self._structs = structs
        self._lenient = 0  # the arguments of some calls may be lists with elements of mixed types

    def visit(self, node: Node) -> Type:
        found = _VISITS[type(node)](self, node)
        node.type = found
        self.seen.append(node)
        return found

    def _fail(self, position: int, message: str) -> Type:
        if len(self.issues) < 100:
            self.issues.append(Issue(position, message))
        return DYN

    def _inside(self, names: Mapping[str, Type], node: Node) -> Type:
        self._scopes.append(names)
        found = self.visit(node)
        self._scopes.pop()
        return found

    def _lookup(self, name: str) -> Type | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def literal(self, node: Literal) -> Type:
        return _LITERALS[type(node.value)]

    def ident(self, node: Ident) -> Type:
        found = self._lookup(node.name)
        if found is not None:
            return found
        if node.name in TYPE_NAMES:
            node.named = TYPE_NAMES[node.name]
            return type_of(node.named)
        return self._fail(node.position, f"undeclared reference to '{node.name}' (in container '')")

    def select(self, node: Select) -> Type:
        name = qualified(node)
        if name is not None and name in TYPE_NAMES and self._lookup(name.split(".")[0]) is None:
            node.named = TYPE_NAMES[name]
            return type_of(node.named)
        variable = self._lookup(name) if name is not None and not node.test else None
        if name is not None and variable is not None:
            node.variable = name
            return variable
        operand = self.bindings.find(self.visit(node.operand))
        inner = operand.params[0] if operand.kind == "optional" else operand
        found = self._field(node, self.bindings.find(inner))
        if node.test:
            return BOOL
        return optional_of(found) if node.optional or operand.kind == "optional" else found

    def _field(self, node: Select, operand: Type) -> Type:
        if operand.kind == "map":
            return operand.params[1]
        if operand.kind in ("dyn", "param"):
            return DYN
        if operand.kind != "object":
            return self._fail(node.position, f"type '{operand}' does not support field selection")
        found = operand.field_type(node.field)
        return found if found is not None else self._fail(node.position, f"undefined field '{node.field}'")

    def call(self, node: Call) -> Type:
        name = qualified(node.target) if node.target is not None else None
        if name is not None and f"{name}.{node.function}" in self._functions and self._lookup(name) is None:
            node.target, node.function = None, f"{name}.{node.function}"
        self._lenient += node.function in _MIXED
        types = [self.visit(argument) for argument in node.arguments]
        self._lenient -= node.function in _MIXED
        if node.target is not None:
            types.insert(0, self.visit(node.target))
        overloads = self._functions.get(node.function)
        if overloads is None:
            return self._fail(node.position, f"undeclared reference to '{node.function}' (in container '')")
        return self._resolve(node, types, [each for each in overloads if each.is_method == (node.target is not None)])

    def _resolve(self, node: Call, types: list[Type], overloads: list[Overload]) -> Type:
        """The result type of the matching overloads; dyn if they have different ones.

        As upstream, the first match decides what type variables are: the items of `[]` are those of the first overload.
        """
        results: list[Type] = []
        for overload in overloads:
            before = len(self.bindings)
            result = self.bindings.applied(overload, types)
            if result is None:
                self.bindings.undo(before)
                continue
            node.overloads.append(overload)
            results.append(self.bindings.known(result) if len(overloads) > 1 else result)
        if not results:
            return self._mismatch(node, types)
        return results[0] if all(results[0].same(other) for other in results) else DYN

    def _mismatch(self, node: Call, types: list[Type]) -> Type:
        shown = [str(self.bindings.final(kind)) for kind in types]
        receiver = f"{shown.pop(0)}." if node.target is not None else ""
        applied = f"{receiver}({', '.join(shown)})"
        return self._fail(node.position, f"found no matching overload for '{node.function}' applied to '{applied}'")

    def logic(self, node: Logic) -> Type:
        for operand in node.operands:
            found = self.visit(operand)
            if not self.bindings.assign(BOOL, found):
                self._fail(operand.position, f"expected type 'bool' but found '{self.bindings.final(found)}'")
        return BOOL

    def list_of(self, node: ListOf) -> Type:
        item: Type | None = None
        for index, element in enumerate(node.elements):
            found = self._unwrapped(element, self.visit(element), optional=index in node.optional)
            item = self._joined(element.position, item, found)
        return list_of(self.bindings.fresh() if item is None else item)

    def map_of(self, node: MapOf) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._joined(entry.key.position, key, self.visit(entry.key))
            value = self._joined(entry.value.position, value, self._entry(entry))
        if key is None or value is None:
            return map_of(self.bindings.fresh(), self.bindings.fresh())
        return map_of(key, value)

    def struct(self, node: Struct) -> Type:
        found = self._structs(node.name)
        if found is None:
            return self._fail(node.position, f"undeclared reference to '{node.name}' (in container '')")
        for entry in node.entries:
            value = self._entry(entry)
            wanted = found.fields.get(entry.key) if found.kind == "object" else DYN
            if wanted is None:
                self._fail(entry.position, f"undefined field '{entry.key}'")
            elif not self.bindings.assign(wanted, value):
                message = f"expected type of field '{entry.key}' is '{wanted}' but provided type is '{value}'"
                self._fail(entry.position, message)
        return found

    def _entry(self, entry: Entry) -> Type:
        return self._unwrapped(entry.value, self.visit(entry.value), optional=entry.optional)

    def _unwrapped(self, node: Node, found: Type, *, optional: bool) -> Type:
        if not optional:
            return found
        inner = self.bindings.fresh()
        if not self.bindings.assign(optional_of(inner), found):
            return self._fail(node.position, f"expected type 'optional_type(dyn)' but found '{found}'")
        return DYN if self.bindings.find(found).kind == "dyn" else inner

    def _joined(self, position: int, one: Type | None, two: Type) -> Type:
        """The common type of the elements so far; all must have one type, or be dyn."""
        if one is None:
            return two
        first, second = self.bindings.find(one), self.bindings.find(two)
        if first.kind == "dyn" or second.kind == "dyn":
            return DYN
        if self.bindings.assign(first, second):
            return one
        if self._lenient:
            return DYN
        shown = self.bindings.final(first), self.bindings.final(second)
        return self._fail(position, f"expected type '{shown[0]}' but found '{shown[1]}'")

    def fold(self, node: Fold) -> Type:
        names = self._ranged(node, self.bindings.find(self.visit(node.over)))
        if node.when is not None:
            self._must_be_bool(node.when, self._inside(names, node.when))
        body = self._inside(names, node.body)
        if node.macro in ("all", "exists", "exists_one", "filter"):
            self._must_be_bool(node.body, body)
        if node.macro == "filter":
            return list_of(names[node.names[0]])
        if node.macro == "map":
            return list_of(body)
        if node.macro == "transformMap":
            return map_of(names[node.names[0]], body)
        if node.macro == "transformMapEntry":
            return self._entries(node, self.bindings.find(body))
        return BOOL

    def _entries(self, node: Fold, body: Type) -> Type:
        if body.kind not in ("map", "dyn"):
            return self._fail(node.body.position, f"expected type 'map(dyn, dyn)' but found '{body}'")
        return body if body.kind == "map" else map_of(DYN, DYN)

    def _ranged(self, node: Fold, over: Type) -> Mapping[str, Type]:
        kinds: tuple[Type, ...]
        if over.kind == "list":
            kinds = (INT, over.params[0]) if len(node.names) == 2 else (over.params[0],)
        elif over.kind == "map":
            kinds = over.params if len(node.names) == 2 else (over.params[0],)
        else:
            if over.kind not in ("dyn", "param"):
                self._fail(
                    node.over.position,
                    f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)",
                )
            kinds = (DYN,) * len(node.names)
        return dict(zip(node.names, kinds, strict=True))

    def _must_be_bool(self, node: Node, found: Type) -> None:
        if not self.bindings.assign(BOOL, found):
            self._fail(node.position, f"found no matching overload for '_&&_' applied to '(bool, {found})'")

    def bind(self, node: Bind) -> Type:
        return self._inside({node.name: self.visit(node.value)}, node.body)

    def opt_map(self, node: OptMap) -> Type:
        target = self.visit(node.target)
        inner = self.bindings.fresh()
        if not self.bindings.assign(optional_of(inner), target):
            shown = self.bindings.final(target)
            name = "optFlatMap" if node.flat else "optMap"
            return self._fail(node.position, f"found no matching overload for '{name}' applied to '{shown}'")
        body = self._inside({node.name: self.bindings.find(inner)}, node.body)
        if not node.flat:
            return optional_of(body)
        result = self.bindings.fresh()
        if not self.bindings.assign(optional_of(result), body):
            return self._fail(node.body.position, f"expected type 'optional_type(dyn)' but found '{body}'")
        return optional_of(result)


_VISITS: Mapping[type, Callable[[_Checker, Any], Type]] = {
    Literal: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Call: _Checker.call,
    Logic: _Checker.logic,
    ListOf: _Checker.list_of,
    MapOf: _Checker.map_of,
    Struct: _Checker.struct,
    Fold: _Checker.fold,
    Bind: _Checker.bind,
    OptMap: _Checker.opt_map,
}
