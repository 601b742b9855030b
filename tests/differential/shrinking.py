"""Makes the sequence of a difference smaller: fewer requests first, then less in each of them.

A smaller sequence counts if its last request is answered differently in the same way: with the same signature.
"""

import copy
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.differential.grammar import Step

__all__ = ["shrink"]

Differs = Callable[[list[Step]], Awaitable[bool]]
_MAX_TRIALS = 150


async def shrink(steps: list[Step], differs: Differs) -> list[Step]:
    """The smallest sequence that was found within a number of trials; the last request stays the last."""
    trials = 0
    shorter = True
    while shorter:
        shorter = False
        for candidate in _smaller(steps):
            if trials == _MAX_TRIALS:
                return steps
            trials += 1
            if await differs(candidate):
                steps, shorter = candidate, True
                break
    return steps


def _smaller(steps: list[Step]) -> Iterator[list[Step]]:
    """Sequences with one thing less: halves of the requests, single requests, and members from the outside in."""
    before = len(steps) - 1
    if before > 3:
        yield renumbered(steps, set(range(before)))
        yield renumbered(steps, set(range(before // 2)))
        yield renumbered(steps, set(range(before // 2, before)))
    for number in range(before):
        yield renumbered(steps, {number})
    for number, step in enumerate(steps):
        for smaller in _smaller_steps(step):
            yield [*steps[:number], smaller, *steps[number + 1 :]]


def renumbered(steps: list[Step], removed: set[int]) -> list[Step]:
    """The sequence without some requests; references to answers follow their requests, or stay dangling."""
    remaining = [number for number in range(len(steps)) if number not in removed]
    numbers = {number + 1: position + 1 for position, number in enumerate(remaining)}

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            for word in ("rv", "uid", "continue"):
                for number in range(1, len(steps) + 1):
                    name = f"{word}{numbers.get(number, 0)}"
                    value = value.replace(f"${{{word}{number}}}", f"${{<{name}>}}")
                value = value.replace("${<", "${").replace(">}", "}")
            return value
        if isinstance(value, dict):
            return {moved(name): moved(one) for name, one in value.items()}
        return [moved(one) for one in value] if isinstance(value, list) else value

    return [moved(steps[number]) for number in remaining]


def _smaller_steps(step: Step) -> Iterator[Step]:
    if "accept" in step:
        yield {other: value for other, value in step.items() if other != "accept"}
    for name in step.get("query", {}):
        if name == "dryRun":
            continue  # what would change the answers to other sequences must not be written
        yield step | {"query": {other: value for other, value in step["query"].items() if other != name}}
    for path in _paths(step.get("body"), ()):
        smaller = copy.deepcopy(step)
        owner = smaller["body"]
        for part in path[:-1]:
            owner = owner[part]
        del owner[path[-1]]
        yield smaller


def _paths(tree: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """All places of a body, those that hold the most first: the outer ones."""
    level = [(path, tree)]
    while level:
        below: list[tuple[tuple[Any, ...], Any]] = []
        for at, value in level:
            members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for name, one in members:
                if (*at, name) not in (("metadata",), ("metadata", "name"), ("apiVersion",), ("kind",)):
                    yield (*at, name)
                below.append(((*at, name), one))
        level = below
