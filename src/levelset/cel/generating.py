"""Typed trees turned into Python: statements for what may fail, plain expressions for all else.

No text of an expression becomes code: names of variables are made up here, and texts, numbers and names of fields
stand as literals that `repr` wrote, or as constants beside the code.
"""

from collections.abc import Callable, Mapping
from collections.abc import Generator as Generated
from contextlib import contextmanager
from typing import Any

from levelset.cel import operators
from levelset.cel.charging import CHARGES
from levelset.cel.faults import CostExceeded, EvaluationError
from levelset.cel.tree import Bind, Ident, ListOf, Literal, Logic, MapOf, Node, OptMap, Select, Struct
from levelset.cel.types import Type
from levelset.cel.values import NONE, Made, Named, Optional

__all__ = ["FAILURES", "Generator", "boolean", "emitter"]

FAILURES = (EvaluationError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
_MAX_BLOCKS = 10  # of Python's limit of 20 for each function
_MAX_TEXT = 400  # characters of a plain expression, so that brackets do not nest without end

Emit = Callable[["Generator", Any], str]
_EMITS: dict[type, Emit] = {}


def emitter(kind: type) -> Callable[[Emit], Emit]:
    """Says that a function writes the code of trees of this kind."""

    def register(function: Emit) -> Emit:
        _EMITS[kind] = function
        return function

    return register


class Generator:
    """The code of one expression while it is written.

    `risky` says whether something that was written since it was last reset may fail; `weight` counts the steps.
    """

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self.constants: dict[str, Any] = dict(_HELPERS)
        self.risky = False
        self.weight = 0
        self.loops = 0
        self._functions: list[str] = []
        self._lines: list[str] = []
        self._indent = 1
        self._blocks = 0
        self._count = 0
        self._scope: list[tuple[str, str]] = [(name, self.name("v")) for name in variables]
        self._parameters = [made for _, made in self._scope]

    def function(self, tree: Node) -> Callable[..., Any]:
        """The function that evaluates this tree, of a budget and the variables in their order."""
        result = self.emit(tree)
        self.line(f"return {result}")
        head = f"def run({', '.join(['b', *self._parameters])}):"
        source = "\n".join([*self._functions, head, *self._lines])
        names: dict[str, Any] = {"__builtins__": {}, **self.constants}
        exec(compile(source, "<cel>", "exec"), names)  # noqa: S102 (only what was written here)
        made: Callable[..., Any] = names["run"]
        return made

    # Writing.

    def emit(self, node: Node) -> str:
        """Python that gives the value of a tree, once the statements written on the way have run."""
        if self._blocks >= _MAX_BLOCKS and node.height > 2:
            return self._outlined(node)
        text = _EMITS[type(node)](self, node)
        return self.stored(text) if len(text) > _MAX_TEXT else text

    def line(self, text: str) -> None:
        """Writes a statement."""
        self._lines.append(" " * self._indent + text)

    def name(self, prefix: str = "t") -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def stored(self, text: str, into: str | None = None) -> str:
        """The name of a variable that holds this value."""
        made = into or self.name()
        self.line(f"{made} = {text}")
        return made

    def atom(self, text: str) -> str:
        """The value as something that may be written twice."""
        return text if text.isidentifier() else self.stored(text)

    def constant(self, value: Any) -> str:
        """The name of a value that is known now."""
        made = self.name("k")
        self.constants[made] = value
        return made

    @contextmanager
    def block(self, head: str) -> Generated[None, None, None]:
        """The statements under a head such as `if x:`."""
        counts = not head.startswith(("if", "else", "elif"))
        self.line(head)
        self._indent += 1
        self._blocks += counts
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._indent -= 1
        self._blocks -= counts

    @contextmanager
    def bound(self, names: Mapping[str, str]) -> Generated[None, None, None]:
        """Names of the expression that stand for variables of the code."""
        self._scope.extend(names.items())
        yield
        del self._scope[-len(names) :]

    def variable(self, name: str) -> str:
        """The variable of the code that a name stands for."""
        return next(made for known, made in reversed(self._scope) if known == name)

    def _outlined(self, node: Node) -> str:
        """A call of a function of its own, as Python's blocks do not nest without limit."""
        kept = self._lines, self._indent, self._blocks
        self._lines, self._indent, self._blocks = [], 1, 0
        result = _EMITS[type(node)](self, node)
        self.line(f"return {result}")
        made = self.name("f")
        parameters = ", ".join(dict.fromkeys(["b", *(known for _, known in self._scope)]))
        self._functions.append("\n".join([f"def {made}({parameters}):", *self._lines]))
        self._lines, self._indent, self._blocks = kept
        self.risky = True
        return f"{made}({parameters})"

    def mark(self) -> int:
        """A place to write something into later."""
        self._lines.append("")
        return len(self._lines) - 1

    def charge_at(self, place: int, steps: int) -> None:
        """Writes, at a place marked before, that so many steps are taken from the budget, if it has them."""
        indent = " " * self._indent
        self._lines[place] = f"{indent}b.left -= {steps}\n{indent}if b.left < 0: raise CostExceeded()"

    @contextmanager
    def branch(self, head: str) -> Generated[None, None, None]:
        """A block that may not be reached: inside loops its steps count when it is, elsewhere they are too few."""
        before = self.weight
        with self.block(head):
            place = self.mark()
            yield
            if self.loops:
                self._lines[place] = f"{' ' * self._indent}b.left -= {self.weight - before}"
        self.weight = before

    # Trying.

    def attempt(self, node: Node, into: str, on_failure: list[str]) -> None:
        """Writes a tree, as a bool, into a variable; if it may fail, with what is to be done then."""
        kept, was_risky = self._lines, self.risky
        self._lines, self.risky = [], False
        self._indent += 1
        self._blocks += 1
        self.stored(boolean(node)(self.emit(node)), into=into)
        self._indent -= 1
        self._blocks -= 1
        lines, risky = self._lines, self.risky
        self._lines, self.risky = kept, was_risky or risky
        if not risky:
            self._lines.extend(line[1:] for each in lines for line in each.split("\n"))
            return
        self.line("try:")
        self._lines.extend(lines)
        self.line("except FAILURES as x:")
        for line in on_failure:
            self.line(f" {line}")


def boolean(node: Node) -> Callable[[str], str]:
    """What turns the value of this tree into a bool: nothing, if it is one for certain."""
    return str if node.type.kind == "bool" else lambda text: f"as_bool({text})"


_HELPERS: Mapping[str, Any] = {
    **{name: getattr(operators, name) for name in operators.__all__},
    **{f"charge_{name}": charge for name, charge in CHARGES.items()},
    "FAILURES": FAILURES,
    "NONE": NONE,
    "CostExceeded": CostExceeded,
    "EvaluationError": EvaluationError,
    "Made": Made,
    "Optional": Optional,
    "len": len,
    "enumerate": enumerate,
}


@emitter(Literal)
def _literal(g: Generator, node: Literal) -> str:
    value = node.value
    if type(value) in (bool, str, bytes, type(None)):
        return repr(value)
    if type(value) is int:
        return repr(value) if value >= 0 else f"({value!r})"
    return g.constant(value)


@emitter(Ident)
def _ident(g: Generator, node: Ident) -> str:
    g.weight += 1
    if node.named is not None:
        return g.constant(Named(_type_name(node.named)))
    return g.variable(node.name)


def _type_name(kind: Type) -> str:
    plain = {"timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}
    return plain.get(kind.kind) or kind.name or {"optional": "optional_type"}.get(kind.kind, kind.kind)


@emitter(Select)
def _select(g: Generator, node: Select) -> str:
    if node.named is not None:
        return g.constant(Named(_type_name(node.named)))
    if node.variable:
        return g.variable(node.variable)
    operand, kind = g.emit(node.operand), node.operand.type
    key = repr(kind.keys.get(node.field, node.field) if kind.kind == "object" else node.field)
    is_nullable = kind.kind == "object" and kind.fields[node.field].nullable
    if node.test:
        return _presence(g, operand, key, kind, is_nullable=is_nullable)
    g.weight += 1
    g.risky = True
    if node.optional or kind.kind == "optional":
        return f"maybe({operand}, {key})"
    if is_nullable:
        return f"field({operand}, {key})"
    return f"{operand}[{key}]" if kind.kind in ("object", "map") else f"select({operand}, {key})"


def _presence(g: Generator, operand: str, key: str, kind: Type, *, is_nullable: bool) -> str:
    if is_nullable:
        return f"({operand}.get({key}) is not None)"
    if kind.kind in ("object", "map"):
        return f"({key} in {operand})"
    g.risky = True
    return f"has_field({operand}, {key})"


@emitter(Logic)
def _logic(g: Generator, node: Logic) -> str:
    """`&&` and `||`: an operand that fails does not matter if another one decides."""
    is_and = node.operator == "&&"
    if all(map(_is_simple, node.operands)):
        return f"({(' and ' if is_and else ' or ').join(map(g.emit, node.operands))})"
    found, error = g.name(), g.name("e")
    condition = f"if {found}:" if is_and else f"if not {found}:"
    g.line(f"{error} = None")
    failed = [f"{error} = {error} or x", f"{found} = {is_and}"]
    g.attempt(node.operands[0], found, failed)
    for operand in node.operands[1:-1]:
        with g.branch(condition):
            g.attempt(operand, found, failed)
    with g.branch(condition):
        g.stored(boolean(node.operands[-1])(g.emit(node.operands[-1])), into=found)
    g.line(f"if {error} is not None and {'' if is_and else 'not '}{found}: raise {error}")
    g.risky = True
    return found


def _is_simple(node: Node) -> bool:
    """Whether a tree is surely a plain expression that cannot fail."""
    if isinstance(node, Select):
        is_kept = node.operand.type.kind in ("object", "map")
        return node.test and is_kept and isinstance(node.operand, Ident) and node.operand.named is None
    return isinstance(node, Literal | Ident) and node.type.kind == "bool"


@emitter(ListOf)
def _list(g: Generator, node: ListOf) -> str:
    g.weight += 10
    if node.optional:
        found = g.stored("[]")
        for place, element in enumerate(node.elements):
            value = g.atom(g.emit(element))
            is_optional = place in node.optional
            g.line(
                f"if {value} is not NONE: {found}.append({value}.value)" if is_optional else f"{found}.append({value})"
            )
        return found
    if node.elements and all(isinstance(element, Literal) for element in node.elements):
        return g.constant([element.value for element in node.elements if isinstance(element, Literal)])
    return f"[{', '.join(g.emit(element) for element in node.elements)}]"


@emitter(MapOf)
def _map(g: Generator, node: MapOf) -> str:
    g.weight += 30
    g.risky = True
    if not any(entry.optional for entry in node.entries):
        return f"make_map([{', '.join(f'({g.emit(entry.key)}, {g.emit(entry.value)})' for entry in node.entries)}])"
    found = g.stored("[]")
    for entry in node.entries:
        key, value = g.atom(g.emit(entry.key)), g.atom(g.emit(entry.value))
        if entry.optional:
            g.line(f"if {value} is not NONE: {found}.append(({key}, {value}.value))")
        else:
            g.line(f"{found}.append(({key}, {value}))")
    return f"make_map({found})"


@emitter(Struct)
def _struct(g: Generator, node: Struct) -> str:
    g.weight += 40
    # What the schema of the object will be is known only later: the name is checked then.
    found = g.stored(f"Made({node.name!r})" if node.type.kind == "dyn" else "{}")
    for entry in node.entries:
        value = g.atom(g.emit(entry.value))
        key = repr(node.type.keys.get(entry.key, entry.key))
        if entry.optional:
            g.line(f"if {value} is not NONE: {found}[{key}] = {value}.value")
        else:
            g.line(f"{found}[{key}] = {value}")
    return found


@emitter(Bind)
def _bind(g: Generator, node: Bind) -> str:
    g.weight += 10
    made = g.stored(g.emit(node.value), into=g.name("v"))
    with g.bound({node.name: made}):
        return g.emit(node.body)


@emitter(OptMap)
def _opt_map(g: Generator, node: OptMap) -> str:
    target = g.atom(g.emit(node.target))
    found = g.stored("NONE")
    with g.block(f"if {target} is not NONE:"):
        made = g.stored(f"{target}.value", into=g.name("v"))
        with g.bound({node.name: made}):
            body = g.emit(node.body)
        g.stored(body if node.flat else f"Optional({body})", into=found)
    g.risky = True
    return found
