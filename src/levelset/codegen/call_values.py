"""The values of the call tracer: what an expression of a reconciler may stand for, and the source of functions.

A value is a set of elements: handles (the Context, a client, a cluster), objects of a kind, functions with what is
bound to them, and other Python objects found in modules, closures and attributes. The empty set is an unknown value.
"""

import ast
import builtins
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias, cast

from levelset.client import Client, OnlyMetadata
from levelset.client.object_types import view_of
from levelset.objects import GroupVersionKind, Object, Ref
from levelset.runtime.cache import Cluster
from levelset.runtime.controller import Context

__all__ = [
    "UNKNOWN",
    "Arguments",
    "Bound",
    "Element",
    "Frame",
    "FunctionNode",
    "Handle",
    "Items",
    "Known",
    "Local",
    "Method",
    "Of",
    "Packed",
    "Partial",
    "Sources",
    "Super",
    "Value",
    "contains_handle",
    "flat",
    "instances_of",
    "is_kind",
    "is_standard",
    "kind_in",
    "known",
    "root_module",
]

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Handle(Enum):
    """What requests are sent through."""

    CONTEXT = "Context"
    CLIENT = "Client"
    CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class Of:
    """An object, or a ref, of a kind (a class or a GroupVersionKind), or an instance of another class."""

    kind: Any
    is_own: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A Python object that exists before the reconciler runs; compared by identity."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True)
class Bound:
    """A function with its first argument: a method of an object."""

    function: Any  # a FunctionType, which type checkers would take for a method
    receiver: "Element"


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a handle: `ctx.apply`."""

    of: Handle
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A function that is defined inside of another one, with the variables that it sees."""

    node: FunctionNode
    frame: "Frame"


@dataclass(frozen=True, slots=True)
class Packed:
    """A tuple whose members are known one by one."""

    parts: "tuple[Value, ...]"


@dataclass(frozen=True, slots=True)
class Partial:
    """What `functools.partial` returns."""

    function: "Value"
    arguments: "Arguments"


@dataclass(frozen=True, slots=True)
class Items:
    """A method of a container, which returns what the container holds."""

    values: "Value"
    container: "Element"


@dataclass(frozen=True, slots=True)
class Super:
    """`super()` in a method of a class."""

    after: type[Any]
    receiver: "Element"


