"""What all controllers of a test did, and when: written down as it happens, to be shown when a test fails.

What the controllers of a test did, in words: shown beside the failure of a test.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.request import Reason

__all__ = ["Looked", "Timelines", "describe_looks"]

_MOST_RECORDED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Looked:
    """One look of a controller at an object: when it ended, and what came of it."""

    at: float
    controller: str
    outcome: Outcome[Any]
    revision: int = 0
    """How far the server had come by then, if that is known."""

    def __str__(self) -> str:
        reasons = "; ".join(map(str, self.outcome.reasons)) or "for no reason"
        said = self.outcome.error or self.outcome.action
        result = self.outcome.result.replace("_", " ")
        return f"{self.controller} looked ({reasons}): {result}, {said}"


class Timelines:
    """An observer of controllers that remembers the last looks of all of them, the oldest first."""

    def __init__(self, revision: Callable[[], int] = lambda: 0) -> None:
        self._revision = revision
        self.looks: deque[Looked] = deque(maxlen=_MOST_RECORDED)
        self.running: dict[tuple[str, Ref[Any]], float] = {}
        """The looks that are under way, and since when."""

    def queued(self, _: str, _depth: int, /) -> None:
        """Nothing: what counts is what comes of it."""

    def started(self, name: str, ref: Ref[Any], _: tuple[Reason, ...], /) -> None:
        """Notes that a look is under way."""
        self.running[name, ref] = asyncio.get_running_loop().time()

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], _: float, /) -> None:
        """Notes how it ended."""
        self.running.pop((name, ref), None)
        self.looks.append(Looked(asyncio.get_running_loop().time(), name, outcome, self._revision()))

    def of(self, ref: Ref[Any]) -> list[Looked]:
        """The looks at one object, whichever version of its kind the controller knows."""
        return [one for one in self.looks if _is_same(one.outcome.ref, ref)]


def _is_same(one: Ref[Any], other: Ref[Any]) -> bool:
    """Whether two references mean the same object."""
    return (one.name, one.namespace, one.kind, one.gvk.group) == (
        other.name,
        other.namespace,
        other.kind,
        other.gvk.group,
    )


if TYPE_CHECKING:
    from levelset.testing.environment import Stage


_MOST_SHOWN: Final = 50


def describe_looks(stage: "Stage") -> str:
    """The last looks of all controllers, the oldest first, and what was under way at the end."""
    looks = list(stage.timelines.looks)
    lines = [f"{one.at:10.3f} s  {one.outcome.ref}: {one}" for one in looks[-_MOST_SHOWN:]]
    if len(looks) > _MOST_SHOWN:
        lines.insert(0, f"... {len(looks) - _MOST_SHOWN} more before")
    lines += [
        f"{since:10.3f} s  {ref}: {name} has looked since then"
        for (name, ref), since in stage.timelines.running.items()
    ]
    return "\n".join(lines)
