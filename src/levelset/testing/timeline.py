"""The reconciles of all controllers of a test, recorded as they happen and shown when the test fails."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.request import Reason
from levelset.testing.reconcile_failures import describe_error

__all__ = ["ReconcileRecord", "Timeline", "describe_reconciles"]

_MOST_RECORDED: Final = 10_000


@dataclass(frozen=True, slots=True)
class ReconcileRecord:
    """One finished reconcile: when it ended, of which controller, and its outcome."""

    at: float
    controller: str
    outcome: Outcome[Any]
    revision: int = 0
    """The revision of the storage at that time; 0 if unknown."""

    def __str__(self) -> str:
        reasons = "; ".join(map(str, self.outcome.reasons)) or "no reason"
        error = self.outcome.error
        # The text of a group is only how many errors it has; show those inside.
        is_group = isinstance(error, BaseExceptionGroup)
        then = describe_error(error) if error is not None and is_group else error or self.outcome.action
        result = self.outcome.result.replace("_", " ")
        return f"{self.controller} reconciled ({reasons}): {result}, {then}"


class Timeline:
    """An observer that records the last reconciles of all controllers, the oldest first."""

    def __init__(self, revision: Callable[[], int] = lambda: 0) -> None:
        self._revision = revision
        self.reconciles: deque[ReconcileRecord] = deque(maxlen=_MOST_RECORDED)
        self.running: dict[tuple[str, Ref[Any]], float] = {}
        """The running reconciles and the loop time at which each started."""

    def queued(self, _: str, _depth: int, /) -> None:
        """Ignored: only reconciles are recorded."""

    def started(self, name: str, ref: Ref[Any], _: tuple[Reason, ...], /) -> None:
        """Records that a reconcile has started."""
        self.running[name, ref] = asyncio.get_running_loop().time()

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], _: float, /) -> None:
        """Records its outcome."""
        self.running.pop((name, ref), None)
        self.reconciles.append(ReconcileRecord(asyncio.get_running_loop().time(), name, outcome, self._revision()))

    def of(self, ref: Ref[Any]) -> list[ReconcileRecord]:
        """The reconciles of one object, in any version of its kind."""
        return [one for one in self.reconciles if _is_same(one.outcome.ref, ref)]


def _is_same(one: Ref[Any], other: Ref[Any]) -> bool:
    """Whether two references name the same object, in any version."""
    return (one.name, one.namespace, one.kind, one.gvk.group) == (
        other.name,
        other.namespace,
        other.kind,
        other.gvk.group,
    )


if TYPE_CHECKING:
    from levelset.testing.environment import Environment


_MOST_SHOWN: Final = 50


def describe_reconciles(environment: "Environment") -> str:
    """The last reconciles of all controllers, the oldest first, and those that are still running."""
    reconciles = list(environment.timeline.reconciles)
    lines = [f"{one.at:10.3f} s  {one.outcome.ref}: {one}" for one in reconciles[-_MOST_SHOWN:]]
    if len(reconciles) > _MOST_SHOWN:
        lines.insert(0, f"... {len(reconciles) - _MOST_SHOWN} earlier reconciles")
    lines += [
        f"{since:10.3f} s  {ref}: {name} is still reconciling since then"
        for (name, ref), since in environment.timeline.running.items()
    ]
    return "\n".join(lines)