Element: TypeAlias = Handle | Of | Known | Bound | Method | Local | Packed | Partial | Items | Super
Value: TypeAlias = frozenset[Element]
UNKNOWN: Final[Value] = frozenset()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call; `rest` is what `*args` and `**options` of unknown length may hold."""

    parts: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()
    rest: Value = UNKNOWN

    def after(self, *first: Value) -> "Arguments":
        """The same arguments after others."""
        return Arguments((*first, *self.parts), self.named, self.rest)

    def all(self) -> Value:
        """All of them as one value."""
        return UNKNOWN.union(*self.parts, *(value for _, value in self.named), self.rest)

    def find(self, place: int, *names: str) -> Value:
        """The argument at a place or with one of the names."""
        if place < len(self.parts):
            return self.parts[place]
        return UNKNOWN.union(*(value for name, value in self.named if name in names), self.rest)

    def has(self, name: str) -> bool:
        """Whether there is a keyword argument of this name."""
        return any(one == name for one, _ in self.named)


@dataclass(eq=False)
class Frame:
    """The variables of one call of a function, and what it returned so far."""

    function: Any  # a FunctionType, which type checkers would take for a method
    node: FunctionNode
    parent: "Frame | None" = None
    names: dict[str, Value] = field(default_factory=dict[str, Value])
    locals: dict[FunctionNode, Local] = field(default_factory=dict[FunctionNode, Local])
    returned: Value = UNKNOWN

    def find(self, name: str) -> Value:
        """The value of a name: of this function, of those around it, of its closure, its module or the builtins."""
        if name in self.names:
            return self.names[name]
        if self.parent is not None:
            return self.parent.find(name)
        return _global(self.function, name)

    def add(self, name: str, value: Value) -> None:
        """Adds to what a variable may hold."""
        self.names[name] = self.names.get(name, UNKNOWN) | value


def _global(function: FunctionType, name: str) -> Value:
    for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        if free == name:
            try:
                return known(cell.cell_contents)
            except ValueError:  # the cell is still empty
                return UNKNOWN
    if name in function.__globals__:
        return known(function.__globals__[name])
    return known(getattr(builtins, name)) if hasattr(builtins, name) else UNKNOWN


def known(value: Any) -> Value:
    """The value of a Python object."""
    match value:
        case Client():
            return frozenset({Handle.CLIENT})
        case Cluster():
            return frozenset({Handle.CLUSTER})
        case Ref():
            return frozenset({Of(cast("Any", value).class_ or value.gvk)})
        case Object():
            return frozenset({Of(type(value))})
        case MethodType() if isinstance(value.__func__, FunctionType):
            return frozenset(Bound(value.__func__, one) for one in known(value.__self__))
        case _:
            return frozenset({Known(value)})


def instances_of(class_: Any) -> Value:
    """The value of an instance of a class, such as that of an annotated parameter."""
    for handle, type_ in ((Handle.CONTEXT, Context), (Handle.CLIENT, Client), (Handle.CLUSTER, Cluster)):
        if isinstance(class_, type) and issubclass(class_, type_):
            return frozenset({handle})
    return frozenset({Of(class_)}) if isinstance(class_, type) and not is_standard(class_) else UNKNOWN


def is_kind(given: Any) -> bool:
    """Whether it is a class or another name of a kind."""
    return isinstance(given, GroupVersionKind | OnlyMetadata) or (
        isinstance(given, type) and issubclass(given, Object) and hasattr(given, "__definition__")
    )


def kind_in(given: Any) -> Any:
    """The kind without `OnlyMetadata`."""
    return view_of(given).gvk if isinstance(given, OnlyMetadata) else given


def flat(value: Iterable[Element]) -> Iterator[Element]:
    """The elements, also those inside of tuples, partials and containers."""
    for one in value:
        yield one
        match one:
            case Packed():
                for part in one.parts:
                    yield from flat(part)
            case Partial():
                yield from flat(one.arguments.all())
            case _:
                pass


def contains_handle(value: Value) -> bool:
    """Whether requests can be sent through something in it."""
    return any(isinstance(one, Handle | Method) for one in flat(value))


def root_module(given: Any) -> str:
    """The first part of the name of the module whose code it is."""
    if isinstance(given, FunctionType):
        return str(given.__globals__.get("__name__", "")).partition(".")[0]
    name = given.__name__ if isinstance(given, ModuleType) else getattr(given, "__module__", None)
    return str(name or "builtins").partition(".")[0]


def is_standard(given: Any) -> bool:
    """Whether it belongs to the standard library, or to a library that knows nothing of handles."""
    root = root_module(given)
    return (root in sys.stdlib_module_names and root != "__main__") or root == "msgspec"


class Sources:
    """The syntax trees of functions, read from the files of their modules."""

    def __init__(self) -> None:
        self._trees: dict[str, Mapping[tuple[str, int], list[FunctionNode]]] = {}
        self._nodes: dict[CodeType, FunctionNode | None] = {}

    def node_of(self, function: FunctionType) -> FunctionNode | None:
        """The definition of a function; None if its source is not available."""
        code = function.__code__
        if code not in self._nodes:
            self._nodes[code] = self._find(function)
        return self._nodes[code]

    def _find(self, function: FunctionType) -> FunctionNode | None:
        code = function.__code__
        if code.co_filename not in self._trees:
            self._trees[code.co_filename] = _definitions(function)
        found = self._trees[code.co_filename].get((code.co_name, code.co_firstlineno), [])
        names = code.co_varnames[: code.co_argcount]
        same = [one for one in found if tuple(arg.arg for arg in (*one.args.posonlyargs, *one.args.args)) == names]
        return same[0] if len(same) == 1 else None  # two equal lambdas in one line cannot be told apart


def _definitions(function: FunctionType) -> Mapping[tuple[str, int], list[FunctionNode]]:
    find: Callable[[Any], tuple[list[str], int]] = inspect.findsource
    try:
        tree = ast.parse("".join(find(function)[0]))
    except (OSError, TypeError, SyntaxError, IndexError):
        return {}
    found: dict[tuple[str, int], list[FunctionNode]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found.setdefault((node.name, first), []).append(node)
    return found
