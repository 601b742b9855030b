"""Writes the modules of kinds that hold no classes: lazily loading exports, and the values of enumerated fields."""

from collections.abc import Mapping

from scripts.kinds_tables import ENUMS

from levelset.codegen.models import source_text as layout
from levelset.codegen.models.module_writer import import_order
from levelset.codegen.models.source_text import export_order, quoted

__all__ = ["enums", "late_module"]


def late_module(title: str, modules: Mapping[str, list[str]], own: str, extra: str = "") -> str:
    """A module whose names are loaded from others on first use; type checkers see them all."""
    offered = [one for names in modules.values() for one in names] + (["MODULES"] if extra else [])
    names = sorted(offered, key=export_order)
    imports = [
        line
        for module, listed in sorted(modules.items())
        for line in import_lines(module, sorted(listed, key=import_order))
    ]
    rows = [line for module in sorted(modules) for line in row_lines(module, modules[module])]
    lines = [
        title,
        "",
        "from importlib import import_module",
        "from typing import TYPE_CHECKING, Any, Final",
        "",
        "if TYPE_CHECKING:",
        *imports,
        "",
        *layout.listed("__all__ = [", [quoted(one) for one in names], "]"),
        "",
        *([extra, ""] if extra else []),
        "_PARTS: Final = {",
        *rows,
        "}",
        "_LATE: Final = {name: part for part, names in _PARTS.items() for name in names.split()}",
        "",
        "",
        "def __getattr__(name: str) -> Any:",
        "    part = _LATE.get(name)",
        "    if part is None:",
        f'        raise AttributeError(f"module {own!r} has no attribute {{name!r}}")',
        "    found = globals()[name] = getattr(import_module(part), name)",
        "    return found",
        "",
        "",
        "def __dir__() -> list[str]:",
        "    return sorted(set(__all__) | set(globals()))",
    ]
    return "\n".join(lines) + "\n"


def import_lines(module: str, names: list[str]) -> list[str]:
    """One import below `if TYPE_CHECKING`."""
    flat = f"    from {module} import {', '.join(names)}"
    if len(flat) <= layout.WIDTH:
        return [flat]
    return layout.listed(f"from {module} import (", names, ")", layout.STEP, width=0)


def row_lines(module: str, names: list[str]) -> list[str]:
    """The names of one module as words in a text, over as many lines as they take."""
    flat = f"    {quoted(module)}: {quoted(' '.join(names))},"
    if len(flat) <= layout.WIDTH:
        return [flat]
    whole = f"        {quoted(' '.join(names))}"
    if len(whole) <= layout.WIDTH:
        return [f"    {quoted(module)}: (", whole, "    ),"]
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > layout.WIDTH - 11:
            lines.append("")
        lines[-1] += f"{name} "
    lines[-1] = lines[-1].rstrip()
    return [f"    {quoted(module)}: (", *(f"        {quoted(line)}" for line in lines), "    ),"]


def enums(note: str) -> str:
    """The module of values; the note says where it comes from."""
    head = (
        '"""The values that members of built-in kinds may take, as far as they are a closed set.\n\n'
        "A type checker sees the values and finds a misspelt one. A running program sees texts: a newer cluster may\n"
        f'know more values, and an object that has one must still be read.\n\n{note}\n"""\n\n'
        "from typing import TYPE_CHECKING, Literal\n\n"
    )
    names = sorted(ENUMS, key=export_order)
    listed = "\n".join(layout.listed("__all__ = [", [quoted(one) for one in names], "]"))
    checked: list[str] = []
    for name in names:
        words = ENUMS[name][0]
        values = words.split("|") if "|" in words else ["" if one == "_" else one for one in words.split()]
        checked += layout.bracketed(f"{name} = Literal[", [quoted(one) for one in values], "]", layout.STEP)
    running = [f"    {name} = str" for name in names]
    return f"{head}{listed}\n\nif TYPE_CHECKING:\n" + "\n".join([*checked, "else:", *running]) + "\n"
