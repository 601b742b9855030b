"""Compiles type-checked CEL expressions to Python functions.

Sub-expressions that may fail become statements, all others plain Python expressions. Calls are inlined where the types
are known and dispatched by value where they are not; macros become loops, and each iteration is charged to the budget.

Long expressions become many small functions, compiled one after the other: Python compiles a function without letting
other threads run, so that one of thousands of lines would stop an event loop beside it.

No text of an expression becomes code: variable names are generated, and strings, numbers and field names are literals
written by `repr`, or constants in the namespace.
"""

from collections.abc import Callable, Mapping
from collections.abc import Generator as Generated
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from levelset.cel import dynamic_operators
from levelset.cel.errors import CostExceeded, EvaluationError
from levelset.cel.library.regexes import compile_pattern
from levelset.cel.runtime_cost import CHARGES
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
from levelset.cel.types import Overload, Type
from levelset.cel.values import (
    MAX_INT,
    MIN_INT,
    NONE,
    Duration,
    Made,
    Named,
    Optional,
    Timestamp,
    Uint,
    is_list,
    is_map,
    no_overload,
    type_name,
)

__all__ = ["FAILURES", "Generator", "boolean", "call", "emitter", "fold"]

FAILURES = (EvaluationError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
_MAX_BLOCKS = 10  # Python allows 20 nested blocks in each function
_MAX_TEXT = 400  # characters of a plain expression; longer ones become statements
_MAX_LINES = 100  # of a function; what follows gets functions of its own
_MAX_PARTS = 40  # operands, elements or entries that are written in one function

_T = TypeVar("_T")
Emit = Callable[["Generator", Any], str]
_EMITS: dict[type, Emit] = {}


def emitter(kind: type) -> Callable[[Emit], Emit]:
    """Registers a function that writes the code of nodes of this class."""

    def register(function: Emit) -> Emit:
        _EMITS[kind] = function
        return function

    return register


class Generator:
    """The code generator of one expression.

    `risky` is set if code written since it was last reset may fail; `weight` counts the steps.
    """

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self.constants: dict[str, Any] = dict(_HELPERS)
        self.risky = False
        self.weight = 0
        self.loops = 0
        self._functions: list[list[str]] = []
        self._lines: list[str] = []
        self._size: int = 0
        self._indent = 1
        self._blocks = 0
        self._count = 0
        self._scope: list[tuple[str, str]] = [(name, self.name("v")) for name in variables]
        self._parameters = [made for _, made in self._scope]

    def function(self, tree: Node) -> Callable[..., Any]:
        """The function that evaluates this tree; its parameters are a budget and the variables, in order."""
        result = self.emit(tree)
        self.line(f"return {result}")
        self._functions.append([f"def run({', '.join(['b', *self._parameters])}):", *self._lines])
        names: dict[str, Any] = {"__builtins__": {}, **self.constants}
        for source in _pieces(self._functions):
            exec(compile(source, "<cel>", "exec"), names)  # noqa: S102 (only what was written here)
        made: Callable[..., Any] = names["run"]
        return made

    # Emitting code.

    def emit(self, node: Node) -> str:
        """A Python expression for the value of a tree; the statements that it depends on are written first."""
        write = _EMITS[type(node)]
        if node.height > 2 and (self._blocks >= _MAX_BLOCKS or self._size >= _MAX_LINES):
            return self.apart(lambda: write(self, node))
        text = write(self, node)
        return self.stored(text) if len(text) > _MAX_TEXT else text

    def line(self, text: str) -> None:
        """Writes a statement."""
        self._size += 1
        self._lines.append(" " * self._indent + text)

    def name(self, prefix: str = "t") -> str:
        """An unused name."""
        self._count += 1
        return f"{prefix}{self._count}"

    def stored(self, text: str, into: str | None = None) -> str:
        """Stores the value in a variable; returns its name."""
        made = into or self.name()
        self.line(f"{made} = {text}")
        return made

    def atom(self, text: str) -> str:
        """The value as a name or literal, which may be used twice without evaluating it twice."""
        return text if text.isidentifier() else self.stored(text)

    def constant(self, value: Any) -> str:
        """The name of a constant in the namespace that holds this value."""
        made = self.name("k")
        self.constants[made] = value
        return made

    @contextmanager
    def block(self, head: str) -> Generated[None, None, None]:
        """The statements under a header such as `if x:`."""
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
        """Binds names of the expression to variables of the generated code."""
        self._scope.extend(names.items())
        yield
        del self._scope[-len(names) :]

    def variable(self, name: str) -> str:
        """The variable of the generated code that a name is bound to."""
        return next(made for known, made in reversed(self._scope) if known == name)

    def apart(self, write: Callable[[], str]) -> str:
        """A call of a separate function for what `write` emits.

        Python limits how deeply blocks nest, and compiles a function in one piece, however long it is.
        """
        saved = self._lines, self._indent, self._blocks, self._size
        self._lines, self._indent, self._blocks, self._size = [], 1, 0, 0
        result = write()
        self.line(f"return {result}")
        made = self.name("f")
        parameters = ", ".join(dict.fromkeys(["b", *(known for _, known in self._scope)]))
        self._functions.append([f"def {made}({parameters}):", *self._lines])
        self._lines, self._indent, self._blocks, self._size = saved
        self.risky = True
        return f"{made}({parameters})"

    def mark(self) -> int:
        """A position in the code at which a statement can be inserted later."""
        self._lines.append("")
        return len(self._lines) - 1

    def charge_at(self, place: int, steps: int) -> None:
        """Inserts, at a marked position, a statement that charges so many steps to the budget."""
        indent = " " * self._indent
        self._lines[place] = f"{indent}b.left -= {steps}\n{indent}if b.left < 0: raise CostExceeded()"

    @contextmanager
    def branch(self, head: str) -> Generated[None, None, None]:
        """A conditional block: inside loops its steps are charged when it runs; elsewhere they are too few to count."""
        before = self.weight
        with self.block(head):
            place = self.mark()
            yield
            if self.loops:
                self._lines[place] = f"{' ' * self._indent}b.left -= {self.weight - before}"
        self.weight = before

    # Handling of failures.

    def attempt(self, node: Node, into: str, on_failure: list[str]) -> None:
        """Assigns a tree, as a bool, to a variable; if it may fail, `on_failure` are the lines of the handler."""
        saved, was_risky = self._lines, self.risky
        self._lines, self.risky = [], False
        self._indent += 1
        self._blocks += 1
        self.stored(boolean(node)(self.emit(node)), into=into)
        self._indent -= 1
        self._blocks -= 1
        lines, risky = self._lines, self.risky
        self._lines, self.risky = saved, was_risky or risky
        if not risky:
            self._lines.extend(line[1:] for each in lines for line in each.split("\n"))
            return
        self.line("try:")
        self._lines.extend(lines)
        self.line("except FAILURES as x:")
        for line in on_failure:
            self.line(f" {line}")


def _pieces(functions: list[list[str]]) -> Generated[str, None, None]:
    """The source of these functions, several together while they are short."""
    lines: list[str] = []
    for function in functions:
        if lines and len(lines) + len(function) > _MAX_LINES:
            yield "\n".join(lines)
            lines = []
        lines += function
    yield "\n".join(lines)


def _parts(items: list[_T]) -> list[list[_T]]:
    """The items in parts that fit into one function each."""
    size = max(_MAX_PARTS, -(-len(items) // _MAX_PARTS))
    return [items[at : at + size] for at in range(0, len(items), size)]


def boolean(node: Node) -> Callable[[str], str]:
    """The function that turns the source of this tree's value into that of a bool; unchanged if it always is one."""
    return str if node.type.kind == "bool" else lambda text: f"as_bool({text})"


_HELPERS: Mapping[str, Any] = {
    **{name: getattr(dynamic_operators, name) for name in dynamic_operators.__all__},
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
    declared = kind.field_type(node.field) if kind.kind == "object" else None
    is_nullable = declared is not None and declared.nullable
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
    """`&&` and `||`: an operand that fails is ignored if another one determines the result."""
    is_and = node.operator == "&&"
    if len(node.operands) > _MAX_PARTS:
        node = _nested(node)
    if all(map(_is_simple, node.operands)):
        return f"({(' and ' if is_and else ' or ').join(map(g.emit, node.operands))})"
    found, error = g.name(), g.name("e")
    condition = f"if {found}:" if is_and else f"if not {found}:"
    g.line(f"{error} = None")
    failed = [f"{error} = {error} or x", f"{found} = {is_and}"]
    g.attempt(node.operands[0], found, failed)
    for operand in node.operands[1:]:
        with g.branch(condition):
            g.attempt(operand, found, failed)
    g.line(f"if {error} is not None and {'' if is_and else 'not '}{found}: raise {error}")
    g.risky = True
    return found


def _nested(node: Logic) -> Logic:
    """The same as a tree of shorter ones, which has the same value and the same first failure."""
    parts = [Logic(part[0].position, node.operator, part) for part in _parts(node.operands)]
    for part in parts:
        part.height, part.type = max(node.height, 3), node.type  # high enough for functions of their own
    nested = Logic(node.position, node.operator, list[Node](parts))
    nested.height, nested.type = node.height, node.type
    return nested


def _is_simple(node: Node) -> bool:
    """Whether a tree is certainly a plain expression that cannot fail."""
    if isinstance(node, Select):
        is_unchanged = node.operand.type.kind in ("object", "map")
        return node.test and is_unchanged and isinstance(node.operand, Ident) and node.operand.named is None
    return isinstance(node, Literal | Ident) and node.type.kind == "bool"


@emitter(ListOf)
def _list(g: Generator, node: ListOf) -> str:
    g.weight += 10
    if not node.optional and node.elements and all(isinstance(element, Literal) for element in node.elements):
        return g.constant([element.value for element in node.elements if isinstance(element, Literal)])
    return _in_parts(g, [(element, at in node.optional) for at, element in enumerate(node.elements)], _elements)


def _in_parts(g: Generator, items: list[_T], write: Callable[[Generator, list[_T]], str]) -> str:
    """A list that `write` emits, in several functions if it is long."""
    if len(items) <= _MAX_PARTS:
        return write(g, items)
    return f"[{', '.join('*' + g.apart(partial(_in_parts, g, part, write)) for part in _parts(items))}]"


def _elements(g: Generator, elements: list[tuple[Node, bool]]) -> str:
    if not any(is_optional for _, is_optional in elements):
        return f"[{', '.join(g.emit(element) for element, _ in elements)}]"
    found = g.stored("[]")
    for element, is_optional in elements:
        value = g.atom(g.emit(element))
        g.line(f"if {value} is not NONE: {found}.append({value}.value)" if is_optional else f"{found}.append({value})")
    return found


@emitter(MapOf)
def _map(g: Generator, node: MapOf) -> str:
    g.weight += 30
    g.risky = True
    return f"make_map({_in_parts(g, node.entries, _entries)})"


def _entries(g: Generator, entries: list[Entry]) -> str:
    if not any(entry.optional for entry in entries):
        return f"[{', '.join(f'({g.emit(entry.key)}, {g.emit(entry.value)})' for entry in entries)}]"
    found = g.stored("[]")
    for entry in entries:
        key, value = g.atom(g.emit(entry.key)), g.atom(g.emit(entry.value))
        if entry.optional:
            g.line(f"if {value} is not NONE: {found}.append(({key}, {value}.value))")
        else:
            g.line(f"{found}.append(({key}, {value}))")
    return found


@emitter(Struct)
def _struct(g: Generator, node: Struct) -> str:
    g.weight += 40
    # The schema of the object is only known at evaluation: the name is checked then.
    found = g.stored(f"Made({node.name!r})" if node.type.kind == "dyn" else "{}")
    if len(node.entries) > _MAX_PARTS:
        named = [replace(each, key=Literal(each.position, _key(node, each))) for each in node.entries]
        g.line(f"{found}.update({_in_parts(g, named, _entries)})")
        return found
    for entry in node.entries:
        value = g.atom(g.emit(entry.value))
        key = repr(_key(node, entry))
        if entry.optional:
            g.line(f"if {value} is not NONE: {found}[{key}] = {value}.value")
        else:
            g.line(f"{found}[{key}] = {value}")
    return found


def _key(node: Struct, entry: Entry) -> str:
    return node.type.keys.get(entry.key, entry.key)


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


_SMALL = frozenset(("traverse", "compare", "both", "prefix"))  # charges of cheap calls: counted in loops only
_FOLDED = frozenset(("timestamp", "duration", "quantity", "ip", "cidr", "semver", "url"))
_PLAIN = frozenset(("int", "uint", "string", "bytes", "bool", "timestamp", "duration", "null_type"))


@emitter(Call)
def call(g: Generator, node: Call) -> str:
    """A Python expression for the result of a call."""
    if node.function == "_?_:_":
        return _conditional(g, node)
    if node.function in ("or", "orValue") and node.target is not None:
        return _otherwise(g, node, node.target)
    known = _constant_result(node)
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
    """Whether a call reads no more characters than a literal has."""
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
    """Whether the values of this tree certainly have the type that an overload takes."""
    return node.type.kind not in ("dyn", "param") or wanted.kind in ("dyn", "param")


def _constant_result(node: Call) -> tuple[Any] | None:
    """The result of a call with constant arguments, such as duration('1h')."""
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
    """`or` and `orValue`: the alternative is only evaluated if it is needed."""
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
    """Equality of values of types that Python compares as CEL does."""
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
    """A constant regular expression: compiled once."""
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
    """A call whose overload is chosen at runtime, by the types of the values."""

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
    """A check of the outer type of a value; types of elements are not checked."""
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


@emitter(Fold)
def fold(g: Generator, node: Fold) -> str:
    """The name of the variable that holds the result of a macro."""
    over = _range(g, node)
    names = {name: g.name("v") for name in node.names}
    found = g.stored(_STARTS[node.macro])
    error = g.stored("None", into=g.name("e")) if node.macro in ("all", "exists") else ""
    weight = g.weight
    g.weight = 1
    g.loops += 1
    with g.block(f"for {', '.join(names.values())} in {over}:"), g.bound(names):
        place = g.mark()
        if node.when is not None:
            g.line(f"if not {boolean(node.when)(g.emit(node.when))}: continue")
        _BODIES[node.macro](g, node, found, error)
        g.charge_at(place, g.weight)
    g.loops -= 1
    g.weight = weight
    g.risky = True
    return _finish(g, node, found, error)


_STARTS = {
    "all": "True",
    "exists": "False",
    "exists_one": "0",
    "map": "[]",
    "filter": "[]",
    "transformMap": "{}",
    "transformMapEntry": "{}",
}


def _range(g: Generator, node: Fold) -> str:
    over, kind = g.emit(node.over), node.over.type.kind
    if len(node.names) == 1:
        return over if kind in ("list", "map") else f"elements({over})"
    if kind == "list":
        return f"enumerate({over})"
    return f"{over}.items()" if kind == "map" else f"pairs({over})"


def _decide(g: Generator, node: Fold, found: str, error: str) -> None:
    """One iteration of all or exists: a failure is stored, in case a later iteration determines the result."""
    value = g.name()
    g.attempt(node.body, value, [f"{error} = {error} or x", "continue"])
    with g.block(f"if not {value}:" if node.macro == "all" else f"if {value}:"):
        g.line(f"{found} = {node.macro == 'exists'}")
        g.line("break")


def _count(g: Generator, node: Fold, found: str, _: str) -> None:
    g.line(f"if {_loop_test(g, node.body)}: {found} += 1")


def _filter(g: Generator, node: Fold, found: str, _: str) -> None:
    test = _loop_test(g, node.body)
    g.line(f"if {test}: {found}.append({g.variable(node.names[0])})")


def _append(g: Generator, node: Fold, found: str, _: str) -> None:
    g.line(f"{found}.append({g.emit(node.body)})")


def _put(g: Generator, node: Fold, found: str, _: str) -> None:
    g.line(f"{found}[{g.variable(node.names[0])}] = {g.emit(node.body)}")


def _merge(g: Generator, node: Fold, found: str, _: str) -> None:
    g.line(f"entries_into({found}, {g.emit(node.body)})")


def _loop_test(g: Generator, node: Node) -> str:
    return boolean(node)(g.emit(node))


_BODIES = {
    "all": _decide,
    "exists": _decide,
    "exists_one": _count,
    "map": _append,
    "filter": _filter,
    "transformMap": _put,
    "transformMapEntry": _merge,
}


def _finish(g: Generator, node: Fold, found: str, error: str) -> str:
    if error:
        g.line(f"if {error} is not None and {'' if node.macro == 'all' else 'not '}{found}: raise {error}")
    return f"({found} == 1)" if node.macro == "exists_one" else found
