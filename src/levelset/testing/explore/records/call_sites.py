"""Call sites: the lines of a controller's source from which its requests, outside calls and awaits come.

`call_site` and `await_site` find the line of a running and of a suspended reconcile; `static_call_sites` reads from the
source which lines a reconciler has, so that those that no run reaches are known, too.
"""

import ast
import inspect
import linecache
import os
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from sys import _getframe  # pyright: ignore[reportPrivateUsage] - inspect.currentframe, without the check for None
from types import CodeType, FrameType
from typing import Any, Final

__all__ = ["CallSite", "await_site", "call_site", "shown_path", "static_call_sites"]

_OURS: Final = str(Path(__file__).parents[3]) + os.sep
_STANDARD: Final = tuple(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_LOOP: Final = (f"asyncio{os.sep}events.py", f"asyncio{os.sep}base_events.py")


@dataclass(frozen=True, slots=True, order=True)
class CallSite:
    """One `await` of a reconciler: its file, the lines of the expression and the function that contains it."""

    path: str
    line: int
    last: int
    function: str

    def has(self, site: str) -> bool:
        """Whether this is the expression with a line, given as `path:line`."""
        path, _, line = site.rpartition(":")
        return path == self.path and self.line <= int(line) <= self.last


def call_site() -> str:
    """The line of the user's code that makes the current call, as `path:line`; empty if it is not in user code."""
    frame: FrameType | None = _getframe(1)
    installed = ""
    while frame is not None:
        match _owner(frame.f_code.co_filename):
            case "user":
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            case "loop":
                break
            case "installed" if not installed:
                installed = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            case _:
                pass
        frame = frame.f_back
    return installed


def await_site(awaited: Any) -> str:
    """The line at which a suspended coroutine awaits, the innermost one of the user's code, as `path:line`."""
    found = ""
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and _owner(frame.f_code.co_filename) == "user":
            found = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return found


@cache
def _owner(filename: str) -> str:
    if filename.startswith((_OURS, "<")):
        return "levelset"
    if filename.endswith(_LOOP):
        return "loop"
    if any(part in filename for part in _INSTALLED):
        return "installed"
    return "standard" if filename.startswith(_STANDARD) else "user"


def shown_path(path: str) -> str:
    """A path relative to the current directory, with slashes; absolute if it is not below it."""
    relative = os.path.relpath(path)
    return (path if relative.startswith(os.pardir) else relative).replace(os.sep, "/")


def static_call_sites(functions: Iterable[Any]) -> list[CallSite]:
    """The awaits of these functions, and of the functions of the same files that they call by name."""
    found: set[CallSite] = set()
    for path, names in _by_file(functions).items():
        found.update(_read_sites(path, tuple(names)))
    return sorted(found)


def _by_file(functions: Iterable[Any]) -> dict[str, list[tuple[str, int]]]:
    """The names and first lines of the functions, by file."""
    found: dict[str, list[tuple[str, int]]] = {}
    for function in functions:
        code = _code_of(function)
        if code is not None and _owner(code.co_filename) in {"user", "installed"}:
            found.setdefault(code.co_filename, []).append((code.co_name, code.co_firstlineno))
    return found


def _code_of(function: Any) -> CodeType | None:
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    function = inspect.unwrap(function)
    found: Any = getattr(function, "__func__", function)
    if not hasattr(found, "__code__"):  # an object that can be called
        found = getattr(found, "__call__", None)  # noqa: B004 -- its code is needed
        found = getattr(found, "__func__", found)
    return getattr(found, "__code__", None)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _read_sites(path: str, wanted: tuple[tuple[str, int], ...]) -> tuple[CallSite, ...]:
    return tuple(_find_sites(path, wanted))


def _find_sites(path: str, wanted: Sequence[tuple[str, int]]) -> Iterator[CallSite]:
    try:
        tree = ast.parse("".join(linecache.getlines(path)))  # also the source of notebooks
    except (ValueError, SyntaxError):
        return  # sites that are reached are still known
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    todo = [one for one in functions if any(_is_at(one, name, line) for name, line in wanted)]
    seen: set[_Function] = set()
    while todo:
        function = todo.pop()
        if function in seen:
            continue
        seen.add(function)
        yield from _awaits_of(path, function)
        called = set(_called_names(function))
        todo += [one for one in functions if one.name in called]


def _is_at(function: _Function, name: str, line: int) -> bool:
    # The first line of a decorated function is that of its first decorator.
    first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
    return function.name == name and first <= line <= function.lineno


def _awaits_of(path: str, function: _Function) -> Iterator[CallSite]:
    for one in _own_nodes(function):
        if isinstance(one, ast.Await):
            yield CallSite(path, one.lineno, one.end_lineno or one.lineno, function.name)


def _called_names(function: _Function) -> Iterator[str]:
    for one in _own_nodes(function):
        if isinstance(one, ast.Call):
            if isinstance(one.func, ast.Name):
                yield one.func.id
            elif isinstance(one.func, ast.Attribute):
                yield one.func.attr


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions that are defined in it."""
    todo: list[ast.AST] = [*function.body]
    while todo:
        one = todo.pop()
        yield one
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            todo += ast.iter_child_nodes(one)
