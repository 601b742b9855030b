"""Facts about source files for tests of the code base, collected in one walk through each file.

Syntax trees are not retained: those of all files are millions of objects, which the garbage collector would traverse
repeatedly for the rest of the run.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import cast

from tests.project.files import SOURCES, module_name, tree

__all__ = ["Import", "Source", "lengths", "source"]

_OURS = frozenset(SOURCES)
type_of_function = (ast.FunctionDef, ast.AsyncFunctionDef)
_OPERATORS = (ast.boolop, ast.cmpop, ast.expr_context, ast.operator, ast.unaryop)
# What has no node below it that is of interest, and what is no node.
_LEAVES: set[type] = {ast.Name, ast.Constant, ast.alias, bool, int, str, type(None)}
_LEAVES.update(leaf for base in _OPERATORS for leaf in base.__subclasses__())


@dataclass(frozen=True)
class Import:
    """One import statement: the dotted names of what it imports, relative ones resolved, and what it takes of them."""

    modules: tuple[str, ...]
    names: frozenset[str]
    line: int
    plain: bool
    in_function: bool


@dataclass
class Source:
    """The facts about one source file."""

    summary: str
    offered: frozenset[str]
    imports: list[Import] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    """What is called or raised, by the last part of its name."""
    loaded: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    """The modules that it imports names of at once, not for type checkers and not inside functions, with the names."""
    lengths: dict[str, int] = field(default_factory=dict)
    """The lines of each function, also a nested one, by its dotted name inside the file."""


@cache
def source(path: Path) -> Source:
    """The facts about a source file; it is read once per run."""
    body = tree(path)
    found = Source((ast.get_docstring(body) or "").split("\n", 1)[0], frozenset(_offered(body.body, path)))
    _walk(body, path, found, in_function=False)
    _measure(body, "", found.lengths)
    for node in body.body:
        if isinstance(node, ast.ImportFrom):
            found.loaded.append((node.module or "", frozenset(alias.name for alias in node.names)))
    return found


@cache
def lengths(path: Path) -> dict[str, int]:
    """How many lines each function of a file has, also a nested one, by its dotted name inside the file."""
    if path in _OURS:
        return source(path).lengths
    found: dict[str, int] = {}
    _measure(tree(path), "", found)
    return found


def _offered(body: list[ast.stmt], path: Path) -> Iterator[str]:
    """The public names: what an `__init__` imports, and what any module defines."""
    for node in body:
        names: list[str] = []
        if isinstance(node, (*type_of_function, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, ast.ImportFrom) and path.name == "__init__.py":
            # Only our own modules: an `__init__` may also import, say, a typing name for itself.
            ours = node.level or (node.module or "").startswith("levelset")
            ours = ours and node.module != "levelset.late_exports"
            names = [alias.asname or alias.name for alias in node.names] if ours else []
        yield from (name for name in names if not name.startswith("_"))


def _walk(node: ast.AST, path: Path, found: Source, *, in_function: bool) -> None:
    for child in _children(node):
        kind = type(child)
        if kind is ast.Import or kind is ast.ImportFrom:
            statement = cast("ast.Import | ast.ImportFrom", child)
            names = frozenset(alias.name for alias in statement.names)
            modules = tuple(_modules(statement, path))
            found.imports.append(Import(modules, names, statement.lineno, kind is ast.Import, in_function))
            continue
        if kind is ast.Call or kind is ast.Raise:
            made = child.func if isinstance(child, ast.Call) else cast("ast.Raise", child).exc
            if isinstance(made, ast.Name | ast.Attribute):
                found.made.add(made.id if isinstance(made, ast.Name) else made.attr)
        _walk(child, path, found, in_function=in_function or kind in type_of_function)


def _children(node: ast.AST) -> list[ast.AST]:
    """As `ast.iter_child_nodes` but without leaves, in a fraction of the time: there are a million nodes."""
    found: list[ast.AST] = []
    for value in vars(node).values():
        if type(value) is list:
            found += [one for one in value if type(one) not in _LEAVES]
        elif type(value) not in _LEAVES:
            found.append(value)
    return found


def _modules(node: ast.Import | ast.ImportFrom, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        package = module_name(path).split(".")
        package = package if path.name == "__init__.py" else package[:-1]
        base = package[: len(package) - node.level + 1] if node.level else []
        yield ".".join([*base, *([node.module] if node.module else [])])


def _measure(node: ast.AST, prefix: str, found: dict[str, int]) -> None:
    for child in _children(node):
        name = prefix
        if isinstance(child, (*type_of_function, ast.ClassDef)):
            name = f"{prefix}.{child.name}".lstrip(".")
        if isinstance(child, type_of_function):
            assert child.end_lineno is not None
            found[name] = child.end_lineno - child.lineno + 1
        if not isinstance(child, ast.expr):  # an expression contains no function definition
            _measure(child, name, found)
