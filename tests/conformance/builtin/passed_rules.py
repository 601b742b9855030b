"""Which rules of built-in kinds are passed by an accepted object: each must be evaluated in a recorded acceptance.

A rule is a place in `registry/builtin/rules` that reports a cause. Its guard is the nearest condition, loop or
comprehension around it. While the recorded answers are replayed, a tracer notes which guards are run for requests that
are accepted. It leaves a function alone once all of its guards were.
"""

import ast
import itertools
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from levelset.apiserver.registry.builtin.rules import rule_tables
from levelset.apiserver.registry.builtin.rules.pods import pod_spec
from tests.conformance.builtin.reported_rules import PACKAGE, Place, is_report

__all__ = ["Evaluated", "nothing_remembered", "unpassed"]

_CONDITIONS = (ast.If, ast.While)
_LOOPS = (ast.For, ast.ListComp, ast.GeneratorExp, ast.SetComp)
_numbers = itertools.count()


class _Rule(NamedTuple):
    """A place that reports a cause, and the lines of its guards, of which one is run where it is evaluated."""

    place: Place
    text: str
    guards: frozenset[int]


class Evaluated:
    """The guards that are run for accepted requests; each request is made in `request`."""

    def __init__(self) -> None:
        self.places: set[Place] = set()
        """The lines of guards that were run."""
        self._wanted = {one: _lines_of(one) for one in _files()}
        self._missing: dict[CodeType, set[int]] = {}
        self._now: list[tuple[CodeType, int]] = []

    @contextmanager
    def request(self) -> Generator[Callable[[], None]]:
        """Traces a request; call what it yields if the request is accepted."""
        before, self._now = sys.gettrace(), []
        sys.settrace(self._enter)
        try:
            yield self._accept
        finally:
            sys.settrace(before)

    def _accept(self) -> None:
        for code, line in self._now:
            self._missing[code].discard(line)
            self.places.add(Place(code.co_filename, line))

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        missing = self._missing.get(code)
        if missing is None:
            wanted = self._wanted.get(code.co_filename, frozenset())
            missing = self._missing[code] = {line for _, _, line in code.co_lines() if line in wanted}
        return self._step if missing else None

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_lineno in self._missing[frame.f_code]:
            self._now.append((frame.f_code, frame.f_lineno))
        return self._step


@contextmanager
def nothing_remembered() -> Generator[None]:
    """Evaluates the rules for each value, also of one that was valid before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rule_tables, "encode_tree", _never_the_same)
        patch.setattr(pod_spec, "pod_outline", _never_the_same)
        yield


def _never_the_same(_: object) -> bytes:
    return b"%d" % next(_numbers)


def unpassed(places: set[Place]) -> list[str]:
    """The rules whose guards are at none of these places: file, line and text."""
    return [
        f"{Path(rule.place.file).relative_to(PACKAGE)}:{rule.place.line}: {rule.text}"
        for file in _files()
        for rule in _rules(file)
        if places.isdisjoint(Place(file, line) for line in rule.guards)
    ]


@cache
def _files() -> tuple[str, ...]:
    return tuple(map(str, sorted(PACKAGE.rglob("*.py"))))


def _lines_of(file: str) -> frozenset[int]:
    return frozenset(line for rule in _rules(file) for line in rule.guards)


@cache
def _rules(file: str) -> tuple[_Rule, ...]:
    """The rules of a file that have a guard: the others are functions that are called when something is wrong."""
    text = Path(file).read_text()
    tree, lines = ast.parse(text), text.splitlines()
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_report(node.func)]
    found = [(call, frozenset(_guards(call, parents))) for call in calls]
    return tuple(
        _Rule(Place(file, call.lineno), lines[call.lineno - 1].strip(), guards)
        for call, guards in sorted(found, key=lambda one: one[0].lineno)
        if guards
    )


def _guards(call: ast.Call, parents: dict[ast.AST, ast.AST]) -> Iterator[int]:
    """The lines of the nearest condition around it, and of those whose `else` this one is.

    Without a condition they are those of what may end its function before, and of a loop around it; none of a function
    that does nothing but report, which is called when something is wrong.
    """
    inner: ast.AST = call
    loops: list[ast.expr] = []
    for node in _around(call, parents):
        if isinstance(node, ast.FunctionDef):
            if node.name == "report":
                return
            for before in node.body:
                if before is inner:
                    break
                if isinstance(before, (*_CONDITIONS, ast.For, ast.Try)):
                    yield from _lines(before)
            break
        if isinstance(node, _LOOPS):
            loops.append(node.iter if isinstance(node, ast.For) else node)
        elif isinstance(node, _CONDITIONS) and inner is not node.test:
            yield from _lines(node.test)
            outer: ast.AST = node
            while (found := _condition_before(outer, parents)) is not None:
                yield from _lines(found.test)
                outer = found
            return
        inner = node
    for loop in loops:
        yield from _lines(loop)


def _condition_before(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.If | None:
    """The condition in whose `else` this one stands."""
    outer = parents[node]
    return outer if isinstance(outer, ast.If) and node in outer.orelse else None


def _lines(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in parents:
        node = parents[node]
        yield node
