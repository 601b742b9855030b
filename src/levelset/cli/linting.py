"""Reads source code for what goes wrong in a controller: calls that block the loop, and children that nobody removes.

Only the text is read, nothing is run. A line that ends with `# levelset: ignore` is passed over.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["BLOCKING", "Complaint", "Level", "blocking_calls", "orphans"]

Level = Literal["error", "warning"]

BLOCKING: Final[Mapping[str, str]] = {
    "time.sleep": "await asyncio.sleep(...), or return requeue(seconds) and let others work",
    "open": "await asyncio.to_thread(...)",
    "input": "nothing waits at a terminal in a controller",
    "os.system": "await asyncio.create_subprocess_exec(...)",
    "os.popen": "await asyncio.create_subprocess_exec(...)",
    "os.waitpid": "await asyncio.create_subprocess_exec(...)",
    "subprocess.run": "await asyncio.create_subprocess_exec(...)",
    "subprocess.call": "await asyncio.create_subprocess_exec(...)",
    "subprocess.check_call": "await asyncio.create_subprocess_exec(...)",
    "subprocess.check_output": "await asyncio.create_subprocess_exec(...)",
    "subprocess.Popen": "await asyncio.create_subprocess_exec(...)",
    "socket.create_connection": "await asyncio.open_connection(...)",
    "socket.getaddrinfo": "await loop.getaddrinfo(...)",
    "socket.gethostbyname": "await loop.getaddrinfo(...)",
    "urllib.request.urlopen": "an async HTTP client, or await asyncio.to_thread(...)",
    "sqlite3.connect": "await asyncio.to_thread(...)",
    "shutil.rmtree": "await asyncio.to_thread(...)",
    "shutil.copytree": "await asyncio.to_thread(...)",
}
"""Calls that stop the whole loop, by their full names, and what to write instead."""

_MODULES: Final = {
    "requests": "an async HTTP client, or await asyncio.to_thread(...)",
    "httpx": "httpx.AsyncClient, or await asyncio.to_thread(...)",
}
_WORDS: Final = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "request", "Client", "Session"})
_IGNORE: Final = "# levelset: ignore"


@dataclass(frozen=True, slots=True, order=True)
class Complaint:
    """One thing that is wrong: where, what, and what to do next."""

    file: str
    line: int
    level: Level
    problem: str
    next: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        return f"{place}{self.level}: {self.problem}; {self.next}"


def blocking_calls(source: str, file: str) -> list[Complaint]:
    """The calls inside async functions that would stop everything else while they last."""
    tree = ast.parse(source, file)
    names, lines = _imported(tree), source.splitlines()
    found: list[Complaint] = []
    for function in ast.walk(tree):
        if isinstance(function, ast.AsyncFunctionDef):
            for call in _own_calls(function):
                name = _full_name(call.func, names)
                advice = _advice(name)
                if advice is not None and _IGNORE not in lines[call.lineno - 1]:
                    problem = f"{name}() in async {function.name} stops the whole loop"
                    found.append(Complaint(file, call.lineno, "error", problem, f"write {advice}"))
    return sorted(set(found))


def orphans(source: str, file: str, functions: frozenset[str]) -> list[Complaint]:
    """The children that these functions make without an owner: nobody removes them with their object."""
    tree = ast.parse(source, file)
    lines = source.splitlines()
    found: list[Complaint] = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.AsyncFunctionDef) or function.name not in functions:
            continue
        for call in _own_calls(function):
            made = call.func
            if not isinstance(made, ast.Attribute) or made.attr not in {"apply", "create"}:
                continue
            if not isinstance(made.value, ast.Name) or made.value.id not in {"ctx", "context"}:
                continue
            if not any(one.arg in {"owner", None} for one in call.keywords) and _IGNORE not in lines[call.lineno - 1]:
                problem = f"ctx.{made.attr} in {function.name} makes a child without an owner, and there is no cleanup"
                found.append(
                    Complaint(file, call.lineno, "warning", problem, "give owner=, or the Controller a cleanup=")
                )
    return found


def _advice(name: str) -> str | None:
    if name in BLOCKING:
        return BLOCKING[name]
    module, _, word = name.partition(".")
    return _MODULES[module] if module in _MODULES and word in _WORDS else None


def _own_calls(function: ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """The calls that run as part of a function: not those of functions inside it, which may run in a thread."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting += ast.iter_child_nodes(node)


def _imported(tree: ast.AST) -> dict[str, str]:
    """What the names of a module stand for: `sleep` for `time.sleep` after `from time import sleep`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return names


def _full_name(node: ast.expr, names: Mapping[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])
