"""Finds the words for a schema: docstrings of classes, and the texts that stand under their attributes."""

import ast
import inspect
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

__all__ = ["describe", "describe_fields"]

_OURS = "levelset."


def describe(model: type) -> str:
    """The docstring of a class itself, not of a base, with its indentation taken away; empty if it has none."""
    return inspect.cleandoc(vars(model).get("__doc__") or "")


def describe_fields(model: type) -> Mapping[str, str]:
    """What stands as a text under each attribute, by its Python name; a subclass's words win.

    Needs the source: a class that was made at a prompt has no such words.
    """
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        path = _file_of(one)
        if path is not None:
            found.update(_read(path, path.stat().st_mtime_ns).get(one.__qualname__.replace(".<locals>", ""), {}))
    return found


def _file_of(model: type) -> Path | None:
    if model.__module__.startswith(_OURS) or model is object:
        return None
    name = getattr(sys.modules.get(model.__module__), "__file__", None)
    path = None if name is None else Path(name)
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


@lru_cache(maxsize=256)
def _read(path: Path, _: int) -> Mapping[str, Mapping[str, str]]:
    """The words of all classes in a file, by their qualified names; a file that has changed is read again."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    return dict(_classes(tree.body, ""))


def _classes(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for one in body:
        if isinstance(one, ast.ClassDef):
            yield f"{prefix}{one.name}", _words(one.body)
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(one.body, f"{prefix}{one.name}.")


def _words(body: Sequence[ast.stmt]) -> Mapping[str, str]:
    return {
        first.target.id: inspect.cleandoc(second.value.value)
        for first, second in itertools.pairwise(body)
        if isinstance(first, ast.AnnAssign)
        and isinstance(first.target, ast.Name)
        and isinstance(second, ast.Expr)
        and isinstance(second.value, ast.Constant)
        and isinstance(second.value.value, str)
    }
